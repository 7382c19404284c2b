"""A wall as lists of places for Landlock, where there is no bubblewrap.

Landlock can only allow: what is to stay hidden is left out. A folder with something hidden in it
cannot be allowed as a whole, so what else is in it is listed, one by one; names that appear there
later are not seen. It cannot hide that a file exists, nor stop a change of permissions.
"""

from __future__ import annotations

import os
from pathlib import Path

from .policy import Wall

_MOST_RULES = 20_000
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
_READABLE_DEVICES = ("/dev/random", "/dev/urandom")
"""No other: there are disks among them, and the terminals of whoever is logged in."""


def rules(wall: Wall) -> tuple[list[str], list[str]]:
    """What can be read, and what can be written."""
    hidden = {str(path) for path in wall.hidden} | {"/tmp", "/var/tmp", "/run", "/dev"}
    shown = {str(path) for path in (*wall.readable, *wall.writable)}
    above = {str(parent) for place in hidden for parent in Path(place).parents}
    readable: list[str] = []
    _collect("/", hidden - shown, above, readable)
    writable = [str(path) for path in wall.writable]
    kept = {str(path) for path in (*wall.hidden, *wall.readable)} - set(writable)
    over = {str(parent) for place in kept for parent in Path(place).parents}
    for place in list(writable):
        if place in over:
            # Something within it may not be written: the rest of it, one by one.
            writable.remove(place)
            _collect(place, kept, over, writable)
    for path in wall.readable:
        _collect(str(path), hidden - shown, above, readable)
    scratch = [str(wall.scratch)] if wall.scratch else []
    return [*readable, *_READABLE_DEVICES], [*writable, *scratch, *_DEVICES]


def _collect(folder: str, hidden: set[str], above: set[str], folders: list[str]) -> None:
    if folder in hidden:
        return
    if folder not in above:
        folders.append(folder)
        return
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names are enough
    except OSError:
        return  # closed to this account
    for name in names:
        path = f"{folder.rstrip('/')}/{name}"
        # A link leads to a place with a rule of its own.
        if not os.path.islink(path) and len(folders) < _MOST_RULES:  # noqa: PTH114 - a name
            _collect(path, hidden, above, folders)
