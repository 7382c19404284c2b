"""Which processes belong to a run, so that no other is ever mistaken for one of them.

A process id is reused; an id together with its start time is not. Everything a run starts inherits
a marker in its environment, so that children which left the process group (`setsid`) are found
too. All this is read from `/proc`: where there is none, only the group of a child that is still
ours can be stopped, and nothing is concluded about any other process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hermes_base.process import Seen, is_running, machine, see, start_time

__all__ = [
    "MARKER",
    "Seen",
    "Target",
    "is_running",
    "machine",
    "marker_value",
    "members",
    "name_of",
    "new_marker",
    "see",
    "send",
    "start_time",
    "stop",
]

MARKER = "HERMES_TOOL_RUN"
"""The environment variable; its value is a list of markers, outermost first, with ":" between."""

_PROC = Path("/proc")
_KILL_ROUNDS = 40
"""Rounds of 25 ms in which processes that keep forking are killed anew."""


@dataclass(frozen=True, slots=True)
class Target:
    """The processes of one run."""

    marker: str
    pid: int | None = None
    """The leader of its process group."""
    start: int | None = None
    group_only: bool = False
    """Leave alone what moved to a group of its own."""


def new_marker() -> str:
    """A marker for a run."""
    return os.urandom(16).hex()


def marker_value(marker: str) -> str:
    """The marker variable's value: a Hermes that another one started keeps the other's marker."""
    outer = os.environ.get(MARKER)
    return f"{outer}:{marker}" if outer else marker


def members(targets: Iterable[Target]) -> list[Seen]:
    """Every living process of these runs: marked, in the leader's group, or descended from one."""
    everything = {process.pid: process for process in _all()}
    markers = {pid: _markers(pid) for pid in everything}
    processes: dict[int, Seen] = {}
    for target in targets:
        leader = None if target.pid is None else everything.get(target.pid)
        # Without its leader a group may be somebody else's by now.
        ours = leader is not None and leader.start == target.start
        own = {
            process.pid: process
            for process in everything.values()
            if (ours and process.group == target.pid) or target.marker in markers[process.pid]
        }
        if target.group_only:
            own = {pid: process for pid, process in own.items() if process.group == target.pid}
        else:
            _add_descendants(own, everything)
        processes |= own
    return [process for process in processes.values() if not process.gone]


def stop(
    targets: Iterable[Target], grace: float, between: Callable[[], object] = lambda: None
) -> list[int]:
    """End every process of these runs: SIGTERM, and SIGKILL for what is left after `grace` seconds.

    `between` is called while waiting. Returns the ids of processes that could not be ended.
    """
    targets = list(targets)
    left = members(targets)
    for process in left:
        send(process, signal.SIGTERM)
        send(process, signal.SIGCONT)
    deadline = time.monotonic() + grace
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        between()
        left = [process for process in left if is_running(process.pid, process.start)]
    for _ in range(_KILL_ROUNDS):
        left = members(targets)
        if not left:
            break
        for process in left:
            send(process, signal.SIGKILL)
        time.sleep(0.025)
        between()
    return [process.pid for process in left]


def send(process: Seen, number: signal.Signals) -> None:
    """Send a signal to exactly the process that was seen; one that is gone gets none."""
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(process.pid)
        try:
            if is_running(process.pid, process.start):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def name_of(pid: int) -> str:
    """The command line of a process, shortened, for people to read."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    return " ".join(b" ".join(words).decode(errors="replace").split())[:80] or "?"


def _all() -> Iterator[Seen]:
    if not (_PROC / "self/stat").exists():
        return
    own = os.getpid()
    for entry in os.listdir(_PROC):  # noqa: PTH208 - names are enough, and there are many
        if entry.isdigit() and int(entry) != own:
            process = see(int(entry))
            if process is not None:
                yield process


def _markers(pid: int) -> list[str]:
    try:
        environ = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return []  # it ended, or belongs to somebody else
    name = MARKER.encode() + b"="
    if name not in environ:
        return []
    values = [entry for entry in environ.split(b"\0") if entry.startswith(name)]
    return [mark for value in values for mark in os.fsdecode(value[len(name) :]).split(":")]


def _add_descendants(family: dict[int, Seen], everything: dict[int, Seen]) -> None:
    children: dict[int, list[Seen]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process)
    waiting = list(family)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.pid not in family:
                family[child.pid] = child
                waiting.append(child.pid)
