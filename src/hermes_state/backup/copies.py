"""Copies of the store: taken while others write, and looked at before anybody relies on them."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from ..connection import BUSY_TIMEOUT, open_connection, translated
from ..dialect import tuples, value
from ..errors import StoreCorruptedError, StoreError, StoreUnavailableError
from ..opening import FileConnection
from ..sqlite_errors import is_full

_COUNTED = ("sessions", "messages")


class Copied(NamedTuple):
    """What a copy of the store holds."""

    sessions: int
    messages: int
    bytes: int


def copy_store(path: Path, target: Path) -> Copied:
    """Copy the store at `path` to a new private file, as it is at one moment; returns what it has.

    Neither readers nor writers of the store wait for it, and nothing in it changes. Raises
    StoreError if it cannot be read, or if the copy does not hold what the store held.
    """
    held = snapshot(path, target)
    try:
        with target.open("rb") as file:
            os.fsync(file.fileno())
        copied = check_copy(target)
        if (copied.sessions, copied.messages) != held:
            raise StoreCorruptedError(
                f"The copy of {path} holds {copied[:2]} sessions and messages instead of {held}."
            )
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return copied


def is_blank(path: Path) -> bool:
    """Whether the file holds no table at all: made on a disk that was too full for any."""
    try:
        with closing(open_connection(path, readonly=True, busy_timeout=BUSY_TIMEOUT)) as connection:
            return value(connection, "SELECT 1 FROM sqlite_schema LIMIT 1") is None
    except apsw.Error:
        return False  # copying it says what is wrong


def has_sessions(path: Path) -> bool:
    """Whether the file is there and has a table of sessions.

    Hermes Agent makes its file with its first command, and that table with its first conversation.
    """
    if not path.is_file():
        return False
    try:
        with closing(open_connection(path, readonly=True, busy_timeout=BUSY_TIMEOUT)) as connection:
            named = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sessions'"
            return bool(tuples(connection, named))
    except apsw.Error:
        return True  # copying it says what is wrong


def snapshot(path: Path, target: Path) -> tuple[int, int]:
    """Copy the store to a new private file for the moment: neither flushed to disk nor checked.

    Returns how many sessions and messages the store had then. The same state gives the same bytes.
    """
    if not path.is_file():
        raise StoreUnavailableError(f"There is no session store {path} to copy.")
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.close(descriptor)
    try:
        with closing(open_connection(path, readonly=True, busy_timeout=BUSY_TIMEOUT)) as source:
            source.execute("BEGIN")
            held = _counts(source)  # from here on it sees one state of the file
            with closing(apsw.Connection(str(target))) as copy:
                copy.execute("PRAGMA synchronous = OFF").fetchall()
                with copy.backup("main", source, "main") as backup:
                    backup.step(-1)
                # The copy is one file that can be moved: no -wal may belong to it.
                copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    except apsw.Error as error:
        named = translated(error, target if is_full(target) else path)
        target.unlink(missing_ok=True)  # only now: while it is there the disk is as full as it was
        raise named from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return held


def check_copy(path: Path) -> Copied:
    """Read a copy of a store from beginning to end; raises StoreError if anything is wrong."""
    try:
        with closing(open_connection(path, readonly=True, busy_timeout=BUSY_TIMEOUT)) as connection:
            # Older files have their search index inside; it is made anew and need not be whole.
            problems = [
                problem
                for (problem,) in tuples(connection, "PRAGMA integrity_check(100)")
                if problem != "ok" and "FTS5 table" not in problem
            ]
            if problems:
                raise StoreCorruptedError(f"{path} is damaged ({problems[0]}).")
            return Copied(*_counts(connection), path.stat().st_size)
    except apsw.SQLError as error:
        raise StoreError(f"{path} is no session store ({error}).") from error
    except apsw.Error as error:
        raise translated(error, path) from error


def is_in_use(path: Path) -> bool:
    """Whether another program, or this one, has the store open now."""
    if not path.is_file():
        return False
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.CantOpenError:
        return False
    try:
        # A file leaves WAL mode only for a connection that is alone with it.
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")
    except (apsw.BusyError, apsw.LockedError):
        return True
    except (apsw.CorruptError, apsw.NotADBError):
        return False  # nobody works with that
    except apsw.Error as error:
        raise translated(error, path) from error
    finally:
        connection.close()
    return False


def _counts(connection: FileConnection) -> tuple[int, int]:
    sessions, messages = (
        int(value(connection, f"SELECT COUNT(*) FROM {table}")) for table in _COUNTED
    )
    return sessions, messages
