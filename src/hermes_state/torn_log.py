"""A damaged write-ahead log: commits behind the damage are lost, and the loss is reported.

SQLite reads its log up to the first frame that does not check out and takes that for the end; the
next write overwrites what follows. A crash leaves at most one commit there, which nobody was told
of. More than one means that commits which were acknowledged cannot be read any more: then the log
is copied before it is overwritten, and the loss is reported. (A log that was truncated shows
nothing of what is missing.)
"""

from __future__ import annotations

import logging
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

import apsw

log = logging.getLogger(__name__)

_HEADER = struct.Struct(">IIIIIIII")
_FRAME = struct.Struct(">IIII")
_FRAME_HEADER = 24
_MAGIC = (0x377F0682, 0x377F0683)
_FAR_ENOUGH = 5000
"""Frames that are looked at behind the end; a log that was long once is not read as a whole."""


class Tear(NamedTuple):
    """What a log holds behind the place where SQLite stops reading it."""

    readable: int
    """How many frames can be read."""
    commits: int
    """How many commits lie behind them."""


def log_of(path: Path) -> Path:
    """The write-ahead log of the database at `path`."""
    return path.with_name(path.name + "-wal")


def find_tear(path: Path, reader: apsw.Connection) -> Tear | None:
    """Commits that were acknowledged and cannot be read; None if there is no sign of any."""
    try:
        size = log_of(path).stat().st_size
    except OSError:
        return None
    if size <= _HEADER.size:
        return None
    reader.execute("PRAGMA schema_version").fetchall()  # makes SQLite read its log
    readable, _ = reader.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    with log_of(path).open("rb", buffering=0) as file:
        head = os.pread(file.fileno(), _HEADER.size + _FRAME.size, 0)
        if len(head) < _HEADER.size + _FRAME.size:
            return None
        _, _, page_size, _, *salts, _, _ = _HEADER.unpack_from(head)
        if not _is_sound(head):
            page_size = reader.pragma("page_size")
            *_, first, second = _FRAME.unpack_from(head, _HEADER.size)
            salts = [first, second]  # all frames of one run of the log have the same
        step = _FRAME_HEADER + page_size
        at = _HEADER.size + max(readable, 0) * step
        commits = 0
        for place in range(at, min(size, at + _FAR_ENOUGH * step), step):
            frame = os.pread(file.fileno(), _FRAME.size, place)
            if len(frame) < _FRAME.size:
                break
            _, pages_after_commit, *own_salts = _FRAME.unpack(frame)
            commits += bool(pages_after_commit) and own_salts == salts
    return Tear(max(readable, 0), commits) if commits > 1 else None


def _is_sound(head: bytes) -> bool:
    """Whether the header of a log is one that SQLite accepts."""
    magic, *_, sum_0, sum_1 = _HEADER.unpack_from(head)
    if magic not in _MAGIC:
        return False
    words = struct.unpack_from(">6I" if magic & 1 else "<6I", head)
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return (first, second) == (sum_0, sum_1)


def set_log_aside(path: Path, tear: Tear) -> Path:
    """Copy the log before it is overwritten, and say what is known of the loss."""
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
    aside = path.with_name(f"{path.name}-wal.torn-{stamp}")
    target = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with log_of(path).open("rb") as source, os.fdopen(target, "wb") as copy:
        while piece := source.read(1 << 20):
            copy.write(piece)
    log.error(
        "The write-ahead log of %s is damaged: its last %d changes cannot be read, and the store is"
        " as it was before them. The log is kept at %s; a newer state may be in a backup.",
        path,
        tear.commits,
        aside,
    )
    return aside
