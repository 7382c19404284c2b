"""The gateway, measured through its API server with a model that answers at once, beside the same
requests sent to that model directly and, where it is installed, hermes-agent 0.19.0."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .agent import Lab, run_all
from .measure import Finding, progress
from .processes import ROOT, clean_environment

KEY = "bench-key-0123456789abcdef"
TURNS = 5
CHUNKS = 20
START_SECONDS = 90.0
_names = itertools.count()


class Gateway(NamedTuple):
    """A running gateway."""

    url: str
    pid: int
    seconds: float
    """How long it took to start."""

    def memory(self) -> float:
        """What it holds now, with its children, in MiB."""
        return sum(_resident(pid) for pid in _family(self.pid)) / 1024


@contextlib.contextmanager
def _model(delay: float = 0.0) -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.zero_delay", str(CHUNKS), str(delay)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin and server.stdout
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.stdin.close()
        server.wait(10)
        server.stdout.close()


@contextlib.contextmanager
def _gateway(lab: Lab, side: str, model_url: str) -> Iterator[Gateway]:
    """A gateway in a process of its own, with a home of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = clean_environment(lab.folder / f"{side}-{next(_names)}")
    home = Path(environment["HERMES_HOME"])
    home.mkdir(parents=True)
    (home / "config.yaml").write_text(
        f"model:\n  default: zero\n  provider: custom\n  base_url: {model_url}/v1\n"
        "  api_key: k\n  context_length: 128000\n"
        "auxiliary: {title_generation: {enabled: false}}\nmemory: {review_every: 0}\n"
        "gateway: {api_server: {max_concurrent_runs: 0}}\n"  # the other one refuses more than ten
    )
    environment |= {
        "API_SERVER_ENABLED": "true",
        "API_SERVER_KEY": KEY,
        "API_SERVER_PORT": str(port),
    }
    python = sys.executable if side == "ours" else lab.yardstick
    assert python is not None
    hermes = str(Path(python).parent / "hermes")
    url = f"http://127.0.0.1:{port}"
    with (lab.folder / f"{side}.log").open("ab") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            [hermes, "gateway", "run"],
            env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            while not _is_up(url):
                if process.poll() is not None or time.perf_counter() - started > START_SECONDS:
                    raise SystemExit(
                        f"The gateway of {side} does not start:\n"
                        + (lab.folder / f"{side}.log").read_text()[-3000:]
                    )
                time.sleep(0.005)
            yield Gateway(url, process.pid, time.perf_counter() - started)
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


