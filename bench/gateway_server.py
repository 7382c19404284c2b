"""Running gateways, ours or theirs, and asking them: what `bench.gateway` measures with."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .lab import Lab
from .processes import ROOT

KEY = "bench-key-0123456789abcdef"
START_SECONDS = 90.0
SETTINGS = (
    "auxiliary: {title_generation: {enabled: false}}\nmemory: {review_every: 0}\n"
    "gateway: {api_server: {max_concurrent_runs: 0}}\n"  # theirs refuses more than ten otherwise
)
NO_SETTINGS: Mapping[str, str] = {}
_numbers = itertools.count()


class Gateway(NamedTuple):
    """A running gateway."""

    url: str
    pid: int
    seconds: float
    """How long it took to start."""
    home: Path
    """Its home."""

    def memory(self) -> float:
        """What it holds now, with its children, in MiB."""
        return sum(_resident(pid) for pid in _family(self.pid)) / 1024

    def cpu_seconds(self) -> float:
        """The processor time it has used, without its children's."""
        # The name of the program is in brackets and may have spaces in it.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(
    lab: Lab, side: str, model_url: str, settings: Mapping[str, str] = NO_SETTINGS, more: str = ""
) -> Iterator[Gateway]:
    """A gateway in a process of its own, with a home of its own, further variables and more in its
    configuration."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    name = f"gateway-{Path(side).name}-{next(_numbers)}"
    environment = lab.home(name, model_url, SETTINGS + more) | {
        "API_SERVER_ENABLED": "true",
        "API_SERVER_KEY": KEY,
        "API_SERVER_PORT": str(port),
        **settings,
    }
    url = f"http://127.0.0.1:{port}"
    with (lab.folder / f"{Path(side).name}.log").open("ab") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            [lab.hermes(side), "gateway", "run"],
            env=environment, cwd=environment["HERMES_HOME"],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            while not _is_up(url):
                if process.poll() is not None or time.perf_counter() - started > START_SECONDS:
                    said = (lab.folder / f"{Path(side).name}.log").read_text()[-3000:]
                    raise RuntimeError(f"The gateway of {side} does not start:\n{said}")
                time.sleep(0.005)
            home = Path(environment["HERMES_HOME"])
            yield Gateway(url, process.pid, time.perf_counter() - started, home)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _family(int(child))
    return found


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


class Load(NamedTuple):
    """What came of conversations at once; times in seconds."""

    turns_per_second: float
    seconds: float
    p50: float
    p99: float
    first_p50: float
    first_p99: float


def load(
    url: str, conversations: int, turns: int, *, stream: bool, name: str | None = None
) -> Load:
    """Conversations at once, each with some turns; those of the same `name` are gone on with."""
    task = {
        "url": url, "key": KEY, "conversations": conversations, "turns": turns, "stream": stream,
        "name": name or f"c{next(_numbers)}",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "bench.gateway_load", json.dumps(task)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{url} does not answer as it should: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    whole = sorted(turn for turn, _ in found["turns"])
    first = sorted(first for _, first in found["turns"])
    late = min(len(whole) - 1, int(len(whole) * 0.99))
    return Load(
        len(whole) / found["seconds"], found["seconds"],
        statistics.median(whole), whole[late], statistics.median(first), first[late],
    )  # fmt: skip


def peak(model: str) -> int:
    """How many requests the model answered at once since it was last asked this."""
    with urllib.request.urlopen(f"{model}/peak", timeout=5) as answer:
        return int(answer.read())
