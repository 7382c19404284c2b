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
import itertools
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
    InvalidMessageError,
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
IN_PLACE_FOR = 0.002
"""Seconds for which a look at where the file is holds good; it costs as much as a small write."""


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
            f"{path} cannot be opened ({error}). Check that it can be read, and its folder written."
        )
    if isinstance(error, apsw.IOError):
        return StoreIOError(f"Reading or writing {path} failed ({error}). Check the disk.")
    if isinstance(error, apsw.TooBigError):
        return StoreError(f"That is larger than SQLite can store in one value: {error}")
    return StoreError(f"{path}: {error}")


def damage_marker(path: Path) -> Path:
    """A file that says: SQLite found damage while the database at `path` was in use."""
    return path.with_name(path.name + ".damaged")


def is_hollow(path: Path) -> bool:
    """Whether the file at `path` was emptied; SQLite would delete what is left in its -wal."""
    wal = path.with_name(path.name + "-wal")
    return path.exists() and path.stat().st_size == 0 and wal.exists() and wal.stat().st_size > 0


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
        try:
            turn.acquire()  # released by the one before us, who hands the lock over as held
        except BaseException:  # Ctrl-C; whoever stays in the queue would stop it for good
            with self._guard:
                was_handed_over = turn not in self._waiting
                if not was_handed_over:
                    self._waiting.remove(turn)
            if was_handed_over:
                self.__exit__(None, None, None)
            raise

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
        if waited >= timeout:
            return False
        # Who has waited long asks so often that whoever has just come rarely gets in before.
        shortest, longest = next(pause for until, pause in _PAUSES if waited < until)
        time.sleep(random.uniform(shortest, longest))
        return True

    return wait


def use_wal(connection: Connection, busy_timeout: float) -> None:
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


def open_connection(path: Path, *, readonly: bool, busy_timeout: float) -> Connection:
    """A connection with our settings; creates a private file if there is none."""
    flags = apsw.SQLITE_OPEN_NOMUTEX | (
        apsw.SQLITE_OPEN_READONLY
        if readonly
        else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    )
    # An empty file may be one that was created just before a crash, and is not private yet.
    is_new = not readonly and (not path.exists() or path.stat().st_size == 0)
    connection = Connection(str(path), flags=flags, statementcachesize=256)
    try:
        connection.set_busy_handler(patient_busy_handler(busy_timeout))
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


_NAMED = (apsw.Error, UnicodeError, OverflowError, TypeError)
"""What SQLite or the binding of a value may raise."""


def _holds_snapshot(connection: Connection) -> bool:
    """Whether an unfinished query, kept alive by somebody, still pins an old state of the file."""
    return connection.txn_state("main") != apsw.SQLITE_TXN_NONE


class Database:
    """The writer, the readers and their locks for one file."""

    def __init__(self, path: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        require_safe_sqlite()
        self.path = path.absolute()  # readers are opened later, maybe from another folder
        self.busy_timeout = busy_timeout
        self._turn = FairLock()
        self._readers: list[Connection] = []
        self._closed = False
        self._pid = os.getpid()
        private_folder(self.path.parent)
        self._writer = self._connect(readonly=False)
        self._file = str(self.path)
        self._inode = self.path.stat().st_ino
        self.in_place_for = IN_PLACE_FOR
        self._in_place_until = 0.0

    def _named(self, error: Exception) -> StoreError | None:
        """The store's own error for one that SQLite or the binding of a value raised."""
        if isinstance(error, apsw.CorruptError | apsw.NotADBError | UnicodeDecodeError):
            # If even this cannot be written, the error that is raised says enough.
            with contextlib.suppress(OSError):
                damage_marker(self.path).touch(mode=0o600)
        if isinstance(error, apsw.ConnectionClosedError):
            return StoreClosedError(f"The store {self.path} is closed.")
        if isinstance(error, apsw.Error):
            return translated(error, self.path)
        if isinstance(error, UnicodeDecodeError):
            return StoreCorruptedError(
                f"{self.path} holds text that is not Unicode ({error}). Open it anew to have it "
                "salvaged."
            )
        if isinstance(error, TypeError) and not str(error).startswith("Bad binding argument"):
            return None  # a mistake in the call, not in what was to be stored
        return InvalidMessageError(f"A value that cannot be stored: {error}")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _NAMED as error:
            named = self._named(error)
            if named is None:
                raise
            raise named from error

    def _connect(self, *, readonly: bool) -> Connection:
        try:
            with self._errors():
                return open_connection(self.path, readonly=readonly, busy_timeout=self.busy_timeout)
        except OSError as error:
            raise StoreUnavailableError(
                f"{self.path} cannot be opened ({error.strerror}). Check its permissions."
            ) from error

    def require_open(self) -> None:
        """Raise StoreClosedError if this store was closed, or belongs to a parent process."""
        if self._closed:
            raise StoreClosedError(f"The store {self.path} is closed.")
        if os.getpid() != self._pid:
            raise StoreClosedError(
                f"The store {self.path} was opened before a fork; open it again in the child."
            )

    def _check_in_place(self) -> None:
        """Refuse to write into a file that others do not see any more."""
        try:
            if os.stat(self._file).st_ino == self._inode:  # noqa: PTH116 - twice as quick
                self._in_place_until = time.monotonic() + self.in_place_for
                return
        except OSError:
            pass  # gone, or in a folder we may not look into any more
        raise StoreUnavailableError(
            f"{self.path} was moved, deleted or replaced while it was open; nothing was written. "
            "Open the store anew."
        )

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one write transaction: all of it is durable when this returns, or none."""
        self.require_open()  # first: nobody hands the lock over in a forked child
        with self._turn:
            self.require_open()
            connection = self._writer
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    if time.monotonic() > self._in_place_until:
                        self._check_in_place()
                    result = work(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    # A full disk makes SQLite roll back by itself.
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except _NAMED as error:
                named = self._named(error)
                if named is None:
                    raise
                raise named from error
            finally:
                if _holds_snapshot(connection):
                    connection.close()
                    self._writer = self._connect(readonly=False)
            return result

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a reading connection; it sees one state of the file throughout."""
        self.require_open()
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._connect(readonly=True)
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except _NAMED as error:
            named = self._named(error)
            if named is None:
                raise
            raise named from error
        finally:
            if self._closed or len(self._readers) >= IDLE_READERS or _holds_snapshot(connection):
                connection.close()
            else:
                self._readers.append(connection)

    def alone(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on the writing connection outside a transaction (VACUUM and the like)."""
        self.require_open()
        with self._turn, self._errors():
            self.require_open()
            return work(self._writer)

    def close(self) -> None:
        """Close every connection; the last process to close folds the WAL back into the file."""
        if os.getpid() != self._pid:
            return  # the connections belong to the process that forked us
        with self._turn:
            if self._closed:
                return
            self._closed = True
            while self._readers:
                self._readers.pop().close()
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
