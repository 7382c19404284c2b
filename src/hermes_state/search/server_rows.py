"""What search reads from a server: what was committed between two snapshots, in batches.

A snapshot says which transactions had committed at one moment (`xmin:xmax:those still open`). A row
is new to whoever has seen a snapshot if the transaction in its column `tx` was not visible in that,
whatever its id: one that commits late is new when it commits, and nothing is read twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..dialect import Connection, column, tuples
from ..followed import KEYS, MIRRORED, TX
from .batch import BATCH_BYTES, BATCH_ROWS
from .source import MOST_BYTES

CHANGES_PER_BATCH = 256
SESSIONS_PER_BATCH = 2048
IDS_PER_BATCH = 100_000

Row = tuple[Any, ...]
Place = tuple[str, Any]
"""The transaction and the key of the row that was read last."""


class Snapshot(NamedTuple):
    """Which transactions were visible, in PostgreSQL's words."""

    text: str

    @property
    def oldest(self) -> str:
        """The oldest transaction that was open: all before it are settled."""
        return self.text.split(":")[0]

    @property
    def next(self) -> int:
        """The first number that no transaction had yet."""
        return int(self.text.split(":")[1])

    @property
    def width(self) -> int:
        """How many numbers are not settled."""
        return self.next - int(self.oldest)


class Head(NamedTuple):
    """The store as it is now."""

    snapshot: Snapshot
    past: str
    """Which database of which server this is, and its line of history."""
    last_time: float | None
    """The time of the message that was asked for."""
    news: frozenset[str]
    """The tables in which something is new since the snapshot that was asked for."""


def _size(name: str) -> str:
    return f"coalesce(octet_length({name}), 0)"


def _cut(name: str) -> str:
    """At most as many characters as bytes are read of a message."""
    cut = f"left({name}, {MOST_BYTES})"
    return f"CASE WHEN octet_length({name}) > {MOST_BYTES} THEN {cut} ELSE {name} END"


_LONG = ("content", "tool_calls")
_MESSAGE = ", ".join(_cut(name) if name in _LONG else name for name in MIRRORED["messages"])
_SESSION = ", ".join(MIRRORED["sessions"])

# ?1 is the snapshot that was seen, ?2 and ?3 the transaction and the key of the last row read, ?4
# how many are wanted. What
# has a number that is not given out yet came with a copy of another server's database, and was
# there from the beginning.
_NEW = (
    "({tx}, {key}) > (CAST(?2 AS xid8), ?3) AND {tx} < pg_snapshot_xmax(pg_current_snapshot())"
    " AND NOT pg_visible_in_snapshot({tx}, CAST(?1 AS pg_snapshot)) ORDER BY {tx}, {key} LIMIT ?4"
)


def _new(table: str) -> str:
    return _NEW.format(tx=TX, key=KEYS[table])


def _first_new(table: str, first_key: str) -> str:
    # In the order of the index, so that no scan of the table seems cheaper to the planner.
    return (
        f"(SELECT 1 FROM {table} WHERE {_new(table).replace('?3', first_key).replace('?4', '1')})"
    )


_NO_TEXT = "''"
_HEAD = (
    "SELECT CAST(pg_current_snapshot() AS text), hermes_past(),"
    " (SELECT value FROM state_meta WHERE key = 'store_id')"
)
_NEWS = (
    f"{_HEAD}, (SELECT timestamp FROM messages WHERE id = ?3),"
    f" {_first_new('messages', '-1')}, {_first_new('search_changes', '-1')},"
    f" {_first_new('sessions', _NO_TEXT)}"
)


def read_head(conn: Connection, seen: Snapshot | None = None, last_id: int | None = None) -> Head:
    """How the store is now, and whether anything is new since the snapshot `seen`."""
    if seen is None:
        snapshot, past, store_id = tuples(conn, _HEAD)[0]
        return Head(Snapshot(snapshot), f"{store_id}-{past}", None, frozenset(KEYS))
    values = (seen.text, seen.oldest, -1 if last_id is None else last_id)
    snapshot, past, store_id, last_time, *first = tuples(conn, _NEWS, values)[0]
    tables = zip(("messages", "search_changes", "sessions"), first, strict=True)
    news = frozenset(table for table, new_row in tables if new_row is not None)
    return Head(Snapshot(snapshot), f"{store_id}-{past}", last_time, news)


@dataclass
class Rows:
    """One batch of what is to be written to the mirror."""

    messages: list[Row] = field(default_factory=list)
    sessions: list[Row] = field(default_factory=list)
    """Among them the sessions of all these messages."""
    changes: list[tuple[str, str]] = field(default_factory=list)
    """Sessions that the index must look at again, with the kind of the change."""
    present: dict[str, list[int] | None] = field(default_factory=dict)
    """Of sessions that were rewritten, the messages that are there; None if it was deleted."""
    places: dict[str, Place] = field(default_factory=dict)
    """Up to where each table was read."""
    is_last: bool = True
    """Whether nothing was left out."""


