"""A store on a PostgreSQL server, for as many processes and machines as use it.

The same works run here as on a file, each in a transaction of its own on one connection of a pool.
On a file every write is alone; here it is alone in its conversation, or in the store where it
concerns several (`locks` says which), by advisory locks that are taken first and held to the end.
Under READ COMMITTED each statement then sees what the lock's last holder has written.

Writes of several threads share transactions (`server_group`).

A commit whose answer was lost is usually there. So each write marks its commit: a process that lost
its connection reads the mark, and invalidates it, so that the lost transaction cannot commit any
more.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar

import psycopg
from psycopg import errors as pg

from hermes_base.clock import elapsed

from . import server_schema
from .address import shown
from .dialect import Connection
from .errors import (
    InvalidMessageError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from .locks import STORE, ConversationId, Scope
from .server_connection import PatientConnection, ServerConnection, connect
from .server_errors import CONFLICTS, is_passing, named
from .server_group import Queued, State, WriteQueue, lock_at_once

log = logging.getLogger(__name__)

T = TypeVar("T")

CONNECTIONS = 16
"""How many connections a process has at most; further threads wait for one."""

IDLE_SECONDS = 60.0
"""A connection that was not used for so long is asked for a sign of life before it is relied on."""

_FIRST_RETRY, _LAST_RETRY = 0.05, 1.0
"""Seconds between two tries to reach a server that is away."""

_STALE_TRIES = 3

CHANNEL = "hermes"
"""The channel of notifications about writes."""


class _LostCommitError(Exception):
    """The connection broke while a commit was on its way."""


class _GroupFailedError(Exception):
    """A write that was taken along failed: each of its group is run alone."""


class ServerDatabase:
    """A pool of connections, and how works run on them."""

    is_server: Literal[True] = True

    def __init__(
        self, address: str, *, busy_timeout: float, connections: int = CONNECTIONS
    ) -> None:
        self.address = address
        self.path = shown(address)
        """For messages to people: where the store is."""
        self.busy_timeout = busy_timeout
        self.before_rejoin: Callable[[], None] | None = None  # a file's matter
        self.on_commit: Callable[[], None] | None = None
        """Called after every commit of this process."""
        self._idle: list[ServerConnection] = []
        self.connections = connections
        # A permit for each connection. A semaphore of `threading` is written in Python: with more
        # threads than permits, they would spend their time in its condition.
        self._permits: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(connections):
            self._permits.put(None)
        self._queue = WriteQueue()
        self._closed = False
        self._pid = os.getpid()
        self._is_prepared = False
        self._clock = (time.time(), elapsed())
        """The server's clock when it was last read, and this process's at that moment."""
        self._prepare()
        self._is_prepared = True

    @property
    def clock(self) -> float:
        """The server's clock, counted on from when a work last read it; asks nobody."""
        read, at = self._clock
        return read + elapsed() - at

    # Connections

    def connect(self) -> PatientConnection:
        """A connection of its own, outside the pool, with our settings."""
        return connect(self.address, self.busy_timeout)

    def _new_connection(self) -> ServerConnection:
        """Connect; a server that is away is waited for, once the store was open."""
        deadline = time.monotonic() + (self.busy_timeout if self._is_prepared else 0.0)
        wait = _FIRST_RETRY
        while True:
            try:
                return ServerConnection(self.connect())
            except psycopg.Error as error:
                refused = named(error, self.path)
                if self._closed or not is_passing(error) or time.monotonic() + wait > deadline:
                    raise refused from error
            time.sleep(wait)
            wait = min(wait * 2, _LAST_RETRY)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[ServerConnection]:
        """One of the pool's connections; thrown away if it breaks."""
        try:
            self._permits.get(timeout=self.busy_timeout)
        except queue.Empty:
            raise StoreBusyError(
                f"All connections to {self.path} were in use for {self.busy_timeout:.0f} seconds;"
                " nothing was written. Try again."
            ) from None
        try:
            connection = self._take_idle() or self._new_connection()
            try:
                yield connection
            finally:
                self._clock = connection.forget_clock() or self._clock
                self._give_back(connection)
        finally:
            self._permits.put(None)

    def _take_idle(self) -> ServerConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if elapsed() - connection.last_used < IDLE_SECONDS or _is_alive(connection):
                return connection
            connection.raw.close()

    def _give_back(self, connection: ServerConnection) -> None:
        raw = connection.raw
        is_idle = raw.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if raw.closed or raw.broken or not is_idle or self._closed:
            raw.close()
            return
        connection.last_used = elapsed()
        self._idle.append(connection)

    def _drop_idle(self) -> None:
        """Close what is idle: a server that was restarted has forgotten all of them."""
        with contextlib.suppress(IndexError):  # another thread may take the last
            while True:
                self._idle.pop().raw.close()

    def require_open(self) -> None:
        """Raise StoreClosedError if this store was closed, or belongs to a parent process."""
        if self._closed:
            raise StoreClosedError(f"The store {self.path} is closed.")
        if os.getpid() != self._pid:
            raise StoreClosedError(
                f"The store {self.path} was opened before a fork; open it again in the child."
            )

    def close(self) -> None:
        """Close every connection; what is under way ends first in its own thread."""
        if os.getpid() != self._pid:
            return  # the connections belong to the process that forked us
        self._closed = True
        self._drop_idle()

    # Works

    def write(
        self, work: Callable[[Connection], T], about: Scope = STORE, tell: bool | str = True
    ) -> T:
        """Run `work` in one transaction: all of it is durable when this returns, or none.

        A write whose transaction was lost, or conflicted with another, is retried; it must not have
        effects outside of it. `about` is whose lock it needs; with `tell` those who wait are woken,
        or only those of the topic it names.
        """
        self.require_open()
        if about is None:  # the store's: nobody else writes
            result = self._write(work, about, tell)
        else:
            result = self._write_queued(Queued(work, about, tell))
        if self.on_commit is not None:
            self.on_commit()
        return result

    def _write_queued(self, write: Queued[T]) -> T:
        """Run a write with what else is queued, or wait until another thread has run it."""
        state = self._queue.enter(write)
        if state is State.LEADS:
            try:
                return self._write(write.work, write.scope, write.tell, leads=True)
            finally:
                self._queue.leave()
        if state is State.DONE or (state is State.UNKNOWN and self._was_committed(*write.mark)):
            return write.result
        return self._write(write.work, write.scope, write.tell)

    def _write(
        self, work: Callable[[Connection], T], scope: Scope, tell: bool | str, leads: bool = False
    ) -> T:
        """Run a write until it counts; one that `leads` takes others along at the first try."""
        tries = 0
        while True:
            tries += 1
            try:
                with self._connection() as connection:
                    return self._run(connection, work, scope, tell, leads)
            except _GroupFailedError:
                log.debug("A group of writes to %s is run one by one", self.path)
            except CONFLICTS as error:
                if scope is STORE:
                    raise named(error, self.path) from error
                scope = STORE
            except (psycopg.Error, UnicodeError, OverflowError, TypeError) as error:
                self._retry_or_raise(error, tries)
            leads = False

    def _run(
        self,
        connection: ServerConnection,
        work: Callable[[Connection], T],
        scope: Scope,
        tell: bool | str,
        leads: bool,
    ) -> T:
        (clock,) = connection.run_script(f"BEGIN; {_lock(connection, scope)}")
        connection.set_clock(float(clock))
        try:
            result = work(connection)
            company = self._run_queued(connection) if leads else []
        except BaseException:
            _roll_back(connection)
            raise
        tells = dict.fromkeys([tell, *(write.tell for write in company)])
        mark = _next_mark(connection)
        state = State.UNKNOWN
        try:
            try:
                self._commit(connection, mark, tells)
            except _LostCommitError as lost:
                if not self._was_committed(*mark):
                    raise psycopg.OperationalError(f"the connection was lost: {lost}") from lost
            state = State.DONE
        except psycopg.Error:
            state = State.ALONE
            raise
        finally:
            for write in company:
                write.settle(state, mark)
        return result

    def _run_queued(self, connection: ServerConnection) -> list[Queued[Any]]:
        """Run what is queued in the transaction that is under way; returns what was run."""
        taken = self._queue.take()
        if not taken:
            return []
        try:
            taken, others = lock_at_once(connection, taken)
            self._queue.put_back(others)
            for write in taken:
                write.result = write.work(connection)
        except BaseException as error:
            for write in taken:
                write.settle(State.ALONE)
            if isinstance(error, Exception):
                raise _GroupFailedError from error
            raise
        return taken

    def _commit(
        self, connection: ServerConnection, mark: tuple[str, int], tells: Iterable[bool | str]
    ) -> None:
        """Commit with a mark; _LostCommitError if the outcome is unknown.

        Those who wait are notified right after it, in a transaction of its own but on the same way
        to the server: a NOTIFY keeps every other one out until its transaction is on disk, so that
        writers of different conversations could not commit together.
        """
        notify = "".join(_notify(tell) for tell in tells)
        name, number = mark
        try:
            if number == 1:
                marked = f"INSERT INTO {server_schema.COMMIT_MARKS} (id, seq) VALUES ('{name}', 1)"
            else:
                marked = f"SELECT hermes_mark('{name}', {number})"
            connection.run_script(f"{marked}; COMMIT{notify}")
            connection.commits = number
        except pg.SerializationFailure:
            connection.raw.close()  # its mark was taken away: another connection goes on
            raise
        except psycopg.Error as error:
            # A server that ends a session says so before the connection is seen to be broken, and
            # maybe after the commit.
            if _is_lost(error) or connection.raw.broken or connection.raw.closed:
                raise _LostCommitError(str(error)) from error
            _roll_back(connection)
            if not notify:
                raise
            connection.raw.close()  # its mark is taken away by the question
            if not self._was_committed(*mark):
                raise
            log.warning("Others were not notified of a write to %s: %s", self.path, error)
        except BaseException:  # Ctrl-C: it may count or not, and so may its mark
            connection.raw.close()
            raise

    def _was_committed(self, name: str, number: int) -> bool:
        """Whether the write of a mark is there; if not, it never will be.

        Taking the mark away waits for the old transaction if that is still under way, and keeps it
        from committing if it has not marked yet.
        """
        deadline = time.monotonic() + self.busy_timeout
        while True:
            try:
                raw = self.connect()
                try:
                    with raw.transaction():
                        mark = raw.execute(
                            f"INSERT INTO {server_schema.COMMIT_MARKS} (id, seq) VALUES (%s, 0)"
                            " ON CONFLICT (id) DO UPDATE SET seq ="
                            f" -abs({server_schema.COMMIT_MARKS}.seq) RETURNING seq",
                            (name,),
                        ).fetchone()
                finally:
                    raw.close()
                return mark is not None and abs(mark[0]) == number
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if time.monotonic() > deadline:
                    raise StoreOutcomeUnknownError(
                        f"The connection to {self.path} broke while a commit was on its way, and"
                        " the server cannot be asked whether it counts. Look before doing it again."
                    ) from error
                time.sleep(0.2)

    def read(self, work: Callable[[Connection], T], *, one_statement: bool = False) -> T:
        """Run `work` in a transaction that sees one state of the store throughout.

        A work of `one_statement` does so by itself, and is spared two round trips.
        """
        self.require_open()
        tries = 0
        while True:
            tries += 1
            try:
                with self._connection() as connection:
                    if one_statement:
                        return work(connection)
                    connection.run_script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    try:
                        result = work(connection)
                        connection.run_script("COMMIT")
                    except BaseException:
                        _roll_back(connection)
                        raise
                    return result
            except (psycopg.Error, UnicodeError, OverflowError, TypeError) as error:
                self._retry_or_raise(error, tries)

    def outside_transaction(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a connection outside a transaction (VACUUM and the like)."""
        self.require_open()
        try:
            with self._connection() as connection:
                connection.run_script("SET statement_timeout = 0")
                connection.raw.answer_seconds, limit = None, connection.raw.answer_seconds
                try:
                    return work(connection)
                finally:
                    connection.raw.answer_seconds = limit
                    connection.run_script("RESET statement_timeout")
        except psycopg.Error as error:
            raise named(error, self.path) from error

    def _retry_or_raise(self, error: Exception, tries: int) -> None:
        """Return if the write may be retried on another connection; else raise our own error."""
        # Prepared before a newer Hermes beside us has upgraded the tables; "cached plan must not
        # change result type". A new connection prepares it anew.
        is_stale = isinstance(error, pg.FeatureNotSupported)
        if (is_stale and tries < _STALE_TRIES) or (_is_lost(error) and tries < _tries_for(error)):
            self._drop_idle()
            return
        translated = self._name_of(error)
        if translated is None:
            raise error
        raise translated from error

    def _name_of(self, error: Exception) -> StoreError | None:
        """The store's own error; None for a mistake in the call."""
        if isinstance(error, psycopg.Error):
            return named(error, self.path)
        if isinstance(error, TypeError) and not str(error).startswith("Bad binding argument"):
            return None
        return InvalidMessageError(f"A value that cannot be stored: {error}")

    # Opening

    def _prepare(self) -> None:
        """Create or upgrade the tables; refuse what cannot hold a store."""
        try:
            with self._connection() as connection:
                server_schema.require_own_session(connection, self.path)
                connection.now()
                if server_schema.is_current(connection, self.path):
                    server_schema.require_whole(connection, self.path)
                    return
                server_schema.require_fit(connection, self.path)
                connection.raw.answer_seconds = None
                connection.run_script("BEGIN")
                try:
                    server_schema.upgrade(connection, self.path)
                    connection.run_script("COMMIT")
                except BaseException:
                    _roll_back(connection)
                    raise
                # Statements that were prepared before the tables changed are not to be used again.
                connection.raw.close()
        except pg.InsufficientPrivilege as error:
            raise StoreUnavailableError(
                f"The tables on {self.path} have to be made or upgraded, which this role may not do"
                f" ({' '.join(str(error).split())}). Open it once with the role that owns the"
                " database, e.g. HERMES_STORE=postgresql://OWNER@… hermes sessions stats"
            ) from error
        except psycopg.Error as error:
            raise named(error, self.path) from error


def _lock(connection: ServerConnection, scope: Scope) -> str:
    """Statements that take the locks of a write; the last one tells the time."""
    if scope is None:  # the store's
        return "SELECT hermes_lock(NULL)"
    key = connection.quoted(scope)
    if isinstance(scope, ConversationId):
        lock = f"pg_advisory_xact_lock(hashtextextended({key}, 0))"
        return f"SELECT hermes_lock(''); SELECT {lock}; SELECT hermes_lock('')"
    return f"SELECT hermes_lock({key})"


def _next_mark(connection: ServerConnection) -> tuple[str, int]:
    """Under which name and number the connection's next commit is marked."""
    if connection.commits == 0:
        connection.mark = os.urandom(12).hex()
    return connection.mark, connection.commits + 1


def _notify(tell: bool | str) -> str:
    if isinstance(tell, str):
        return f"; NOTIFY {CHANNEL}, '{tell}'"
    return f"; NOTIFY {CHANNEL}" if tell else ""


def _is_alive(connection: ServerConnection) -> bool:
    try:
        connection.run_script("SELECT 1")
    except psycopg.Error:
        return False
    return True


_ENDED = (pg.AdminShutdown, pg.CrashShutdown, pg.IdleInTransactionSessionTimeout)


def _is_lost(error: Exception) -> bool:
    """Whether the session is over: nothing of its transaction counts, and another may do."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return error.sqlstate is None or isinstance(error, _ENDED)
    return isinstance(error, _ENDED)


def _tries_for(error: Exception) -> int:
    """How often a write whose sessions are lost is retried: the write itself may end them."""
    return 10 if isinstance(error, pg.AdminShutdown) else 5


def _roll_back(connection: ServerConnection) -> None:
    """End a transaction that failed; a connection that cannot is thrown away."""
    try:
        connection.run_script("ROLLBACK")
    except psycopg.Error:
        connection.raw.close()
