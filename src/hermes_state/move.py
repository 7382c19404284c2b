"""Moving a store row by row from one database to another, verified, and resumable.

Rows keep their ids, counters go on where they were. A move that was interrupted goes on where it
stopped: in each table rows are copied in the order of their key, in transactions, so what is there
is the beginning. At the end every row of every table is read again at both ends. A table in which
they differ (the source was used between two attempts) is emptied and copied anew, once.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import schema
from .dialect import Connection, tuples, value
from .errors import StoreError, StoreUnavailableError
from .move_ends import COUNTED, MOVING_KEY, End, FileEnd, open_end

BATCH = 1000
_NUMBERED_ROWS = ("inbox", "async_delegations", "delivery_obligations")
"""Read in the order in which rows came: a hidden number of SQLite's, a column on a server."""
_NOT_MOVED = ("own_schema_version", "oldest_reader", "store_id", MOVING_KEY)
"""Keys of `state_meta` that belong to the database, not to what was said."""
_KEYS = {
    "sessions": ("id",),
    "messages": ("id",),
    "session_model_usage": (
        "session_id", "model", "billing_provider", "billing_base_url", "billing_mode", "task",
    ),
    "state_meta": ("key",),
    "gateway_routing": ("scope", "session_key"),
    "compression_locks": ("session_id",),
    "approvals": ("id",),
    "approval_grants": ("granted_by", "pattern_key"),
    "turns": ("conversation_id",),
    "tool_runs": ("conversation_id", "fence", "call_id"),
    "replicas": ("owner",),
    "platform_leases": ("name",),
    "platform_records": ("platform", "name"),
    "signals": ("id",),
    "watches": ("conversation_id", "viewer"),
    "watched_events": ("conversation_id", "number", "viewer"),
    "model_calls": ("id",),
    "pairing_codes": ("code_hash",),
    "paired_users": ("platform", "user_id"),
    "link_codes": ("code_hash",),
    "persons": ("id",),
    "doors": ("kind", "identifier"),
    "web_devices": ("id",),
    "person_merges": ("id",),
    "jobs": ("id",),
    "job_runs": ("id",),
    "memory_spaces": ("space",),
    "memory_shown": ("space", "chat"),
    "kept_files": ("path",),
    "search_changes": ("seq",),
    **dict.fromkeys(_NUMBERED_ROWS, ("rowid",)),
}  # fmt: skip
_DEPENDENT = ("messages", "session_model_usage")
"""Tables whose rows name a session, and go with it."""
_OBJECTS = ("objects", "object_links", "object_blobs", "object_chunks")
"""Files that messages name: `hermes store move` takes them along by way of the home."""
_OF_SERVERS = ("kept_files",)
"""Tables that only a server needs: beside a store in a file, what they hold is in the home."""
_CHANGES = "search_changes"
_HALF_PAIR = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)

Progress = Callable[[str, int, int], None]
"""What is being done, how many rows of it are done, and of how many."""


class MoveReport(NamedTuple):
    """What a move has done."""

    rows: dict[str, int]
    """Rows by table, all of them found to be the same at both ends."""
    resumed: int
    """Rows of these that an earlier attempt had copied."""
    texts_with_nul: int
    texts_with_half_pairs: int
    """Texts with halves of surrogate pairs, which are kept as JSON."""
    left_behind: list[str]
    """Tables and columns that are not ours."""


def tables() -> list[str]:
    """Every table that is moved, sessions before what names them."""
    return [table for table in schema.TABLES if table not in ("schema_version", *_OBJECTS)]


def move_store(source: str | Path, target: str | Path, progress: Progress) -> MoveReport:
    """Copy everything from one place to another, a file's path or a server's address.

    Raises StoreBusyError if anybody uses one of them, StoreUnavailableError if there is something
    in the target already, and StoreError if anything differs in the end. The source is not changed.
    """
    begin = open_end(source, is_target=False)
    try:
        end = open_end(target, is_target=True)
        try:
            with begin.naming_errors(), end.naming_errors():
                report = _Move(begin, end, progress).run()
                end.finish()
            return report
        finally:
            end.close()
    finally:
        begin.close()


