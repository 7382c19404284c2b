"""Private files, written atomically.

A file is written under another name beside its place, readable by its owner alone from the start,
flushed to the disk, and then given its name; the folder is flushed too, so that the name survives a
loss of power. A reader sees the old content or the new one. What a killed process leaves is a
hidden file that ends in `.partial`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".partial"
PRIVATE = 0o600
ABANDONED_SECONDS = 3600
"""A `.partial` file that was not changed for so long is abandoned."""


def write_private(
    path: Path, data: str | bytes, *, durable: bool = True, mode: int = PRIVATE
) -> None:
    """Put text (as UTF-8) or bytes into a file, in place of what it had.

    Without `durable` it is not flushed to the disk: for what means nothing after a loss of power.
    """
    encoded = data.encode() if isinstance(data, str) else data
    with replace_private(path, durable=durable, mode=mode) as file:
        file.write(encoded)


@contextlib.contextmanager
def replace_private(path: Path, *, durable: bool = True, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Write a file piece by piece; it takes its place when the block ends, unless that raises.

    Until then its `name` is the temporary file, which may be read first.
    """
    partial = path.with_name(f".{os.urandom(8).hex()}{PARTIAL}")
    try:
        with open(partial, "x+b", opener=_open_private) as file:
            yield file
            file.flush()
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)  # whatever the umask is
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), PRIVATE)


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes (and threads); its file, and its private folder, are made."""
    private_folder(path.parent)
    descriptor = _open_private(str(path), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder survive a loss of power."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # a folder that one may write to but not list cannot be flushed
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep_partial(folder: Path) -> None:
    """Remove abandoned `.partial` files of killed processes from a folder."""
    oldest = time.time() - ABANDONED_SECONDS
    for path in folder.glob(f".*{PARTIAL}"):
        with contextlib.suppress(FileNotFoundError):  # another process removed it first
            if path.is_file() and path.stat().st_mtime < oldest:
                path.unlink()
