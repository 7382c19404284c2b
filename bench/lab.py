"""What benchmarks of whole programs share: sides, homes, a model that answers at once, one run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .measure import Finding, machine, scratch_folder, table, verdict, write_results
from .processes import ROOT, clean_environment
from .yardstick import HOW_TO, find_yardstick


@dataclass
class Lab:
    """Where and how much to measure."""

    folder: Path
    quick: bool
    yardstick: str | None
    """The interpreter that has hermes-agent 0.19.0, if there is one."""

    @property
    def sides(self) -> list[str]:
        """The programs that are measured: ours and, where it is installed, theirs."""
        return ["ours", "theirs"] if self.yardstick else ["ours"]

    def python(self, side: str) -> str:
        """The interpreter of a side."""
        return self.yardstick if side == "theirs" and self.yardstick else sys.executable

    def hermes(self, side: str) -> str:
        """The `hermes` command of a side."""
        return str(Path(self.python(side)).parent / "hermes")

    def home(self, name: str, model_url: str | None = None, more: str = "") -> dict[str, str]:
        """An environment with a home of its own, set up for the model at `model_url`."""
        environment = clean_environment(self.folder / name)
        home = Path(environment["HERMES_HOME"])
        home.mkdir(exist_ok=True)
        if model_url:
            (home / "config.yaml").write_text(
                "model:\n  default: zero\n  provider: custom\n"
                f"  base_url: {model_url}/v1\n  api_key: k\n  context_length: 128000\n{more}"
            )
        return environment

    def bare_python(self) -> float:
        """Seconds that an interpreter takes to start and do nothing."""
        return seconds([sys.executable, "-c", "pass"], clean_environment(self.folder / "bare"))


Measurement = Callable[[Lab], list[Finding]]


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """How long a command takes, from start to exit."""
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=environment["HOME"], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    took = time.perf_counter() - started
    if done.returncode:
        said = done.stderr[-2000:]
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}: {said}")
    return took


@contextlib.contextmanager
def zero_delay_model(chunks: int = 20, delay: float = 0.0, calls: int = 0) -> Iterator[str]:
    """The address of a model server in a process of its own; see `bench.zero_delay`."""
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.zero_delay", str(chunks), str(delay), str(calls)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin and server.stdout
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.stdin.close()
        server.wait(10)
        server.stdout.close()


def run_all(
    name: str, measurements: Mapping[str, Measurement], parts: Iterable[str]
) -> list[Finding]:
    """Measure the given parts, or all, keep the numbers under `name`, print what was found."""
    findings: list[Finding] = []
    facts = {"start": machine()}
    with scratch_folder() as folder:
        lab = Lab(folder, bool(os.environ.get("QUICK")), find_yardstick())
        try:
            for part in list(parts) or list(measurements):
                findings += measurements[part](lab)
        finally:  # a part that breaks does not take the others' figures with it
            print(table(findings))
    write_results(name, findings, {**facts, "end": machine()})
    print(f"\n{verdict(findings)}")
    if lab.yardstick is None:
        print(HOW_TO)
    return findings
