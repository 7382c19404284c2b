"""From one process to another: how soon a write, or a piece of streamed text, is known elsewhere.

The bare side is a byte through a pipe between the same two processes: what the machine's scheduler
takes at least. Both are measured in the same run, one after the other in turns. The goals are the
95th percentile.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from .lab import Lab, Measurement, run_all
from .measure import Finding, in_columns, interleaved, medians, progress
from .processes import ROOT, clean_environment
from .rows import Row

if TYPE_CHECKING:
    from hermes_state import SessionDB

ROUNDS, QUICK_ROUNDS = 200, 20
WRITE_GOAL, EVENT_GOAL = 0.100, 0.250
"""Seconds within which 95 of 100 are known elsewhere."""
_BARE = "a byte through a pipe"
_NOT_THEIRS = "hermes-agent has no such thing"


@contextlib.contextmanager
def _child(home: Path, part: str) -> Iterator[Callable[[str], float]]:
    """A process that does something when it is told, and says when that was.

    The clock is the machine's, the same in every process.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.between_child", str(home), part],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT,
        env=clean_environment(home.parent / "child"),
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def tell(what: str) -> float:
        stdin.write(f"{what}\n")
        return float(stdout.readline())

    try:
        tell("ready")
        yield tell
    finally:
        stdin.close()
        process.wait(30)
        stdout.close()


def _rounds(lab: Lab) -> int:
    return QUICK_ROUNDS if lab.quick else ROUNDS


def _finding(key: str, what: str, times: dict[str, list[float]], goal: float) -> Finding:
    figures = medians(times)
    tail = statistics.quantiles(times["ours"], n=20)[-1]
    return Finding(
        what,
        *in_columns(figures, "{:.2f} ms", 1e3),
        ratio=figures["ours"] / figures["bare"],
        goal=f"95 of 100 within {goal * 1e3:.0f} ms ({tail * 1e3:.1f} ms)",
        met=tail <= goal,
        details=times,
        row=Row.of(f"between.{key}", what, "ms", times, 1e3, bare=_BARE, absent=_NOT_THEIRS),
    )


def _pipe(tell: Callable[[str], float]) -> float:
    told = tell("pipe")
    return time.time() - told


def measure_write(lab: Lab) -> list[Finding]:
    """A message that another process stores, until a thread that waits for it has read it."""
    from hermes_state import SessionDB

    progress("a write, known in another process")
    home = lab.folder / "write"
    home.mkdir()
    with SessionDB(home / "state.db") as db, _child(home, "write") as tell:
        numbers = itertools.count()

        def once() -> float:
            value = str(next(numbers))
            with ThreadPoolExecutor(1) as waiting:
                known = waiting.submit(_await_value, db, value)
                written = tell(value)
                return max(0.0, known.result() - written)

        once()  # it begins to listen
        times = interleaved({"ours": once, "bare": lambda: _pipe(tell)}, _rounds(lab), seconds=60)
    return [_finding("write", "a write, known in another process", times, WRITE_GOAL)]


def _await_value(db: SessionDB, value: str) -> float:
    """Wait for what another process writes; returns when it was read."""
    seen = db.wake.number
    while db.get_meta("bench") != value:
        seen = db.wake.wait(seen, 5.0)
    return time.time()


def measure_event(lab: Lab) -> list[Finding]:
    """A piece of streamed text, until a viewer in another process has it."""
    from conversation.relay import View

    progress("streamed text, seen in another process")
    home = lab.folder / "event"
    home.mkdir()
    with _child(home, "event") as tell:
        view = View(home, _owner(home), "bench")
        seen = iter(view)

        def once() -> float:
            began = tell("piece")
            next(seen)
            return time.time() - began

        times = interleaved({"ours": once, "bare": lambda: _pipe(tell)}, _rounds(lab), seconds=60)
        view.close()
    return [_finding("event", "streamed text, seen in another process", times, EVENT_GOAL)]


def _owner(home: Path) -> str:
    return (home / "owner").read_text()


MEASUREMENTS: dict[str, Measurement] = {"write": measure_write, "event": measure_event}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of what passes between processes, or all, and print them."""
    return run_all("between", MEASUREMENTS, parts)