def _load(url: str, conversations: int, turns: int, *, stream: bool) -> dict[str, Any]:
    task = {
        "url": url, "key": KEY, "conversations": conversations, "turns": turns, "stream": stream,
        "name": f"c{next(_names)}",
    }  # fmt: skip
    output = subprocess.run(
        [sys.executable, "-m", "bench.gateway_load", json.dumps(task)],
        cwd=ROOT, stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    found = json.loads(output)
    whole = sorted(turn for turn, _ in found["turns"])
    first = sorted(first for _, first in found["turns"])
    return {
        "turns_per_second": len(whole) / found["seconds"],
        "seconds": found["seconds"],
        "p50": statistics.median(whole),
        "p99": whole[min(len(whole) - 1, int(len(whole) * 0.99))],
        "first_p50": statistics.median(first),
        "first_p99": first[min(len(first) - 1, int(len(first) * 0.99))],
    }


def _sides(lab: Lab) -> list[str]:
    return ["ours", "theirs"] if lab.yardstick else ["ours"]


def start(lab: Lab) -> list[Finding]:
    """From the start of the process to the first answer of /health, and memory then."""
    progress("starting")
    seconds: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    with _model() as model:
        for _ in range(2 if lab.quick else 5):
            for side in _sides(lab):
                with _gateway(lab, side, model) as gateway:
                    seconds.setdefault(side, []).append(gateway.seconds)
                    memory.setdefault(side, []).append(gateway.memory())
    times = {side: statistics.median(found) for side, found in seconds.items()}
    sizes = {side: statistics.median(found) for side, found in memory.items()}
    half = sizes["ours"] <= sizes["theirs"] / 2 if "theirs" in sizes else None
    return [
        Finding(
            "start of the gateway", *_columns(times, lambda x: f"{x * 1e3:.0f} ms"),
            details=seconds,
        ),
        Finding(
            "memory when idle", *_columns(sizes, lambda x: f"{x:.0f} MiB"),
            goal="half of theirs", met=half, details=memory,
        ),
    ]  # fmt: skip


def _columns(figures: dict[str, Any], form: Callable[[Any], str]) -> tuple[str, str, str]:
    found = [form(figures[side]) if side in figures else "" for side in ("ours", "bare", "theirs")]
    return found[0], found[1], found[2]


THEIRS = {1: 5, 20: 5, 100: 2}
"""Conversations and turns that the other system is asked for; more would take minutes."""


def one(lab: Lab) -> list[Finding]:
    """A single conversation: time per turn, and memory."""
    return _crowds(lab, (1,))


def crowd(lab: Lab) -> list[Finding]:
    """Conversations at once, several turns each: time per turn, turns per second, memory."""
    return _crowds(lab, (20, 100) if lab.quick else (20, 100, 500))


def _crowds(lab: Lab, sizes: Iterable[int]) -> list[Finding]:
    found = []
    for conversations in sizes:
        for stream in (False, True):
            how = "streamed" if stream else "whole"
            progress(f"{conversations} conversations at once, {how}")
            found += _crowd(lab, conversations, stream)
    return found


def _crowd(lab: Lab, conversations: int, stream: bool) -> list[Finding]:
    figures: dict[str, dict[str, Any]] = {}
    memory: dict[str, list[float]] = {}
    with _model() as model:
        figures["bare"] = _load(model, conversations, TURNS, stream=stream)
        for side in _sides(lab):
            turns = TURNS if side == "ours" else THEIRS.get(conversations)
            if turns is None:
                continue
            with _gateway(lab, side, model) as gateway:
                _load(gateway.url, 1, 2, stream=stream)  # the first turn loads what is lazy
                before = gateway.memory()
                rounds = 1 if conversations > 1 else 10
                runs = [
                    _load(gateway.url, conversations, turns, stream=stream) for _ in range(rounds)
                ]
                figures[side] = min(runs, key=lambda run: abs(run["p50"] - _middle(runs)))
                memory[side] = [before, gateway.memory()]
    ours, theirs = figures["ours"], figures.get("theirs")
    name = f"{conversations} at once, {'streamed' if stream else 'whole'}"
    over = {side: _over(one, figures["bare"]) for side, one in figures.items()}
    faster = ours["turns_per_second"] / theirs["turns_per_second"] if theirs else None
    goal_rate = conversations == 100 and faster is not None
    small = memory["ours"][1] <= memory["theirs"][1] / 2 if "theirs" in memory else None
    each = (memory["ours"][1] - memory["ours"][0]) / conversations * 1024
    findings = [
        Finding(
            f"{name}: turns per second",
            *_columns(figures, lambda one: f"{one['turns_per_second']:.0f}"),
            ratio=faster,
            goal="20 times theirs" if goal_rate else "",
            met=faster >= 20 if goal_rate and faster is not None else None,
            details=figures,
        ),
        Finding(
            f"{name}: overhead per turn, p50 / p99",
            *_columns(over, lambda one: f"{one[0] * 1e3:.1f} / {one[1] * 1e3:.1f} ms"),
            goal="p50 under 10 ms" if conversations == 1 else "",
            met=over["ours"][0] < 0.010 if conversations == 1 else None,
        ),
        Finding(
            f"{name}: memory after",
            *_columns(memory, lambda one: f"{one[1]:.0f} MiB"),
            goal="half of theirs" if small is not None else "",
            met=small,
            details=memory,
        ),
    ]
    if conversations > 1:
        findings[-1].what += f" (ours: {each:.0f} KiB each)"
    if stream:
        findings.append(
            Finding(
                f"{name}: first token, p50 / p99",
                *_columns(
                    figures,
                    lambda one: f"{one['first_p50'] * 1e3:.1f} / {one['first_p99'] * 1e3:.1f} ms",
                ),
            )
        )
    return findings


def _middle(runs: list[dict[str, Any]]) -> float:
    return statistics.median(run["p50"] for run in runs)


def _over(one: dict[str, Any], bare: dict[str, Any]) -> tuple[float, float]:
    if one is bare:
        return one["p50"], one["p99"]
    return one["p50"] - bare["p50"], one["p99"] - bare["p99"]


def slow(lab: Lab) -> list[Finding]:
    """Conversations in flight together on a model that takes a second."""
    conversations = 100 if lab.quick else 500
    progress(f"{conversations} conversations on a model that takes a second")
    with _model(1.0) as model, _gateway(lab, "ours", model) as gateway:
        _load(gateway.url, 1, 1, stream=False)
        _peak(model)
        ours = _load(gateway.url, conversations, 1, stream=False)
        most = _peak(model)
    return [
        Finding(
            f"{conversations} conversations, a model that takes 1 s",
            f"{ours['seconds']:.2f} s in all, {most} at once",
            goal="all in flight together",
            met=most == conversations,
            details=ours,
        )
    ]


def _peak(model: str) -> int:
    with urllib.request.urlopen(f"{model}/peak", timeout=5) as answer:
        return int(answer.read())


MEASUREMENTS: dict[str, Callable[[Lab], list[Finding]]] = {
    "start": start,
    "one": one,
    "crowd": crowd,
    "slow": slow,
}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of the gateway, or all, and print what was found."""
    return run_all("gateway", MEASUREMENTS, parts)
