"""Who holds something in the store: a process that can be told from every other.

A process id is reused; an id together with its start time, on one boot of one machine, is not. What
is not visible from here (another machine, another container) is never concluded to be gone: there
only the heartbeat tells. All this is read from `/proc`; where there is none, ids alone are looked
at.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Seen:
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
    """The name of this process as an owner."""
    return _name_of(os.getpid())


@cache
def _name_of(pid: int) -> str:
    # By id, so that a forked child does not go by its parent's name.
    start = start_time(pid)
    return "|".join((*machine(), str(pid), "" if start is None else str(start)))


def is_gone(owner: str) -> bool:
    """Whether an owner has certainly ended; False if it runs or cannot be seen from here."""
    parts = owner.split("|")
    if len(parts) != 5 or not parts[3].isdigit():
        return False
    here = machine()
    if parts[0] == here[0] and parts[1] != here[1]:
        return True  # the machine was started anew
    if tuple(parts[:3]) != here:
        return False
    pid = int(parts[3])
    return not (is_running(pid, int(parts[4])) if parts[4] else exists(pid))


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
