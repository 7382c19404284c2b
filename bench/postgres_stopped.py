"""Gateways whose store's server says nothing for ten seconds: how long their event loop is held.

Beside it the same load with the server running, and how late a process is at the same time that
does nothing but tick: what the machine itself adds.
"""

from __future__ import annotations

import contextlib
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from .lab import Lab
from .measure import Finding, progress
from .processes import ROOT, Child
from .rows import Row

HELD_SECONDS = 0.005
BARE = "a process that does nothing but tick, at the same time"
_IDLE = """
import asyncio, sys, time
async def tick(seconds):
    end, worst = time.perf_counter() + seconds, []
    while time.perf_counter() < end:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        worst.append(time.perf_counter() - began - 0.001)
    print(max(worst))
asyncio.run(tick(float(sys.argv[1])))
"""


def measure_stopped(lab: Lab, server: Any, address: str, absent: str) -> list[Finding]:
    """The longest pass of the loop with the server running and stopped, in several rounds."""
    seconds, rounds = (2.0, 1) if lab.quick else (10.0, 3)
    found: dict[str, dict[str, list[float]]] = {"running": {}, "stopped": {}}
    facts: dict[str, list[Any]] = {"running": [], "stopped": []}
    child = Child(lab.folder / "stopped", module="bench.stopped_child")
    try:
        home = lab.folder / "stopped" / "home"
        home.mkdir(parents=True, exist_ok=True)
        url = child.ask("open", address=address, home=str(home))["url"]
        for number in range(rounds):
            for how in ("running", "stopped"):
                progress(f"an event loop with its server {how}, round {number + 1}")
                told = _round(child, server, url, seconds, how == "stopped")
                facts[how].append(told)
                found[how].setdefault("ours", []).append(told["longest"])
                found[how].setdefault("bare", []).append(told["machine"])
        child.ask("close")
    finally:
        child.stop()
    return [_finding(how, seconds, found[how], facts[how], absent) for how in found]


def _round(child: Child, server: Any, url: str, seconds: float, is_stopped: bool) -> dict[str, Any]:
    child.ask("begin")
    time.sleep(0.5)
    with _idle_ticks(seconds) as idle, _stopped(server) if is_stopped else contextlib.nullcontext():
        health = _health(url, seconds)
        told = child.ask("pause")
    finished = child.ask("finish")
    lags, held = told.pop("lags"), told.pop("held")
    longest, computing = max(held)
    return {
        **told,
        "longest": longest,
        "computing": computing,
        "longest_lag": max(lags),
        "p99_lag": statistics.quantiles(lags, n=100)[98],
        "passes": len(held),
        "long_passes": sum(seconds > HELD_SECONDS for seconds, _ in held),
        "machine": idle[0],
        "health": health,
        "finished": finished,
    }


@contextlib.contextmanager
def _stopped(server: Any) -> Iterator[None]:
    server.signal_all(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal_all(signal.SIGCONT)


@contextlib.contextmanager
def _idle_ticks(seconds: float) -> Iterator[list[float]]:
    """The longest lag of a process that only ticks; known at the end."""
    ticking = subprocess.Popen(
        [sys.executable, "-c", _IDLE, str(seconds)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    found: list[float] = []
    try:
        yield found
    finally:
        found.append(float(ticking.communicate()[0]))


def _health(url: str, seconds: float) -> float:
    """The longest answer to a question that needs no store, asked for so long."""
    end, longest = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        began = time.perf_counter()
        with urllib.request.urlopen(f"{url}/health", timeout=60) as answer:
            assert answer.status == 200
        longest = max(longest, time.perf_counter() - began)
        time.sleep(0.1)
    return longest


def _finding(
    how: str, seconds: float, found: dict[str, list[float]], facts: list[Any], absent: str
) -> Finding:
    ours, machine = (statistics.median(found[side]) for side in ("ours", "bare"))
    what = f"server {how} for {seconds:.0f} s: longest that the gateways' event loop is held"
    is_goal = how == "stopped"
    return Finding(
        what,
        f"{ours * 1e3:.1f} ms",
        bare=f"{machine * 1e3:.1f} ms",
        goal=f"≤ {HELD_SECONDS * 1e3:.0f} ms" if is_goal else "",
        met=ours <= HELD_SECONDS if is_goal else None,
        details={"lags": found, "facts": facts},
        row=Row.of(
            f"postgres.stopped.{how}", f"gateway on PostgreSQL, {what}", "ms", found, 1e3,
            bare=BARE, absent=absent,
        ),
    )  # fmt: skip
