"""Unique identities of processes, and whether they have ended.

A process id is reused; an id together with its start time, on one boot of one machine, is not. A
process that is not visible from here (another machine, another container) is never taken for dead:
only its heartbeat tells. All this is read from `/proc`; where there is none, ids alone are looked
at.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_LARGEST_PID = 2**31 - 1


class Seen(NamedTuple):
    """A process as it was seen at one moment."""

    pid: int
    parent: int
    group: int
    start: int
    """When it was started, in clock ticks since the machine was."""
    gone: bool
    """It has ended, and only its parent has not asked yet how."""


def see(pid: int) -> Seen | None:
    """The process with that id, or None."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold anything, blanks and parentheses too.
    fields = text[text.rindex(b")") + 2 :].split()
    return Seen(pid, int(fields[1]), int(fields[2]), int(fields[19]), fields[0] in b"ZX")


def start_time(pid: int) -> int | None:
    """When a process was started, or None if that is not known."""
    process = see(pid)
    return None if process is None else process.start


def is_running(pid: int, start: int | None) -> bool:
    """Whether the process with that id is still the one that was started then."""
    process = see(pid)
    return process is not None and process.start == start and not process.gone


def exists(pid: int) -> bool:
    """Whether there is a process with that id, whoever it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is somebody's
    return True


@cache
def machine() -> tuple[str, str, str]:
    """This machine, this boot of it, and the namespace that process ids belong to here."""
    return _line("/etc/machine-id"), _line("/proc/sys/kernel/random/boot_id"), _namespace()


def this_process() -> str:
    """The owner id of this process."""
    return _name_of(os.getpid())


@cache
def _name_of(pid: int) -> str:
    # By pid, so that a forked child does not use its parent's owner id.
    return name_process(pid)


def name_process(pid: int) -> str:
    """The owner id of a process of this machine."""
    start = start_time(pid)
    return "|".join((*machine(), str(pid), "" if start is None else str(start)))


def is_gone(owner: str, *, this_boot: bool = False) -> bool:
    """Whether an owner has certainly ended; False if it runs or cannot be seen from here.

    With `this_boot` nothing is concluded from another boot: where owners are on several machines,
    two of them may have been copied from one, id and all.
    """
    parts = owner.split("|")
    if len(parts) != 5 or not _is_number(parts[3]) or not (parts[4] == "" or _is_number(parts[4])):
        return False
    if this_boot and tuple(parts[:3]) != machine():
        return False
    return has_ended(parts[:3], int(parts[3]), int(parts[4]) if parts[4] else None)


def is_of_this_machine(owner: str) -> bool:
    """Whether an owner runs, or ran, on this machine, so that its files are here."""
    place, here = owner.split("|")[:3], machine()
    return place[0] == here[0] if here[0] and place[0] else tuple(place) == here


def has_ended(place: Sequence[str], pid: int, start: int | None) -> bool:
    """Whether a process has certainly ended; False if it runs or cannot be seen from here.

    `place` is what `machine()` gave where it ran, `start` its start time, if that was known.
    """
    if len(place) != 3 or not 0 < pid <= _LARGEST_PID:
        return False
    here = machine()
    if tuple(place) != here:
        # Another boot of this machine has ended everything that ran in this one's past. Of another
        # machine, or one that has no id to know it by, or another container, nothing is known.
        is_this_machine = place[0] == here[0] != ""
        return is_this_machine and "" not in (place[1], here[1]) and place[1] != here[1]
    return not exists(pid) if start is None else not is_running(pid, start)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""