def _messages_sql(where: str, order: str, most_bytes: str) -> str:
    """Messages, as many as fit into a batch; then their transaction, and how many there were."""
    size = " + ".join(_size(name) for name in _LONG)
    return (
        f"SELECT {_MESSAGE}, CAST({TX} AS text), available FROM ("
        f"SELECT *, sum({size}) OVER (ORDER BY {order}) - ({size}) AS read_before,"
        " count(*) OVER () AS available"
        f" FROM (SELECT * FROM messages WHERE {where}) AS wanted) AS sized"
        f" WHERE read_before < {most_bytes} ORDER BY {order}"
    )


_NEW_MESSAGES = _messages_sql(_new("messages"), f"{TX}, id", "?5")
_ALL_MESSAGES = _messages_sql("id > ?1 ORDER BY id LIMIT ?2", "id", "?3")
_NEW_SESSIONS = f"SELECT {_SESSION}, CAST({TX} AS text) FROM sessions WHERE {_new('sessions')}"
_ALL_SESSIONS = f"SELECT {_SESSION} FROM sessions WHERE id > ? ORDER BY id LIMIT ?"
_NEW_CHANGES = (
    f"SELECT seq, session_id, kind, CAST({TX} AS text) FROM search_changes"
    f" WHERE {_new('search_changes')}"
)
_WIDTH = len(MIRRORED["messages"])


def read_new(
    conn: Connection, seen: Snapshot, places: dict[str, Place], news: frozenset[str]
) -> Rows:
    """What is new since the snapshot `seen` in these tables, from where the last batch ended."""
    rows = Rows(places=dict(places))

    def read(table: str, sql: str, first_key: Any, *limits: int) -> list[Row]:
        if table not in news:
            return []
        place = places.get(table, (seen.oldest, first_key))
        return tuples(conn, sql, (seen.text, *place, *limits))

    messages = read("messages", _NEW_MESSAGES, -1, BATCH_ROWS, BATCH_BYTES)
    if messages:
        rows.places["messages"] = messages[-1][_WIDTH], messages[-1][0]
        rows.is_last &= _is_whole(messages)
    sessions = read("sessions", _NEW_SESSIONS, "", SESSIONS_PER_BATCH)
    if sessions:
        rows.places["sessions"] = sessions[-1][-1], sessions[-1][0]
        rows.is_last &= len(sessions) < SESSIONS_PER_BATCH
    changes = read("search_changes", _NEW_CHANGES, -1, CHANGES_PER_BATCH)
    if changes:
        rows.places["search_changes"] = changes[-1][-1], changes[-1][0]
        rows.is_last &= len(changes) < CHANGES_PER_BATCH
    rows.sessions = [row[:-1] for row in sessions]
    rows.changes = [(row[1], row[2]) for row in sorted(changes)]
    for session_id in dict.fromkeys(id for id, kind in rows.changes if kind == "session"):
        ids = column(conn, "SELECT id FROM messages WHERE session_id = ?", (session_id,))
        session = tuples(conn, f"SELECT {_SESSION} FROM sessions WHERE id = ?", (session_id,))
        rows.sessions += session
        rows.present[session_id] = ids if session else None
    _add_messages(conn, rows, messages)
    return rows


def read_messages_after(conn: Connection, message_id: int) -> Rows:
    """All messages with higher ids, as many as fit into a batch."""
    rows = Rows()
    messages = tuples(conn, _ALL_MESSAGES, (message_id, BATCH_ROWS, BATCH_BYTES))
    rows.is_last = _is_whole(messages)
    _add_messages(conn, rows, messages)
    return rows


def read_sessions_after(conn: Connection, session_id: str) -> Rows:
    """All sessions with higher ids, as many as fit into a batch."""
    sessions = tuples(conn, _ALL_SESSIONS, (session_id, SESSIONS_PER_BATCH))
    return Rows(sessions=sessions, is_last=len(sessions) < SESSIONS_PER_BATCH)


def _is_whole(messages: list[Row]) -> bool:
    """Whether a batch holds all that there were."""
    return not messages or len(messages) == messages[-1][-1] < BATCH_ROWS


def _add_messages(conn: Connection, rows: Rows, messages: list[Row]) -> None:
    """Take messages into a batch, with their sessions: whose they are must be known with them."""
    rows.messages = sorted(row[:_WIDTH] for row in messages)
    known = {row[0] for row in rows.sessions}
    wanted = {row[1] for row in rows.messages} - known
    if wanted:
        rows.sessions += tuples(
            conn, f"SELECT {_SESSION} FROM sessions WHERE id = ANY(?)", (sorted(wanted),)
        )


def read_highest_id(conn: Connection) -> int:
    """The highest id of a message."""
    return int(tuples(conn, "SELECT coalesce(max(id), 0) FROM messages")[0][0])


def read_seen_ids(conn: Connection, seen: Snapshot, after: int) -> list[int]:
    """Ids, in order, of messages that whoever has seen a snapshot must know; copies left out."""
    return column(
        conn,
        f"SELECT id FROM messages WHERE id > ?2 AND origin_id IS NULL"
        f" AND ({TX} >= pg_snapshot_xmax(pg_current_snapshot())"
        f" OR pg_visible_in_snapshot({TX}, CAST(?1 AS pg_snapshot)))"
        f" ORDER BY id LIMIT {IDS_PER_BATCH}",
        (seen.text, after),
    )
