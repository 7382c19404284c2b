"""Opening the file: the SQLite it takes, our settings, and how long a lock is waited for.

Against other processes a lock is tried again after short random waits that get shorter the longer
we have waited, so that nobody starves.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from .dialect import Cursor
from .errors import StoreUnavailableError, UnsafeSQLiteError
from .lost_log import require_one_log
from .write_queue import patience_of_this_thread


class FileConnection(apsw.Connection):
    """A connection to the file, with SQLite's words for what PostgreSQL says otherwise."""

    is_server = False
    lock_row = ""  # a file has one writer

    now = staticmethod(time.time)
    """The clock of this machine: only its own processes open the file."""

    returning_id = ""  # with it SQLite would build a table for the one number, for each message

    def inserted_id(self, cursor: Cursor) -> int | None:
        """The id of the row that was just inserted; None if a trigger left it out."""
        return self.last_insert_rowid() if self.changes() else None

    def damage(self) -> list[str]:
        """What SQLite's own check finds wrong, at most five lines."""
        problems = [str(line) for (line,) in self.execute("PRAGMA integrity_check(5)")]
        return [] if problems == ["ok"] else problems

    def index_names(self) -> set[str]:
        """The names of all indexes that are there."""
        return {name for (name,) in self.execute("SELECT name FROM sqlite_schema")}

    def size(self) -> int:
        """Bytes of the file."""
        return self._number("page_count") * self._number("page_size")

    def unused_size(self) -> int:
        """Bytes of the file that hold nothing."""
        return self._number("freelist_count") * self._number("page_size")

    def _number(self, pragma: str) -> int:
        return int(self.pragma(pragma))


def has_wal_reset_bug(version: str) -> bool:
    """Whether this SQLite can lose or corrupt data when a checkpoint and a writer race.

    Published for 3.7.0 to 3.51.2; fixed in 3.51.3 and, as backports, in 3.44.6 and 3.50.7.
    """
    parts = tuple(int(part) for part in version.split(".")[:3])
    if parts[:2] == (3, 44):
        return parts < (3, 44, 6)
    if parts[:2] == (3, 50):
        return parts < (3, 50, 7)
    return (3, 7, 0) <= parts < (3, 51, 3)


def require_safe_sqlite(version: str | None = None) -> None:
    """Refuse to work on a SQLite that may corrupt the file."""
    version = version or apsw.sqlite_lib_version()
    if has_wal_reset_bug(version):
        raise UnsafeSQLiteError(
            f"SQLite {version} has a known bug that can corrupt the database (WAL reset, fixed in "
            "3.51.3). Upgrade the apsw package: pip install --upgrade 'apsw>=3.51.3.0'"
        )


_PAUSES = (
    (0.02, (0.0002, 0.004)),
    (0.06, (0.0002, 0.001)),
    (float("inf"), (0.00002, 0.0002)),
)
"""Up to so many seconds of waiting: shortest and longest pause between two tries."""


def patient_busy_handler(timeout: float) -> Callable[[int], bool]:
    """A busy handler with random waits, shorter for those who have waited long."""
    started = 0.0

    def wait(prior_calls: int) -> bool:
        nonlocal started
        now = time.monotonic()
        if prior_calls == 0:
            started = now
        waited = now - started
        limit = patience_of_this_thread()
        if waited >= timeout or (limit is not None and waited >= limit):
            return False
        # Who has waited long asks so often that whoever has just come rarely gets in before.
        shortest, longest = next(pause for until, pause in _PAUSES if waited < until)
        time.sleep(random.uniform(shortest, longest))
        return True

    return wait


def use_wal(connection: FileConnection, busy_timeout: float) -> None:
    """Switch to WAL; where a network file system does not offer it, the rollback journal stays."""
    wait = patient_busy_handler(busy_timeout)
    for attempt in itertools.count():
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            # Two that switch a new file at once: SQLite gives up without asking the busy handler.
            if not wait(attempt):
                raise


def open_connection(path: Path, *, readonly: bool, busy_timeout: float) -> FileConnection:
    """A connection with our settings; creates a private file if there is none."""
    flags = apsw.SQLITE_OPEN_NOMUTEX | (
        apsw.SQLITE_OPEN_READONLY
        if readonly
        else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    )
    require_one_log(path)
    # An empty file may be one that was created just before a crash, and is not private yet.
    is_new = not readonly and (not path.exists() or path.stat().st_size == 0)
    connection = FileConnection(str(path), flags=flags, statementcachesize=256)
    try:
        connection.set_busy_handler(patient_busy_handler(busy_timeout))
        # Otherwise SQLite prepares a statement anew for each value that might lead to another
        # plan, five times a turn. A partial index is used where its condition is spelt out.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if is_new and path.exists():
            path.chmod(0o600)  # before anything is in it; -wal and -shm inherit the mode
        if readonly:
            connection.execute("PRAGMA query_only = 1")
        else:
            use_wal(connection, busy_timeout)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = 1")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            connection.wal_autocheckpoint(2000)
            if is_new and path.exists():
                path.chmod(0o600)  # SQLite creates the file when it first writes
        connection.execute("PRAGMA cache_size = -8000")
    except apsw.Error:
        connection.close()
        raise
    return connection


def private_folder(folder: Path) -> None:
    """Make the folder and those above it, for their owner only; existing ones are left alone."""
    try:
        if folder.is_dir():
            return
        if not folder.parent.exists():
            private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreUnavailableError(
            f"The folder {folder} cannot be created ({error.strerror}). "
            "Create it, or point HERMES_HOME elsewhere."
        ) from error
