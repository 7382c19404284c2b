"""What a wall costs: a command inside beside the same one outside, and the agent's memory.

Both sides run through the terminal tool, judged and recorded as ever; the only difference is
`terminal.sandbox`. Every kind of wall that this machine can build is measured.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .lab import Lab, Measurement, run_all
from .measure import Finding, in_columns, interleaved, medians, progress
from .processes import ROOT, clean_environment
from .rows import Row

KINDS = ("bubblewrap", "landlock")
AT_MOST_MORE = 0.025
"""Seconds that a command may take longer inside."""
AT_ONCE = 100
ROUNDS, QUICK_ROUNDS = (
    {"command": 101, "start": 21, "at_once": 7, "memory": 3},
    {"command": 15, "start": 5, "at_once": 3, "memory": 1},
)
MOST_MEGABYTES = 10
_OUTSIDE = "the same without a wall"
_NOT_THEIRS = "this is about the cost of our own wall"
_numbers = itertools.count()


@contextlib.contextmanager
def _kind(name: str) -> Iterator[bool]:
    """Build walls of one kind; False if this machine cannot."""
    from tools.wall.kinds import means

    before = os.environ.get("HERMES_WALL")
    os.environ["HERMES_WALL"] = name
    try:
        yield means().kind == name
    finally:
        if before is None:
            del os.environ["HERMES_WALL"]
        else:
            os.environ["HERMES_WALL"] = before


class _Conversation:
    """A conversation of its own, inside a wall or not."""

    def __init__(self, folder: Path, sandbox: str) -> None:
        from tools.base import ToolContext, Workspace

        place = folder / f"wall-{next(_numbers)}"
        for name in ("home", "project"):
            (place / name).mkdir(parents=True)
        settings = {"terminal": {"sandbox": sandbox}}
        self.workspace = Workspace(place / "home", place / "project", settings=settings)
        self._context = ToolContext("s1", "call_1", workspace=self.workspace)

    def run(self, command: str = "true") -> None:
        from tools.terminal.tool import terminal

        text = str(terminal.run(self._context, command))
        if text != "[no output]":
            raise RuntimeError(f"{command} did not go as expected: {text}")

    def close(self) -> None:
        from tools.terminal.tool import close_terminal

        close_terminal(self.workspace)


def _rounds(lab: Lab, part: str) -> int:
    return (QUICK_ROUNDS if lab.quick else ROUNDS)[part]


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _first_command(folder: Path, sandbox: str) -> float:
    conversation = _Conversation(folder, sandbox)
    try:
        return _seconds(conversation.run)
    finally:
        conversation.close()


def _all_at_once(conversation: _Conversation) -> float:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return _seconds(lambda: list(pool.map(lambda _: conversation.run(), range(AT_ONCE))))


def _finding(
    key: str, kind: str, what: str, times: dict[str, list[float]], most: float | None = None
) -> Finding:
    figures = medians(times)
    more = figures["ours"] - figures["bare"]
    goal = f"at most {most * 1e3:.0f} ms more ({more * 1e3:.1f} ms)" if most else ""
    return Finding(
        f"{kind}: {what}",
        *in_columns(figures, "{:.1f} ms", 1e3),
        ratio=figures["ours"] / figures["bare"],
        goal=goal,
        met=more <= most if most else None,
        details=times,
        row=Row.of(
            f"wall.{key}.{kind}",
            f"wall, {kind}: {what}",
            "ms",
            times,
            1e3,
            bare=_OUTSIDE,
            absent=_NOT_THEIRS,
        ),
    )


def _measured(lab: Lab, measure: Callable[[Lab, str], Finding], what: str) -> list[Finding]:
    findings = []
    for kind in KINDS:
        with _kind(kind) as can_be_built:
            if can_be_built:
                progress(f"{kind}: {what}")
                findings.append(measure(lab, kind))
            else:
                progress(f"{kind} cannot be built here")
    return findings


def _pairs(lab: Lab) -> dict[str, _Conversation]:
    found = {
        side: _Conversation(lab.folder, sandbox)
        for side, sandbox in (("ours", "required"), ("bare", "off"))
    }
    for conversation in found.values():
        conversation.run()  # the first one sets things up
    return found


def _command(lab: Lab, kind: str) -> Finding:
    pairs = _pairs(lab)
    sides = {side: functools.partial(_seconds, one.run) for side, one in pairs.items()}
    times = interleaved(sides, _rounds(lab, "command"), seconds=60)
    for conversation in pairs.values():
        conversation.close()
    return _finding("command", kind, "one command", times, AT_MOST_MORE)


def _start(lab: Lab, kind: str) -> Finding:
    sides = {
        side: functools.partial(_first_command, lab.folder, sandbox)
        for side, sandbox in (("ours", "required"), ("bare", "off"))
    }
    for first in sides.values():
        first()  # what is loaded with the first command of all is not the wall's
    times = interleaved(sides, _rounds(lab, "start"), seconds=60)
    return _finding("start", kind, "first command of a conversation", times)


def _at_once(lab: Lab, kind: str) -> Finding:
    pairs = _pairs(lab)
    sides = {side: functools.partial(_all_at_once, one) for side, one in pairs.items()}
    times = interleaved(sides, _rounds(lab, "at_once"), seconds=90)
    for conversation in pairs.values():
        conversation.close()
    return _finding("at_once", kind, f"{AT_ONCE} commands at once", times, AT_MOST_MORE * AT_ONCE)


def _memory(lab: Lab, kind: str) -> Finding:
    samples: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(_rounds(lab, "memory")):
        place = lab.folder / f"memory-{kind}-{number}"
        done = subprocess.run(
            [sys.executable, "-m", "bench.wall_child", str(place)],
            env={**clean_environment(place), "HERMES_WALL": kind}, cwd=ROOT,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"bench.wall_child failed: {done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        samples["ours"].append(found["connected"])
        samples["bare"].append(found["before"])
    figures = medians(samples)
    more = figures["ours"] - figures["bare"]
    what = "memory of the agent, a wall and 20 connections"
    return Finding(
        f"{kind}: {what}",
        *in_columns(figures, "{:.1f} MB"),
        ratio=figures["ours"] / figures["bare"],
        goal=f"at most {MOST_MEGABYTES} MB more ({more:.1f} MB)",
        met=more <= MOST_MEGABYTES,
        details=samples,
        row=Row(
            f"wall.memory.{kind}",
            f"wall, {kind}: {what}",
            "MB",
            samples,
            bare=_OUTSIDE,
            absent=_NOT_THEIRS,
        ),
    )


def command(lab: Lab) -> list[Finding]:
    """A command that does nothing, in a conversation that has run one before."""
    return _measured(lab, _command, "one command")


def start(lab: Lab) -> list[Finding]:
    """The first command of a conversation, which builds the wall."""
    return _measured(lab, _start, "first commands")


def at_once(lab: Lab) -> list[Finding]:
    """A hundred commands of one conversation at once."""
    return _measured(lab, _at_once, f"{AT_ONCE} commands at once")


def memory(lab: Lab) -> list[Finding]:
    """The agent's process with a wall, its proxy and connections through it."""
    return _measured(lab, _memory, "memory")


MEASUREMENTS: dict[str, Measurement] = {
    "command": command,
    "start": start,
    "at_once": at_once,
    "memory": memory,
}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of what a wall costs, or all, and print what was found."""
    return run_all("wall", MEASUREMENTS, parts)