class _Move:
    def __init__(self, source: End, target: End, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._nul = self._half_pairs = self._resumed = 0

    def run(self) -> MoveReport:
        self._claim()
        left_behind = self._source.strangers()
        counts = {table: _count(self._source.conn, table) for table in tables()}
        self._resumed = sum(_count(self._target.conn, table) for table in tables())
        self._copy(tables(), counts)
        differing = self._verify(counts)
        if differing and self._resumed:
            again = self._empty(differing)
            self._resumed = 0
            self._copy(again, counts)
            differing = self._verify(counts)
        if differing:
            raise StoreError(
                f"After the move {', '.join(differing)} on {self._target.where} is not what it is"
                f" on {self._source.where}. Nothing was changed there; the copy is not used."
            )
        self._settle()
        return MoveReport(counts, self._resumed, self._nul, self._half_pairs, left_behind)

    def _claim(self) -> None:
        """Mark the target as ours; refuse one that holds anything else."""
        conn = self._target.conn
        mine = f"{self._source.where} {value(self._source.conn, _STORE_ID)}"
        with self._target.transaction():
            begun_for = value(conn, _MARK, (MOVING_KEY,))
            if begun_for == mine:
                return
            if begun_for is not None:
                raise StoreUnavailableError(
                    f"A move of another store into {self._target.where} was begun and not finished."
                    f" To begin anew: {self._target.how_to_empty}."
                )
            for table in tables():
                if table != "state_meta" and _count(conn, table):
                    raise StoreUnavailableError(
                        f"{self._target.where} is not empty: there are rows in {table}. Nothing was"
                        " changed; name an empty database."
                    )
            conn.execute(f"DELETE FROM state_meta WHERE {_filter('state_meta')}")
            conn.execute("INSERT INTO state_meta (key, value) VALUES (?, ?)", (MOVING_KEY, mine))

    def _copy(self, wanted: Sequence[str], counts: dict[str, int]) -> None:
        total, done = sum(counts[table] for table in wanted), 0
        for table in wanted:
            names = _columns(table)
            places = ", ".join("?" * len(names))
            insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})"
            done += _count(self._target.conn, table)
            self._progress("Copying", done, total)
            for batch in self._missing(table):
                for row in batch:
                    self._look_at(table, row)
                try:
                    with self._target.transaction(), self._target.naming_errors():
                        self._target.conn.executemany(insert, batch)
                except StoreError as error:
                    raise type(error)(
                        f"Rows of {table} could not be copied: {error} If the store itself is at"
                        " fault: hermes doctor --fix"
                    ) from error
                done += len(batch)
                self._progress("Copying", done, total)

    def _missing(self, table: str) -> Iterator[list[tuple[Any, ...]]]:
        """The rows that are not in the target yet, in batches."""
        if table == "sessions":
            return self._missing_sessions()
        copied = _count(self._target.conn, table)
        return _batches(self._source.conn, table, after=_last_of(self._source.conn, table, copied))

    def _missing_sessions(self) -> Iterator[list[tuple[Any, ...]]]:
        """Sessions, each after the one it names as its parent."""
        there = {name for (name,) in tuples(self._target.conn, "SELECT id FROM sessions")}
        wanted = [name for name in _parents_first(self._source) if name not in there]
        columns = ", ".join(_columns("sessions"))
        for start in range(0, len(wanted), BATCH):
            names = wanted[start : start + BATCH]
            places = ", ".join("?" * len(names))
            sessions = {
                row[0]: row
                for row in tuples(
                    self._source.conn,
                    f"SELECT {columns} FROM sessions WHERE id IN ({places})",
                    names,
                )
            }
            yield [sessions[name] for name in names]

    def _look_at(self, table: str, row: tuple[Any, ...]) -> None:
        for cell in row:
            if isinstance(cell, str):
                self._nul += "\0" in cell
                self._half_pairs += "\\u" in cell and _HALF_PAIR.search(cell) is not None
            elif isinstance(cell, bytes):
                raise StoreError(
                    f"{table} holds bytes where text belongs, in the row {row[0]!r}; nothing of"
                    " Hermes writes that. Put it right first."
                )

    def _verify(self, counts: dict[str, int]) -> list[str]:
        """The tables that differ, after every row was read at both ends."""
        total, done = 2 * sum(counts.values()), 0
        differing = []

        def seen(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress("Comparing", min(done, total), total)

        for table in tables():
            here = digest_of(self._source.conn, table, seen)
            if here != digest_of(self._target.conn, table, seen):
                differing.append(table)
        return differing

    def _empty(self, differing: list[str]) -> list[str]:
        """Empty tables, with those that depend on them; returns which, in the order to copy."""
        also: set[str] = set(_DEPENDENT) if "sessions" in differing else set()
        if also or "messages" in differing:
            also.add(_CHANGES)
        again = [table for table in tables() if table in differing or table in also]
        with self._target.transaction():
            self._target.set_counters({})
            for table in reversed(again):
                if table == "sessions":
                    self._target.conn.execute("UPDATE sessions SET parent_session_id = NULL")
                where = _filter(table)
                self._target.conn.execute(
                    f"DELETE FROM {table}{f' WHERE {where}' if where else ''}"
                )
            if _CHANGES in again:  # a server notes there what is deleted
                self._target.conn.execute(f"DELETE FROM {_CHANGES}")
        return again

    def _settle(self) -> None:
        """Count on from where the source was; from now on the target is whole."""
        counters = {table: self._source.counter(table) for table in COUNTED}
        with self._target.transaction():
            self._target.set_counters(counters)
            self._target.conn.execute("DELETE FROM state_meta WHERE key = ?", (MOVING_KEY,))
            if isinstance(self._target, FileEnd):
                for table in _OF_SERVERS:
                    self._target.conn.execute(f"DELETE FROM {table}")


_STORE_ID = "SELECT value FROM state_meta WHERE key = 'store_id'"
_MARK = "SELECT value FROM state_meta WHERE key = ?"


def _columns(table: str) -> list[str]:
    names = list(schema.TABLES[table][0])
    return [*names, "rowid"] if table in _NUMBERED_ROWS else names


def _filter(table: str) -> str:
    """Which rows of a table are moved; empty for all."""
    if table != "state_meta":
        return ""
    return f"key NOT IN ({', '.join(repr(key) for key in _NOT_MOVED)})"


def _count(conn: Connection, table: str) -> int:
    where = _filter(table)
    return int(value(conn, f"SELECT COUNT(*) FROM {table}{f' WHERE {where}' if where else ''}"))


def _last_of(conn: Connection, table: str, count: int) -> tuple[Any, ...] | None:
    """The key of the last of the first `count` rows; None for none, () behind all rows."""
    if not count:
        return None
    keys, where = ", ".join(_KEYS[table]), _filter(table)
    last = tuples(
        conn,
        f"SELECT {keys} FROM {table}{f' WHERE {where}' if where else ''} ORDER BY {keys}"
        " LIMIT 1 OFFSET ?",
        (count - 1,),
    )
    # With fewer rows here than there, something was deleted meanwhile: comparing finds it.
    return last[0] if last else ()


def _batches(
    conn: Connection, table: str, after: tuple[Any, ...] | None = None
) -> Iterator[list[tuple[Any, ...]]]:
    """All rows behind a key, in the order of their keys."""
    names, keys = _columns(table), _KEYS[table]
    order = ", ".join(keys)
    positions = [names.index(key) for key in keys]
    while after != ():
        conditions = [_filter(table)] if _filter(table) else []
        if after is not None:
            conditions.append(f"({order}) > ({', '.join('?' * len(keys))})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        batch = tuples(
            conn,
            f"SELECT {', '.join(names)} FROM {table}{where} ORDER BY {order} LIMIT {BATCH}",
            after or (),
        )
        if not batch:
            return
        yield batch
        after = tuple(batch[-1][position] for position in positions)


def _parents_first(source: End) -> list[str]:
    parents: dict[str, str | None] = dict(
        tuples(source.conn, "SELECT id, parent_session_id FROM sessions ORDER BY id")
    )
    lost = [name for name, parent in parents.items() if parent and parent not in parents]
    if lost:
        raise StoreError(
            f"{len(lost)} sessions of {source.where} name a parent that is not there, which a"
            " server does not take. Put it right first: hermes doctor --fix"
        )
    order: dict[str, None] = {}
    for name in parents:
        chain: list[str] = []
        above: str | None = name
        while above is not None and above not in order:
            chain.append(above)
            above = parents[above]
            if len(chain) > len(parents):
                raise StoreError(f"The parents of session {name!r} lead in a circle.")
        order |= dict.fromkeys(reversed(chain))
    return list(order)


def digest_of(
    conn: Connection, table: str, seen: Callable[[int], None] = lambda rows: None
) -> tuple[int, int]:
    """How many rows a table has, and the sum of their digests: the same in whichever order."""
    count = total = 0
    for batch in _batches(conn, table):
        for row in batch:
            total += int.from_bytes(_row_digest(row), "big")
        count += len(batch)
        seen(len(batch))
    return count, total % (1 << 256)


def _row_digest(row: tuple[Any, ...]) -> bytes:
    digest = hashlib.sha256()
    for cell in row:
        if cell is None:
            digest.update(b"n")
        elif isinstance(cell, str):
            text = cell.encode()
            digest.update(b"t%d:" % len(text))
            digest.update(text)
        elif isinstance(cell, float):
            digest.update(b"f" + struct.pack(">d", cell + 0.0))  # SQLite has no negative zero
        elif isinstance(cell, int):
            digest.update(b"i%d;" % cell)
        else:
            digest.update(b"b" + bytes(cell))
    return digest.digest()
