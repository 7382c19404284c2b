"""One SQLite file, one writer, any number of readers.

Every write is a short `BEGIN IMMEDIATE` transaction on the single writing connection of the
process; threads take turns in the order they came. Reads use connections of their own and, in WAL
mode, never wait for a writer. Against other processes the write lock is tried again after short
random waits that get shorter the longer we have waited, so that nobody starves, and given up with a
StoreBusyError after `busy_timeout` seconds.

SQLite alone opens the file: closing any other handle on it would drop SQLite's locks.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import apsw

from .errors import (
    StoreBusyError,
    StoreClosedError,
    StoreCorruptedError,
    StoreError,
    StoreFullError,
    StoreIOError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnsafeSQLiteError,
)

T = TypeVar("T")
Connection = apsw.Connection

BUSY_TIMEOUT = 30.0
IDLE_READERS = 4


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


def translated(error: apsw.Error, path: Path) -> StoreError:
    """The store's own error for a SQLite error, with a word on what to do."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusyError(
            f"{path} is locked by another process and did not become free in time; "
            "nothing was written. Try again, or see what holds it (fuser, lsof)."
        )
    if isinstance(error, apsw.FullError):
        return StoreFullError(
            f"No room left on the disk of {path}; nothing was written. Free some."
        )
    if isinstance(error, apsw.ReadOnlyError):
        return StoreReadOnlyError(f"{path} cannot be written. Check the permissions of its folder.")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return StoreCorruptedError(
            f"{path} is damaged ({error}). Open it anew to have it salvaged."
        )
    if isinstance(error, apsw.CantOpenError | apsw.AuthError | apsw.PermissionsError):
        return StoreUnavailableError(
            f"{path} cannot be opened ({error}). Check that it is readable."
        )
    if isinstance(error, apsw.IOError):
        return StoreIOError(f"Reading or writing {path} failed ({error}). Check the disk.")
    if isinstance(error, apsw.TooBigError):
        return StoreError(f"That is larger than SQLite can store in one value: {error}")
    return StoreError(f"{path}: {error}")


class FairLock:
    """A lock that serves waiting threads in the order in which they came."""

    __slots__ = ("_guard", "_held", "_waiting")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._held = False

    def __enter__(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()  # released by the one before us, who hands the lock over as held

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False


def patient_busy_handler(timeout: float) -> Callable[[int], bool]:
    """A busy handler with random waits, shorter for those who have waited long."""
    started = 0.0

    def wait(prior_calls: int) -> bool:
        nonlocal started
        now = time.monotonic()
        if prior_calls == 0:
            started = now
        waited = now - started
        if waited >= timeout:
            return False
        longest = 0.004 if waited < 0.02 else 0.001
        time.sleep(random.uniform(0.0002, longest))
        return True

    return wait


def open_connection(path: Path, *, readonly: bool, busy_timeout: float) -> Connection:
    """A connection with our settings; creates a private file if there is none."""
    flags = apsw.SQLITE_OPEN_NOMUTEX | (
        apsw.SQLITE_OPEN_READONLY
        if readonly
        else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    )
    is_new = not readonly and not path.exists()
    connection = Connection(str(path), flags=flags, statementcachesize=256)
    try:
        connection.set_busy_handler(patient_busy_handler(busy_timeout))
        if is_new and path.exists():
            path.chmod(0o600)  # before anything is in it; -wal and -shm inherit the mode
        if readonly:
            connection.execute("PRAGMA query_only = 1")
        else:
            # A network file system may not offer WAL; SQLite then stays with a rollback journal.
            connection.execute("PRAGMA journal_mode = WAL")
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
    """Make the folder, readable by its owner only; an existing one is left as it is."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailableError(
            f"The folder {folder} cannot be created ({error.strerror}). "
            "Create it, or point HERMES_HOME elsewhere."
        ) from error


class Database:
    """The writer, the readers and their locks for one file."""

    def __init__(self, path: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        require_safe_sqlite()
        self.path = path
        self.busy_timeout = busy_timeout
        self._turn = FairLock()
        self._readers: list[Connection] = []
        self._closed = False
        self._pid = os.getpid()
        private_folder(path.parent)
        with self._errors():
            self._writer = open_connection(path, readonly=False, busy_timeout=busy_timeout)

    @property
    def damage_marker(self) -> Path:
        """A file that says: SQLite found damage while this database was in use."""
        return self.path.with_name(self.path.name + ".damaged")

    def _translate(self, error: apsw.Error) -> StoreError:
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            # If even this cannot be written, the error that is raised says enough.
            with contextlib.suppress(OSError):
                self.damage_marker.touch(mode=0o600)
        return translated(error, self.path)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.ConnectionClosedError as error:
            raise StoreClosedError(f"The store {self.path} is closed.") from error
        except apsw.Error as error:
            raise self._translate(error) from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"The store {self.path} is closed.")
        if os.getpid() != self._pid:
            raise StoreClosedError(
                f"The store {self.path} was opened before a fork; open it again in the child."
            )

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one write transaction: all of it is durable when this returns, or none."""
        with self._turn:
            self._check_open()
            connection = self._writer
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    result = work(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    # A full disk makes SQLite roll back by itself.
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except apsw.Error as error:
                raise self._translate(error) from error
            return result

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a reading connection; it sees one state of the file throughout."""
        self._check_open()
        try:
            connection = self._readers.pop()
        except IndexError:
            with self._errors():
                connection = open_connection(
                    self.path, readonly=True, busy_timeout=self.busy_timeout
                )
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except apsw.Error as error:
            raise self._translate(error) from error
        finally:
            if self._closed or len(self._readers) >= IDLE_READERS:
                connection.close()
            else:
                self._readers.append(connection)

    def alone(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on the writing connection outside a transaction (VACUUM and the like)."""
        with self._turn, self._errors():
            self._check_open()
            return work(self._writer)

    def close(self) -> None:
        """Close every connection; the last process to close folds the WAL back into the file."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            while self._readers:
                self._readers.pop().close()
            if os.getpid() == self._pid:
                # Other processes may hold the file busy: then the WAL just stays, which is fine.
                with contextlib.suppress(apsw.Error):
                    self._writer.set_busy_handler(None)
                    self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self._writer.close()


def rows(connection: Connection, sql: str, values: Any = ()) -> list[dict[str, Any]]:
    """The result of a query as dicts."""
    cursor = connection.execute(sql, values)
    try:
        names = [column[0] for column in cursor.get_description()]
    except apsw.ExecutionCompleteError:  # apsw's word for an empty result
        return []
    return [dict(zip(names, found, strict=True)) for found in cursor]


def row(connection: Connection, sql: str, values: Any = ()) -> dict[str, Any] | None:
    """The first row of a query as a dict, or None."""
    found = rows(connection, sql, values)
    return found[0] if found else None


def tuples(connection: Connection, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
    """The result of a query, read to its end, so that it may be changed while it is walked."""
    return connection.execute(sql, values).fetchall()


def value(connection: Connection, sql: str, values: Any = ()) -> Any:
    """The first column of the first row, or None."""
    first = connection.execute(sql, values).fetchone()
    return None if first is None else first[0]
