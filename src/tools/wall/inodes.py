"""Hidden files under other names: hard links and bind mounts.

A path says where a file is said to be; its inode says which file it is. The file tools work outside
the wall, so they compare inodes with those of what is hidden.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from .policy import Wall

Inode = tuple[int, int]
_MOST = 20_000
"""Files that are looked at; beyond that only the folders themselves are known."""
_KEPT_SECONDS = 5.0
_lock = threading.Lock()
_known: dict[tuple[Path, ...], tuple[float, frozenset[Inode]]] = {}


def is_hidden_file(path: Path, wall: Wall) -> bool:
    """Whether a file, or a folder on the way to it, is a hidden one under another name."""
    shown = {*wall.writable, *wall.readable}
    secret = _inodes(wall.hidden, shown)
    for place in (path, *path.parents):
        if place in shown:
            return False
        try:
            info = place.stat()
        except OSError:
            continue  # not there yet: nothing to be mistaken for
        if (info.st_dev, info.st_ino) in secret:
            return True
    return False


def _inodes(hidden: tuple[Path, ...], shown: set[Path]) -> frozenset[Inode]:
    with _lock:
        at, inodes = _known.get(hidden, (0.0, frozenset()))
        if not inodes or time.monotonic() - at > _KEPT_SECONDS:
            inodes = _scan(hidden, {str(place) for place in shown})
            _known.clear()
            _known[hidden] = time.monotonic(), inodes
        return inodes


def _scan(hidden: tuple[Path, ...], shown: set[str]) -> frozenset[Inode]:
    inodes: set[Inode] = set()
    waiting: list[str] = [str(place) for place in hidden]
    while waiting:
        place = waiting.pop(0)
        if place in shown:
            continue
        try:
            info = os.stat(place, follow_symlinks=False)  # noqa: PTH116 - many of them
            inodes.add((info.st_dev, info.st_ino))
            if len(inodes) < _MOST and os.path.isdir(place):  # noqa: PTH112 - many of them
                waiting += [entry.path for entry in os.scandir(place) if not entry.is_symlink()]
        except OSError:
            continue  # closed, or gone meanwhile
    return frozenset(inodes)
