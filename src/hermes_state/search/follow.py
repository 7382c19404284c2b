"""Feeding the mirror: what was committed on the server since the last time, in short transactions.

The cursor is a snapshot of the server, not an id: ids are no order of commits. A message that comes
with a lower id than others before it is noted for the index, whose own cursor goes by ids.

Invariant: rows are read from the server under the file's write lock, so what is written
last is newest; and the snapshot is moved only in the transaction that writes the last of its rows.
A run that is killed is done again from where the snapshot is, which changes nothing.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import apsw

from ..dialect import Connection, column, tuples
from ..followed import MIRRORED
from ..opening import FileConnection
from ..schema import TABLES
from . import server_rows
from .feed import LATE_MESSAGE, STUCK_AFTER, Progress
from .index import create_tables
from .server_rows import Head, Place, Rows, Snapshot
from .source import MOST_BYTES

if TYPE_CHECKING:
    from ..server import ServerDatabase

log = logging.getLogger(__name__)

FORMAT = 1
"""`PRAGMA user_version` of the file; raise it whenever its tables are made differently."""

WIDE = 1000
"""Unsettled numbers of a snapshot that is moved on without news: each search goes through them."""


def _table(name: str) -> str:
    columns = TABLES[name][0]
    kept = [
        f"{column} {columns[column].partition(' REFERENCES ')[0]}"
        for column in MIRRORED.get(name, columns)
    ]
    return f"CREATE TABLE {name} ({', '.join(kept)})"


_SCHEMA = (
    *(_table(name) for name in ("sessions", "messages", "search_changes", "state_meta")),
    "CREATE INDEX idx_messages_session ON messages(session_id)",
    "CREATE INDEX idx_sessions_conversation ON sessions(conversation_id)",
    "CREATE TABLE mirrored (past TEXT NOT NULL, snapshot TEXT NOT NULL, copied_message INTEGER,"
    " copied_session TEXT)",
    f"PRAGMA user_version = {FORMAT}",
)
_STATE = (
    "SELECT past, snapshot, copied_message, copied_session, last.id, last.timestamp FROM mirrored"
    " LEFT JOIN messages AS last ON last.id = (SELECT max(id) FROM messages)"
)


def _insert(table: str) -> str:
    columns = MIRRORED[table]
    marks = ", ".join("?" * len(columns))
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"


_INSERT_SESSION, _INSERT_MESSAGE = _insert("sessions"), _insert("messages")
_LONG_COLUMNS = [MIRRORED["messages"].index(name) for name in ("content", "tool_calls")]


class State(NamedTuple):
    """How far the mirror is."""

    past: str
    seen: Snapshot
    copied_message: int | None
    """While the first copy is under way, up to where; then None."""
    copied_session: str | None
    last_id: int | None
    """Its newest message, and the time of that: if it changes on the server, so has the past."""
    last_time: float | None

    @property
    def is_whole(self) -> bool:
        return self.copied_message is None

    def invalid(self, head: Head) -> str | None:
        """Why the mirror cannot be carried on, if so."""
        if self.past != head.past:
            return "it belongs to another store, or to another past of this one"
        if self.seen.next > head.snapshot.next:
            return "it is ahead of the store"
        if self.is_whole and head.last_time is not None and head.last_time != self.last_time:
            return "the store has another past"
        return None


def read_state(conn: FileConnection) -> State | None:
    """How far the mirror is; None if the file holds none that we can read."""
    if conn.pragma("user_version") != FORMAT:
        return None
    states = tuples(conn, _STATE)
    if not states:
        return None
    past, snapshot, *rest = states[0]
    return State(past, Snapshot(snapshot), *rest)


class Follower:
    """One run of `catch_up`."""

    def __init__(self, database: ServerDatabase, conn: FileConnection, path: Path) -> None:
        self._read = database.read
        self._conn = conn
        self._path = path
        self._base: Snapshot | None = None
        """What the mirror had seen when this run began to read what is new."""
        self._goal: Snapshot | None = None
        """What it has seen when that ends."""
        self._places: dict[str, Place] = {}
        self._total = 0

    def run(self, progress: Progress | None, anew: bool) -> None:
        if anew:
            self._transaction(lambda: self._start_over("a rebuild was asked for"))
        elif self._is_current():
            return
        while not self._transaction(self._step):
            state = read_state(self._conn)
            if progress is not None and state is not None and state.copied_message is not None:
                progress(min(state.copied_message, self._total), self._total)

    def _is_current(self) -> bool:
        """Whether nothing is new; asked without a lock, as most searches find nothing."""
        state = read_state(self._conn)
        if state is None or not state.is_whole:
            return False
        head = self._read(
            lambda server: server_rows.read_head(server, state.seen, state.last_id),
            one_statement=True,
        )
        if head.news or state.invalid(head):
            return False
        return state.seen.width < WIDE or state.seen.oldest == head.snapshot.oldest

    def _transaction(self, work: Callable[[], bool]) -> bool:
        """Run `work` in a write transaction; wait for others as long as they make progress."""
        seen, since = None, time.monotonic()
        while True:
            try:
                self._conn.execute("BEGIN IMMEDIATE")
                break
            except apsw.BusyError:
                state = read_state(self._conn)
                if state != seen:
                    seen, since = state, time.monotonic()
                elif time.monotonic() - since > STUCK_AFTER:
                    raise
        try:
            done = work()
            self._conn.execute("COMMIT")
        except BaseException:
            if self._conn.in_transaction:
                self._conn.execute("ROLLBACK")
            raise
        return done

    def _step(self) -> bool:
        """One batch; True when what was committed at the beginning is there."""
        state = read_state(self._conn)
        if state is None:
            return self._start_over("it is new, or of another version")
        if not state.is_whole:
            return self._copy(state)
        if state.seen != self._base:  # at the beginning, or another process has gone on meanwhile
            self._base, self._goal, self._places = state.seen, None, {}

        def read(server: Connection) -> tuple[Head, Rows | None]:
            head = server_rows.read_head(server, state.seen, state.last_id)
            if state.invalid(head):
                return head, None
            return head, server_rows.read_new(server, state.seen, self._places, head.news)

        head, rows = self._read(read)
        if rows is None:
            return self._start_over(state.invalid(head) or "")
        if self._goal is None:
            self._goal = head.snapshot
        self._places = rows.places
        self._write(rows)
        if rows.is_last:
            self._conn.execute("UPDATE mirrored SET snapshot = ?", (self._goal.text,))
        return rows.is_last

    # The first copy

    def _start_over(self, reason: str) -> bool:
        log.info("Copying what search reads to %s: %s", self._path, reason)
        head, self._total = self._read(
            lambda server: (server_rows.read_head(server), server_rows.read_highest_id(server))
        )
        self._base = None
        create_tables(self._conn, _SCHEMA)
        self._conn.execute(
            "INSERT INTO mirrored (past, snapshot, copied_message) VALUES (?, ?, 0)",
            (head.past, head.snapshot.text),
        )
        return False

    def _copy(self, state: State) -> bool:
        """The next batch of everything, in the order of ids: messages, then sessions.

        What is committed meanwhile is new since the snapshot that the copy began with.
        """
        reached = state.copied_message or 0

        def read(server: Connection) -> tuple[Head, Rows]:
            head = server_rows.read_head(server, state.seen)
            if state.copied_session is None:
                return head, server_rows.read_messages_after(server, reached)
            return head, server_rows.read_sessions_after(server, state.copied_session)

        head, rows = self._read(read)
        if not self._total:  # another process, or an earlier one, has begun it
            self._total = self._read(server_rows.read_highest_id)
        reason = state.invalid(head)
        if reason:
            return self._start_over(reason)
        conn = self._conn
        conn.executemany(_INSERT_SESSION, rows.sessions)
        conn.executemany(_INSERT_MESSAGE, map(_stored, rows.messages))
        if state.copied_session is None:
            if rows.messages:
                reached = rows.messages[-1][0]
            conn.execute(
                "UPDATE mirrored SET copied_message = ?, copied_session = ?",
                (reached, "" if rows.is_last else None),
            )
        elif not rows.is_last:
            conn.execute("UPDATE mirrored SET copied_session = ?", (rows.sessions[-1][0],))
        else:
            conn.execute("UPDATE mirrored SET copied_message = NULL, copied_session = NULL")
            # Another name each time: an index of the mirror that was is not carried on.
            conn.execute(
                "INSERT INTO state_meta (key, value) VALUES ('store_id', ?)",
                (os.urandom(16).hex(),),
            )
        return False

    # What is new

    def _write(self, rows: Rows) -> None:
        conn = self._conn
        conn.executemany(_INSERT_SESSION, rows.sessions)
        late = self._late([row[0] for row in rows.messages])
        conn.executemany(_INSERT_MESSAGE, map(_stored, rows.messages))
        for session_id, present in rows.present.items():
            if present is None:
                conn.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
            conn.execute(
                "DELETE FROM messages WHERE session_id = ?"
                " AND id NOT IN (SELECT value FROM json_each(?))",
                (session_id, json.dumps(present or [])),
            )
        notes = [*rows.changes, *((str(message_id), LATE_MESSAGE) for message_id in late)]
        conn.executemany("INSERT INTO search_changes (session_id, kind) VALUES (?, ?)", notes)

    def _late(self, ids: list[int]) -> list[int]:
        """Those of the messages that are new here, though others with higher ids were before."""
        conn = self._conn
        highest = tuples(conn, "SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
        low = [message_id for message_id in ids if highest and message_id <= highest[0][0]]
        if not low:
            return []
        known = set(
            column(
                conn,
                "SELECT id FROM messages WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(low),),
            )
        )
        return [message_id for message_id in low if message_id not in known]


def _stored(row: server_rows.Row) -> server_rows.Row:
    """A message as it is kept: of a long one the bytes that are read."""
    values = list(row)
    for place in _LONG_COLUMNS:
        text = values[place]
        if text is not None and len(text) > MOST_BYTES // 4:
            raw = text.encode()
            if len(raw) > MOST_BYTES:
                values[place] = raw[:MOST_BYTES].decode(errors="ignore")
    return tuple(values)
