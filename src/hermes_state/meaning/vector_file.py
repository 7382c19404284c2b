"""The file `vectors.db`: the vectors of messages, derived from the store and the model.

It may be deleted at any time and is made anew in the background. It holds

- feed      one row: which store was read with which model, and how far
- block     the bits of messages, 256 message ids to a row, with what filters ask of them
- fine      the vectors themselves, by message
- usual     those of sentences that are about anything (see `usual`)

What is in the file and the `feed` row change in one transaction. A block that changes gets the
number of that change, so that processes that hold blocks in memory read only those again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..dialect import tuples
from ..opening import FileConnection
from ..search.index import create_tables, facet
from .vectors import Array, to_bits, to_fine

FORMAT = 1
"""`PRAGMA user_version` of the file; raise it whenever vectors or tables are made differently."""
BLOCK_BITS = 8
PART_BITS = 16
"""Ids that differ only in these bits are held in memory as one part."""
LONGEST = 1500
"""Characters of a message that are given to the model, from its beginning."""
ROLES = ("user", "assistant")
"""The roles whose messages have vectors."""

_SCHEMA = (
    "CREATE TABLE feed (store_id TEXT, model TEXT NOT NULL, width INTEGER NOT NULL,"
    " message_seq INTEGER NOT NULL, change_seq INTEGER NOT NULL, last_id INTEGER, last_time REAL,"
    " changed INTEGER NOT NULL, to_sweep INTEGER NOT NULL,"
    " built BLOB NOT NULL DEFAULT (randomblob(8)))",
    "CREATE TABLE block (number INTEGER PRIMARY KEY, changed INTEGER NOT NULL, offsets BLOB,"
    " owners BLOB, sources BLOB, times BLOB, bits BLOB)",
    "CREATE INDEX block_changed ON block (changed)",
    "CREATE TABLE fine (id INTEGER PRIMARY KEY, vector BLOB NOT NULL)",
    "CREATE TABLE usual (vector BLOB NOT NULL)",
    f"PRAGMA user_version = {FORMAT}",
)


class Entry(NamedTuple):
    """A message that gets a vector."""

    id: int
    owner: str | None
    source: str | None
    time: float
    text: str


def facet_number(kind: str, value: str | None) -> int:
    """A number that stands for an owner or a source; 0 for none."""
    return int(facet(kind, value)[2:10], 16) or 1 if value else 0


def whole_seconds(time: float) -> int:
    """A time as it is compared: in seconds, within what four bytes hold."""
    return int(min(max(time, 0.0), 2.0**32 - 1))


def create(conn: FileConnection, model: str, usual: Array) -> None:
    """Make an empty file for the vectors of a model, dropping whatever was in it.

    `usual` are those of the sentences that are about anything.
    """
    create_tables(conn, _SCHEMA)
    conn.execute(
        "INSERT INTO feed (store_id, model, width, message_seq, change_seq, changed, to_sweep)"
        " VALUES ((SELECT value FROM state.state_meta WHERE key = 'store_id'), ?, ?, 0,"
        " coalesce((SELECT seq FROM state.sqlite_sequence WHERE name = 'search_changes'), 0),"
        " 0, 0)",
        (model, usual.shape[1]),
    )
    conn.executemany("INSERT INTO usual VALUES (?)", [(row.tobytes(),) for row in to_fine(usual)])


class Block:
    """One row of `block`, while it is changed."""

    def __init__(self, conn: FileConnection, number: int, words: int) -> None:
        """`words` is how many 64-bit words the bits of a vector take."""
        self._conn, self._number, self._words = conn, number, words
        self._rows: dict[int, tuple[int, int, int, bytes]] = {}
        size = words * 8
        for raw in tuples(
            conn,
            "SELECT offsets, owners, sources, times, bits FROM block WHERE number = ?",
            (number,),
        ):
            offsets, owners, sources, times, bits = raw
            for place, offset in enumerate(offsets):
                self._rows[offset] = (
                    int.from_bytes(owners[4 * place : 4 * place + 4], "little"),
                    int.from_bytes(sources[4 * place : 4 * place + 4], "little"),
                    int.from_bytes(times[4 * place : 4 * place + 4], "little"),
                    bits[size * place : size * place + size],
                )

    def put(self, entry: Entry, bits: bytes) -> None:
        """Enter a message, or enter it anew."""
        self._rows[entry.id & (1 << BLOCK_BITS) - 1] = (
            facet_number("u", entry.owner),
            facet_number("o", entry.source),
            whole_seconds(entry.time),
            bits,
        )

    def keep(self, ids: Iterable[int]) -> list[int]:
        """Drop all but these messages; returns which were dropped."""
        kept = {number & (1 << BLOCK_BITS) - 1 for number in ids}
        dropped = [offset for offset in self._rows if offset not in kept]
        for offset in dropped:
            del self._rows[offset]
        return [self._number << BLOCK_BITS | offset for offset in dropped]

    def write(self, changed: int) -> None:
        """Write the row back under the number of the change."""
        offsets = sorted(self._rows)
        rows = [self._rows[offset] for offset in offsets]
        self._conn.execute(
            "INSERT OR REPLACE INTO block VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                self._number,
                changed,
                bytes(offsets),
                b"".join(row[0].to_bytes(4, "little") for row in rows),
                b"".join(row[1].to_bytes(4, "little") for row in rows),
                b"".join(row[2].to_bytes(4, "little") for row in rows),
                b"".join(row[3] for row in rows),
            ),
        )


def write_entries(
    conn: FileConnection, entries: Sequence[Entry], vectors: Array, changed: int
) -> None:
    """Enter messages with their vectors, of length 1 or without a direction."""
    if not entries:
        return
    has_meaning = [bool(row.any()) for row in vectors]
    bits, fine = to_bits(vectors), to_fine(vectors)
    block: Block | None = None
    number = -1
    for place, entry in enumerate(entries):
        if not has_meaning[place]:
            continue
        if block is None or entry.id >> BLOCK_BITS != number:
            if block is not None:
                block.write(changed)
            number = entry.id >> BLOCK_BITS
            block = Block(conn, number, bits.shape[1])
        block.put(entry, bits[place].tobytes())
        conn.execute("INSERT OR REPLACE INTO fine VALUES (?, ?)", (entry.id, fine[place].tobytes()))
    if block is not None:
        block.write(changed)


def read_part(conn: FileConnection, part: int, words: int) -> tuple[Any, ...]:
    """Ids, owners, sources, times and bits of all messages of a part, as arrays."""
    import numpy as np

    first = part << PART_BITS - BLOCK_BITS
    rows = tuples(
        conn,
        "SELECT number, offsets, owners, sources, times, bits FROM block"
        " WHERE number BETWEEN ? AND ? ORDER BY number",
        (first, first + (1 << PART_BITS - BLOCK_BITS) - 1),
    )
    columns = [b"".join(row[place] for row in rows) for place in range(1, 6)]
    counts = [len(row[1]) for row in rows]
    numbers = np.repeat(np.array([row[0] for row in rows], dtype=np.int64), counts)
    ids = (numbers << BLOCK_BITS) + np.frombuffer(columns[0], dtype=np.uint8)
    return (
        ids,
        np.frombuffer(columns[1], dtype="<u4"),
        np.frombuffer(columns[2], dtype="<u4"),
        np.frombuffer(columns[3], dtype="<u4"),
        np.ascontiguousarray(np.frombuffer(columns[4], dtype="<u8").reshape(-1, words).T),
    )
