"""One SQLite file, one writer, any number of readers.

Every write is a short `BEGIN IMMEDIATE` transaction on the single writing connection of the
process; threads take turns in the order they came, and works that queue up behind one that is being
run are run with it, in one transaction with one flush. Reads use connections of their own and, in
WAL mode, never wait for a writer. Against other processes the write lock is waited for, and given
up with a StoreBusyError after `busy_timeout` seconds.

A disk that is full, read-only or failing refuses writes, and nothing else: the connections go on by
themselves when it is well again. (A commit whose flush failed was refused, yet is in the log until
the next one overwrites it: if the process is killed before, it counts, wholly.)

SQLite alone opens the file: closing any other handle on it would drop SQLite's locks.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import apsw

from .errors import (
    InvalidMessageError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptedError,
    StoreError,
    StoreIOError,
    StoreUnavailableError,
)
from .lost_log import copy_aside, has_commits, inode, logs_of, require_alone
from .opening import FileConnection, open_connection, private_folder, require_safe_sqlite
from .opening import has_wal_reset_bug as has_wal_reset_bug
from .opening import patient_busy_handler as patient_busy_handler
from .opening import use_wal as use_wal
from .sqlite_errors import translated
from .torn_log import find_tear, set_log_aside
from .write_queue import FairLock, Job, Waiter

T = TypeVar("T")

BUSY_TIMEOUT = 30.0
IDLE_READERS = 4
IN_PLACE_FOR = 0.002
"""Seconds for which a look at where the file is holds good; it costs as much as a small write."""


def damage_marker(path: Path) -> Path:
    """A file that says: SQLite found damage while the database at `path` was in use."""
    return path.with_name(path.name + ".damaged")


def is_hollow(path: Path) -> bool:
    """Whether the file at `path` was emptied; SQLite would delete what is left in its -wal."""
    wal = path.with_name(path.name + "-wal")
    return path.exists() and path.stat().st_size == 0 and wal.exists() and wal.stat().st_size > 0


_NAMED = (apsw.Error, UnicodeError, OverflowError, TypeError)
"""What SQLite or the binding of a value may raise."""

_OF_THE_FILE = (StoreIOError, StoreUnavailableError)
"""After these a reading connection may be unable to do what one that is opened anew can."""

GROUP_WORKS = 64
GROUP_SECONDS = 0.010
"""How many works of others one transaction takes in, and for how long: others have a turn too."""


def _holds_snapshot(connection: FileConnection) -> bool:
    """Whether an unfinished query, kept alive by somebody, still pins an old state of the file."""
    return connection.txn_state("main") != apsw.SQLITE_TXN_NONE


def run_in_savepoint(connection: FileConnection, job: Job) -> None:
    """Run one write of a group in a savepoint; raises only what makes the whole group fail."""
    connection.execute("SAVEPOINT apart")
    try:
        job.run(connection)
        if connection.in_transaction:
            connection.execute("RELEASE apart")
    except BaseException as error:  # reported to the thread that brought this write
        job.error = error
        if connection.in_transaction:
            connection.execute("ROLLBACK TO apart")
            try:
                connection.execute("RELEASE apart")
            except apsw.BusyError:  # a statement that writes is kept from ending by its traceback
                traceback.clear_frames(error.__traceback__)
                connection.execute("RELEASE apart")
        elif isinstance(error, apsw.Error):
            raise  # SQLite has rolled everything back
    if not connection.in_transaction:
        raise StoreIOError(
            "SQLite gave up a transaction that several shared; nothing was written. Try again."
        )


class LostLogError(StoreUnavailableError):
    """The write-ahead log was deleted or replaced while the store was open."""


class Database:
    """The writer, the readers and their locks for one file."""

    is_server: Literal[False] = False

    def __init__(self, path: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        require_safe_sqlite()
        self.path = path.absolute()  # readers are opened later, maybe from another folder
        self.busy_timeout = busy_timeout
        self._write_lock = FairLock()
        self._writer_is_spoilt = self._writer_is_closed = False
        self._readers: list[FileConnection] = []
        self._closed = False
        self._pid = os.getpid()
        private_folder(self.path.parent)
        self._writer = self._connect(readonly=False)
        self.torn_log = self._look_for_tear()
        """Where the write-ahead log is kept if part of it could not be read."""
        self._file = str(self.path)
        self._inode = self.path.stat().st_ino
        self._logs = logs_of(self._file)  # None where there is no write-ahead log
        self._logs_found = self._logs
        self.before_rejoin: Callable[[], None] | None = None
        """Called when every connection of this process must let go of the file for a moment."""
        self.on_commit: Callable[[], None] | None = None
        """Called after every commit of this process."""
        self.in_place_for = IN_PLACE_FOR
        self._in_place_until = 0.0

    @property
    def clock(self) -> float:
        """The clock of this machine: only its own processes open the file."""
        return time.time()

    def _named(
        self, error: BaseException, connection: FileConnection | None = None
    ) -> StoreError | None:
        """The store's own error for one that SQLite or the binding of a value raised."""
        if not isinstance(error, _NAMED):
            return None
        named = self._name_of(error, connection)
        if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError):
            self._writer_is_spoilt = True  # it may have been opened when it could not be written
        if isinstance(named, StoreCorruptedError):
            # If even this cannot be written, the error that is raised says enough.
            with contextlib.suppress(OSError):
                damage_marker(self.path).touch(mode=0o600)
        return named

    def _name_of(self, error: Exception, connection: FileConnection | None) -> StoreError | None:
        if isinstance(error, apsw.ConnectionClosedError):
            return StoreClosedError(f"The store {self.path} is closed.")
        if isinstance(error, apsw.Error):
            system_errno = connection.system_errno if connection is not None else 0
            return translated(error, self.path, system_errno)
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

    def _connect(self, *, readonly: bool) -> FileConnection:
        try:
            with self._errors():
                return open_connection(self.path, readonly=readonly, busy_timeout=self.busy_timeout)
        except OSError as error:
            raise StoreUnavailableError(
                f"{self.path} cannot be opened ({error.strerror}). Check its permissions."
            ) from error

    def _look_for_tear(self) -> Path | None:
        with self._errors():
            if find_tear(self.path, self._writer) is None:
                return None
            # Others may be writing it just now: looked at again while nobody can.
            self._writer.execute("BEGIN IMMEDIATE")
            reader = self._connect(readonly=True)
            try:
                tear = find_tear(self.path, reader)
                return None if tear is None else set_log_aside(self.path, tear)
            finally:
                reader.close()
                self._writer.execute("ROLLBACK")

    def require_open(self) -> None:
        """Raise StoreClosedError if this store was closed, or was opened before a fork."""
        if self._closed:
            raise StoreClosedError(f"The store {self.path} is closed.")
        if os.getpid() != self._pid:
            raise StoreClosedError(
                f"The store {self.path} was opened before a fork; open it again in the child."
            )

    def _check_in_place(self) -> None:
        """Refuse to write into files that were moved or deleted."""
        if inode(self._file) != self._inode:
            raise StoreUnavailableError(
                f"{self.path} was moved, deleted or replaced while it was open; nothing was "
                "written. Open the store anew."
            )
        logs = logs_of(self._file)
        if logs != self._logs:
            if any(mine not in (None, now) for mine, now in zip(self._logs, logs, strict=True)):
                raise LostLogError(
                    f"The write-ahead log of {self.path} was deleted or replaced while the store "
                    "was open; nothing was written. Close the store, which puts back what was in "
                    "it, and open it anew."
                )
            self._logs = logs  # made with the first write
        self._in_place_until = time.monotonic() + self.in_place_for

    def _rejoin(self) -> None:
        """Checkpoint a deleted log into the file, and begin with a new one."""
        self._close_readers()
        if not self._writer_is_closed:
            self._logs_found = logs_of(self._file)
            with self._errors():
                aside = self._fold_log()
            if aside is not None:
                self._closed = True
                self._writer.close()
                raise StoreUnavailableError(
                    f"The write-ahead log of {self.path} was deleted while the store was open, and "
                    "another program has begun a new one. What was stored here until then is kept "
                    f"at {aside}; nothing more was written. Open the store anew."
                )
            self._give_up_writer()
        if self.before_rejoin is not None:
            self.before_rejoin()
        require_alone(self.path, self._logs_found)  # others put back what they have first
        self._take_new_writer()

    def _fold_log(self) -> Path | None:
        """Checkpoint the log into the file; into a copy, if it was deleted and others began one."""
        now = logs_of(self._file).wal
        if self._logs.wal not in (None, now) and has_commits(self.path):
            self._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            return copy_aside(self.path, self._writer)
        self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return None

    def _give_up_writer(self) -> None:
        self._writer_is_spoilt = self._writer_is_closed = True  # until there is a new one
        self._writer.close()

    def _take_new_writer(self) -> None:
        self._writer = self._connect(readonly=False)
        self._logs = logs_of(self._file)
        self._writer_is_spoilt = self._writer_is_closed = False

    def write(self, work: Callable[[FileConnection], T]) -> T:
        """Run `work` in one write transaction: all of it is durable when this returns, or none.

        Works of threads that wait for each other share one transaction and its flush, each in a
        savepoint of its own: one that fails does not harm the others. A work is run once at most.
        """
        self.require_open()  # first: nobody hands the lock over in a forked child
        try:
            waiter = self._write_lock.enter(work)
        except TimeoutError as error:
            raise StoreBusyError(
                f"Others are writing to {self.path}; nothing was written."
            ) from error
        if waiter is not None:
            return self._result_of(waiter)
        try:
            if self._closed:  # while we waited
                self.require_open()
            try:
                return self._run_as_group_leader(work)
            except LostLogError:  # found before the work was begun
                self._rejoin()
                return self._run_as_group_leader(work)
        finally:
            self._write_lock.leave()

    def _run_as_group_leader(self, work: Callable[[FileConnection], T]) -> T:
        """Run `work`, and what others queued meanwhile, in one transaction (group commit)."""
        if self._writer_is_spoilt:
            self._renew_writer()
        connection = self._writer
        group: list[Waiter] = []
        failure: BaseException | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if time.monotonic() > self._in_place_until:
                    self._check_in_place()
                result = work(connection)
                if self._write_lock.has_waiting():
                    self._run_others(connection, group)
                connection.execute("COMMIT")
            except BaseException:
                # A full disk makes SQLite roll back by itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except BaseException as error:
            failure = error
            named = self._named(error, connection)
            if named is None:
                raise
            raise named from error
        finally:
            try:
                if group:
                    self._settle(group, failure)
                # Before the results are handed out: a statement that an error keeps alive must not
                # be finalised in one thread while another uses the connection.
                if _holds_snapshot(connection):
                    self._replace_writer()
            finally:
                for waiter in group:
                    waiter.tell()
                failure = None  # it refers to this frame, and the frame to it
        if self.on_commit is not None:
            self.on_commit()
        return result

    def _run_others(self, connection: FileConnection, group: list[Waiter]) -> None:
        """Run the queued writes of others, each in a savepoint; `group` collects the waiters."""
        # Ctrl-C is raised in the main thread, and must affect only that thread's write.
        if threading.current_thread() is threading.main_thread():
            return
        enough = time.monotonic() + GROUP_SECONDS
        while len(group) < GROUP_WORKS and (waiter := self._write_lock.take_work()) is not None:
            group.append(waiter)
            run_in_savepoint(connection, waiter)
            if time.monotonic() > enough:
                return

    def _settle(self, group: list[Waiter], failure: BaseException | None) -> None:
        """Hand each waiter its own error, or the one that made the whole group fail."""
        for waiter in group:
            waiter.error = waiter.error or failure
        self.name_errors(group)

    def name_errors(self, jobs: Iterable[Job]) -> None:
        """Put the store's own errors in the place of SQLite's."""
        for job in jobs:
            if job.error is not None:
                named = self._named(job.error, self._writer)
                if named is not None:
                    named.__cause__, job.error = job.error, named

    @staticmethod
    def _result_of(waiter: Waiter) -> Any:
        if waiter.error is None:
            return waiter.result
        try:
            raise waiter.error
        finally:
            del waiter  # it refers to the error, which refers to this frame

    def _replace_writer(self) -> None:
        """Drop a connection that pins an old snapshot, and maybe the lock.

        The new one is opened before: while one is open, SQLite knows where in the log the last
        commit ends, and a commit that failed is not found there.
        """
        spoilt = self._writer
        try:
            self._check_in_place()  # connecting would make a file where there is none
            self._writer = self._connect(readonly=False)
        except StoreError:  # the next write retries, and reports the error
            self._logs_found = logs_of(self._file)
            self._writer_is_spoilt = self._writer_is_closed = True
        finally:
            spoilt.close()

    def _renew_writer(self) -> None:
        """Connect anew after the old connection could not be written with, or was given up."""
        try:
            self._check_in_place()
        except LostLogError:
            self._rejoin()
            return
        self._give_up_writer()
        self._close_readers()  # SQLite's shared index is read-only as long as one holds it so
        self._take_new_writer()

    def _new_reader(self) -> FileConnection:
        if logs_of(self._file) != self._logs:
            self._check_in_place()  # it would read a log that is not ours
        return self._connect(readonly=True)

    def _close_readers(self) -> None:
        with contextlib.suppress(IndexError):  # another thread may take the last
            while True:
                self._readers.pop().close()

    def read(self, work: Callable[[FileConnection], T], *, one_statement: bool = False) -> T:
        """Run `work` on a reading connection; it sees one state of the file throughout.

        A work of `one_statement` does so by itself, and is spared two more.
        """
        self.require_open()
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._new_reader()
        fit = True
        try:
            if one_statement:
                return work(connection)
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except _NAMED as error:
            named = self._named(error, connection)
            fit = not isinstance(named, _OF_THE_FILE)
            if named is None:
                raise
            raise named from error
        finally:
            crowded = self._closed or len(self._readers) >= IDLE_READERS
            if crowded or not fit or _holds_snapshot(connection):
                connection.close()
            else:
                self._readers.append(connection)

    def outside_transaction(self, work: Callable[[FileConnection], T]) -> T:
        """Run `work` on the writing connection outside a transaction (VACUUM and the like)."""
        self.require_open()
        with self._write_lock, self._errors():
            self.require_open()
            if self._writer_is_spoilt:
                self._renew_writer()
            try:
                self._check_in_place()
            except LostLogError:
                self._rejoin()
            return work(self._writer)

    def close(self) -> None:
        """Close every connection; the last process to close folds the WAL back into the file."""
        if os.getpid() != self._pid:
            return  # the connections belong to the process that forked us
        with self._write_lock:
            if self._closed:
                return
            self._closed = True
            self._close_readers()
            # Other processes may hold the file busy: then the WAL just stays, which is fine.
            with contextlib.suppress(apsw.Error):
                self._writer.set_busy_handler(None)
                self._fold_log()
            self._writer.close()
