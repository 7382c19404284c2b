"""SQLite's errors by the store's own names, with a word on what to do.

SQLite calls many things an I/O error: a full disk where it makes its shared index, a quota, a file
system that became read-only. And it calls a page that the disk did not give back damaged, though it
may be there again in a moment. The operating system knows better, and is asked.
"""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path

import apsw

from .errors import (
    StoreBusyError,
    StoreCorruptedError,
    StoreError,
    StoreFullError,
    StoreIOError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

_ROOM_NEEDED = 65_536
"""Bytes; with less than this SQLite cannot even make the files it keeps beside the database."""


def translated(error: apsw.Error, path: Path, system_errno: int = 0) -> StoreError:
    """The store's own error for a SQLite error; `system_errno` is what the system said with it."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusyError(
            f"{path} is locked by another process and did not become free in time; "
            "nothing was written. Try again, or see what holds it (fuser, lsof)."
        )
    if isinstance(error, apsw.FullError):
        return _full(path)
    if isinstance(error, apsw.ReadOnlyError):
        if _is_read_only(path):
            return _read_only(path)
        return StoreReadOnlyError(f"{path} cannot be written. Check the permissions of its folder.")
    if isinstance(error, _BLAMED) and _reading_failed():
        return _io_error(error, path, errno.EIO)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return StoreCorruptedError(
            f"{path} is damaged ({error}). Open it anew to have it salvaged."
        )
    if isinstance(error, apsw.CantOpenError | apsw.AuthError | apsw.PermissionsError):
        if system_errno in _NO_ROOM or is_full(path):
            return _full(path)
        if _is_read_only(path):
            return _read_only(path)
        return StoreUnavailableError(
            f"{path} cannot be opened ({error}). Check that it can be read, and its folder written."
        )
    if isinstance(error, apsw.IOError):
        return _io_error(error, path, system_errno)
    if isinstance(error, apsw.TooBigError):
        return StoreError(f"That is larger than SQLite can store in one value: {error}")
    return StoreError(f"{path}: {error}")


_BLAMED = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
"""What SQLite may raise when the disk gives nothing back: damage, or tables that it cannot see."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@functools.cache
def _system() -> apsw.VFS:
    return apsw.VFS("hermes-last-error", "")


def _reading_failed() -> bool:
    """Whether what failed last in this thread was the disk; SQLite does not keep that number."""
    if _system().xGetLastError()[0] not in (errno.EIO, errno.ENXIO):
        return False
    # Another error in the place of that one: damage that is found later is not blamed on it.
    Path("/dev/null/no such file").exists()
    return True


def _io_error(error: apsw.Error, path: Path, system_errno: int) -> StoreError:
    if system_errno in _NO_ROOM or is_full(path):
        return _full(path)
    if system_errno == errno.EROFS or _is_read_only(path):
        return _read_only(path)
    reason = f"{error}: {os.strerror(system_errno)}" if system_errno else str(error)
    return StoreIOError(f"Reading or writing {path} failed ({reason}). Check the disk.")


def _full(path: Path) -> StoreFullError:
    return StoreFullError(f"No room left on the disk of {path}; nothing was written. Free some.")


def _read_only(path: Path) -> StoreReadOnlyError:
    return StoreReadOnlyError(
        f"The disk of {path} is read-only; nothing was written. Check the disk, and mount it for "
        "writing again."
    )


def is_full(path: Path) -> bool:
    """Whether SQLite could not even make its files beside `path` any more."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _ROOM_NEEDED or (disk.f_files > 0 and not disk.f_favail)


def _is_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False
