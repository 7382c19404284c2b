"""A write-ahead log or its index that was deleted while the store was open.

SQLite goes on with the deleted files, and the next process to open the store creates new ones: then
there are two logs for one file, and the last process to checkpoint its log overwrites the other's
commits. So no process creates a new log while any other still uses the old one (`require_one_log`),
and a process that finds its log deleted checkpoints it into the file and connects anew.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from .errors import StoreUnavailableError

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds to wait for those who use the old log; two that open a store at once take far less."""
_HEADER = 32


class Logs(NamedTuple):
    """The log and its index beside a database, by inode; None for one that is not there."""

    wal: int | None
    shm: int | None


def inode(path: str) -> int | None:
    """Which file is there; None if there is none, or in a folder we may not look into any more."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - twice as quick
    except OSError:
        return None


def logs_of(path: str) -> Logs:
    """Which log and index the database at `path` has now."""
    return Logs(inode(path + "-wal"), inode(path + "-shm"))


def require_one_log(path: Path) -> None:
    """Before connecting: refuse to make a new log while others use one that was deleted."""
    logs = logs_of(str(path))
    if None in logs:
        require_alone(path, logs)


def require_alone(path: Path, seen: Logs) -> None:
    """Wait until no process has the database open, or one that was alone has made a new log.

    `found` is what lay there when the log was missed.
    """
    until = time.monotonic() + PATIENCE
    for attempt in itertools.count():
        if is_alone(path):
            return
        now = logs_of(str(path))
        if None not in now and now != seen:
            return
        if time.monotonic() > until:
            break
        time.sleep(min(0.05, 0.001 * 2**attempt))
    raise StoreUnavailableError(
        f"The write-ahead log of {path} was deleted while Hermes had it open, and what was stored "
        "last is only there. Close every other program that has the store open (Hermes puts the "
        "log back when it is closed), then try again. Nothing was read or written."
    )


def is_alone(path: Path) -> bool:
    """Whether nobody, in this process or another, has the database open in WAL mode.

    True as well where that cannot be told: then opening it for good says what is wrong.
    """
    try:
        if path.stat().st_size == 0:
            return True
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            # A log that is there is left as it is; whether it is torn is looked at later.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            connection.execute("PRAGMA schema_version").fetchall()
    except (apsw.BusyError, apsw.LockedError):
        return False
    except (apsw.Error, OSError):
        return True
    return True


def has_commits(path: Path) -> bool:
    """Whether the log that lies beside the database now has anything in it."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size > _HEADER
    except OSError:
        return False


def copy_aside(path: Path, connection: apsw.Connection) -> Path:
    """Copy the database as `connection` sees it to a private file beside it; returns which."""
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
    aside = path.with_name(f"{path.name}.before-lost-log-{stamp}")
    os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(apsw.Connection(str(aside))) as copy:
        with copy.backup("main", connection, "main") as backup:
            backup.step(-1)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    log.error(
        "The write-ahead log of %s was deleted, and another program has begun a new one. What was"
        " stored until then is kept at %s",
        path,
        aside,
    )
    return aside
