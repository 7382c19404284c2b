"""The two ends of a move: a file or a server, each held so that nobody else writes to it.

Rows are copied into a temporary file, which is renamed once everything was verified, or into a
server's tables, which are marked as incomplete in `state_meta` until then.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import apsw

from . import schema
from .connection import BUSY_TIMEOUT
from .dialect import Connection, column, value
from .errors import StoreBusyError, StoreError, StoreUnavailableError
from .open_store import open_store
from .opening import FileConnection, open_connection
from .sqlite_errors import translated

if TYPE_CHECKING:
    from .server_connection import ServerConnection

MOVING_KEY = "moving_from"
"""In `state_meta` of the place that things are moved to, until all of them are there."""

_GONE_SECONDS = 2.0

COUNTED = {"messages": "id", "search_changes": "seq"}
"""Columns whose numbers are never given out again, also after the newest row was deleted."""


class End(Protocol):
    """Where a move begins or ends."""

    where: str
    how_to_empty: str
    """What to do to begin anew, for people."""

    @property
    def conn(self) -> Connection:
        """The connection that everything is read or written with."""
        ...

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Changes that count together."""
        ...

    def naming_errors(self) -> contextlib.AbstractContextManager[None]:
        """Give the database's errors the store's names."""
        ...

    def strangers(self) -> list[str]:
        """Tables and columns there that are not ours, and are not moved."""
        ...

    def counter(self, table: str) -> int:
        """The highest number that was ever given out in a table of `COUNTED`."""
        ...

    def set_counters(self, counters: dict[str, int]) -> None:
        """Go on counting above these numbers, and above every row that is there."""
        ...

    def finish(self) -> None:
        """Everything is there: let it be used."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class FileEnd:
    """A file; as a source it is locked against writers for as long as it is read."""

    def __init__(self, path: Path, *, is_target: bool) -> None:
        self.where = str(path)
        self._path = path
        self._is_target = is_target
        self._file = path.with_name(path.name + ".moving") if is_target else path
        self.how_to_empty = f"delete {self._file}"
        if is_target and path.exists():
            raise StoreUnavailableError(
                f"{path} is there already; it is not overwritten. Move it away first."
            )
        database, _ = open_store(self._file, BUSY_TIMEOUT)  # made, or brought up to date
        database.close()
        self.conn: FileConnection = open_connection(self._file, readonly=False, busy_timeout=1.0)
        with self.naming_errors():
            if not is_target:
                self.conn.execute("BEGIN IMMEDIATE")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Changes that count together."""
        self.conn.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
            raise
        self.conn.execute("COMMIT")

    @contextlib.contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Give SQLite's errors the store's names."""
        try:
            yield
        except apsw.Error as error:
            raise translated(error, self._file) from error
        except UnicodeDecodeError as error:
            raise StoreError(
                f"{self.where} holds a text that is not valid UTF-8, which no other database takes:"
                " run hermes sessions repair first."
            ) from error

    def strangers(self) -> list[str]:
        """Tables and columns of other programs."""
        tables = column(
            self.conn,
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
        )
        unknown = [f"table {name}" for name in tables if name not in schema.TABLES]
        for table, (columns, _) in schema.TABLES.items():
            there = column(self.conn, "SELECT name FROM pragma_table_info(?)", (table,))
            unknown += [f"column {table}.{name}" for name in there if name not in columns]
        return unknown

    def counter(self, table: str) -> int:
        """The highest number that was ever given out in a table."""
        return int(
            value(self.conn, "SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)) or 0
        )

    def set_counters(self, counters: dict[str, int]) -> None:
        """Go on counting above these numbers; SQLite has seen to the rows itself."""
        for table, number in counters.items():
            self.conn.execute(
                "DELETE FROM sqlite_sequence WHERE name = ? AND seq < ?", (table, number)
            )
            if self.counter(table) < number:
                self.conn.execute(
                    "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, number)
                )

    def finish(self) -> None:
        """Make it one file, on disk, and give it its name."""
        with self.naming_errors():
            self.conn.execute("PRAGMA journal_mode = DELETE").fetchall()
            self.conn.close()
        if self._path.exists():
            raise StoreUnavailableError(
                f"{self._path} has come meanwhile; everything that was moved is in {self._file}."
            )
        with self._file.open("rb") as file:
            os.fsync(file.fileno())
        self._file.rename(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Let go."""
        self.conn.close()  # an open transaction is rolled back


