"""What the functions of this package ask of a connection, whichever database is behind it.

A statement is written once, in words that SQLite and PostgreSQL both know, with `?` or `?1` for its
values. What has no common words is a method here. (Four functions that PostgreSQL lacks are made in
its schema: see `server_schema`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import apsw

ALL_ROWS = 2**62
"""A LIMIT that leaves nothing out."""

SERVER_COLUMNS = frozenset({"rowid", "tx"})
"""Columns that only a server's tables have: an order of rows that a file keeps without naming it,
and what `followed` needs. Nobody is shown them."""


def at_most(limit: int | None) -> int:
    """A LIMIT; None and what is below zero leave nothing out."""
    return ALL_ROWS if limit is None or limit < 0 else limit


class Blob(bytes):
    """Bytes for a column that holds bytes; any others are refused, since columns hold text."""


class Cursor(Protocol):
    """The result of a statement."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def get_description(self) -> Any: ...


class Connection(Protocol):
    """A connection within a transaction of a work, or outside of one."""

    is_server: bool
    """Whether other machines may use the store too."""

    lock_row: str
    """Suffix of a SELECT that locks the row until the transaction ends."""

    def execute(self, statement: str, values: Any = (), /) -> Cursor:
        """Run a statement; its result is read by walking it."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement once for each row of values."""
        ...

    returning_id: str
    """Suffix of an INSERT of one row for `inserted_id`."""

    def inserted_id(self, cursor: Cursor) -> int | None:
        """The id of the row that was just inserted; None if a trigger or a rule left it out."""
        ...

    def changes(self) -> int:
        """How many rows the last statement has inserted, updated or deleted."""
        ...

    def now(self) -> float:
        """Seconds since 1970 by the clock of the store: one clock for all who use it."""
        ...

    def damage(self) -> list[str]:
        """What the database finds wrong with its own files, at most a few; empty if nothing."""
        ...

    def index_names(self) -> set[str]:
        """The names of all indexes that are there."""
        ...

    def size(self) -> int:
        """Bytes on disk."""
        ...

    def unused_size(self) -> int:
        """Bytes of those that hold nothing and that a vacuum would give back."""
        ...


def rows(connection: Connection, sql: str, values: Any = ()) -> list[dict[str, Any]]:
    """The result of a query as dicts."""
    cursor = connection.execute(sql, values)
    try:
        names = [column[0] for column in cursor.get_description()]
    except apsw.ExecutionCompleteError:  # apsw's word for an empty result
        return []
    result = [dict(zip(names, values, strict=True)) for values in cursor]
    if not SERVER_COLUMNS.isdisjoint(names):
        for record in result:
            for name in SERVER_COLUMNS.intersection(names):
                del record[name]
    return result


def row(connection: Connection, sql: str, values: Any = ()) -> dict[str, Any] | None:
    """The first row of a query as a dict, or None."""
    result = rows(connection, sql, values)
    return result[0] if result else None


def insert_row(connection: Connection, sql: str, values: Any = ()) -> int | None:
    """Insert a row into a table whose ids are counted; returns its id, None if it was not kept."""
    return connection.inserted_id(connection.execute(sql + connection.returning_id, values))


def tuples(connection: Connection, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
    """The result of a query, read to its end, so that it may be changed while it is walked."""
    return connection.execute(sql, values).fetchall()


def column(connection: Connection, sql: str, values: Any = ()) -> list[Any]:
    """The first column of a query, read to its end."""
    return [row[0] for row in connection.execute(sql, values)]


def value(connection: Connection, sql: str, values: Any = ()) -> Any:
    """The first column of the first row, or None."""
    first = connection.execute(sql, values).fetchone()
    return None if first is None else first[0]