class ServerEnd:
    """A server; the store's lock is held, so that nobody else writes."""

    def __init__(self, address: str, *, is_target: bool) -> None:
        import psycopg

        from . import server_schema
        from .address import shown
        from .server_connection import ServerConnection, connect
        from .server_errors import named

        self.where = shown(address)
        self.how_to_empty = "drop that database and create it again"
        self._is_target = is_target
        self._named = named
        self._error = psycopg.Error
        with self.naming_errors():
            raw = connect(address, BUSY_TIMEOUT)
            raw.answer_seconds = None
        self.conn: ServerConnection = ServerConnection(raw)
        try:
            with self.naming_errors():
                server_schema.require_fit(self.conn, self.where)
                server_schema.require_own_session(self.conn, self.where)
                # The other end may keep us waiting in the middle of a transaction.
                self.conn.run_script(
                    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"
                )
                self._hold(server_schema.STORE_LOCK)
                self._prepare()
        except BaseException:
            raw.close()
            raise

    def _hold(self, lock: int) -> None:
        from .server_report import usage

        # The server notices a moment later that a connection was closed.
        until = time.monotonic() + _GONE_SECONDS
        while (ours := usage(self.conn).ours) and time.monotonic() < until:
            time.sleep(0.05)
        if ours:
            raise StoreBusyError(
                f"{self.where} is in use: Hermes has {ours} other connections to it. End every"
                " Hermes that uses it, on all machines, and try again."
            )
        if not value(self.conn, f"SELECT pg_try_advisory_lock({lock})"):
            raise StoreBusyError(f"Another process is writing to {self.where}. Try again later.")

    def _prepare(self) -> None:
        from . import server_schema

        if not server_schema.is_current(self.conn, self.where):
            if not self._is_target and server_schema.read_numbers(self.conn) is None:
                raise StoreUnavailableError(f"There is no store on {self.where} to be moved.")
            with self.transaction():
                server_schema.upgrade(self.conn, self.where)
        if self._is_target:
            self._require_ownership()
            return
        server_schema.require_whole(self.conn, self.where)
        self.conn.run_script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def _require_ownership(self) -> None:
        """Setting what is counted needs more than a working role has."""
        if not value(
            self.conn,
            "SELECT has_sequence_privilege(?, 'UPDATE')",
            (self._sequence("messages", "id"),),
        ):
            raise StoreUnavailableError(
                f"The role of this address may not set the counters of {self.where}. Move with the"
                " role that owns the tables."
            )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Changes that count together."""
        self.conn.run_script("BEGIN")
        try:
            yield
        except BaseException:
            if not self.conn.raw.closed:
                self.conn.run_script("ROLLBACK")
            raise
        self.conn.run_script("COMMIT")

    @contextlib.contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Give the server's errors the store's names."""
        try:
            yield
        except self._error as error:
            raise self._named(error, self.where) from error

    def strangers(self) -> list[str]:
        """None are looked for: what else is in the database is its owner's business."""
        return []

    def counter(self, table: str) -> int:
        """The highest number that was ever given out in a table."""
        name = self._sequence(table, COUNTED[table])
        last = value(self.conn, "SELECT pg_sequence_last_value(CAST(? AS regclass))", (name,))
        return int(last or 0)

    def _sequence(self, table: str, column_name: str) -> Any:
        return value(self.conn, "SELECT pg_get_serial_sequence(?, ?)", (table, column_name))

    def set_counters(self, counters: dict[str, int]) -> None:
        """Go on counting above these numbers, and above every row."""
        from .server_schema import NUMBERED_ROWS

        for table, name in (*COUNTED.items(), *((table, "rowid") for table in NUMBERED_ROWS)):
            highest = value(self.conn, f"SELECT MAX({name}) FROM {table}") or 0
            number = max(int(highest), counters.get(table, 0))
            self.conn.execute(
                "SELECT setval(CAST(? AS regclass), ?, CAST(? AS integer) = 1)",
                (self._sequence(table, name), max(number, 1), number > 0),
            )

    def finish(self) -> None:
        """Let the server count what it has, so that it plans well from the first query on."""
        for table in schema.TABLES:
            self.conn.run_script(f"ANALYZE {table}")

    def close(self) -> None:
        """Let go; the lock goes with the session."""
        self.conn.raw.close()


def open_end(place: str | Path, *, is_target: bool) -> End:
    """Open a file or a server as one end of a move; StoreBusyError if others use it."""
    if isinstance(place, Path):
        return FileEnd(place, is_target=is_target)
    return ServerEnd(place, is_target=is_target)
