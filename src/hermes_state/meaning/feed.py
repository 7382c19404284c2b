"""Feeding `vectors.db`: the messages that were stored since the last time, a few hundred at a time.

The model is asked outside of any transaction; what it said is written only if nobody else went on
meanwhile. Appending a message never waits for it. A file that belongs to another store, another
past of it or another model is started over.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..connection import translated
from ..dialect import tuples
from ..search.document import as_text, content_text, cut_content_text
from ..search.feed import LATE_MESSAGE
from ..search.index import IndexConnection, IndexFile
from .embedder import Embedder, EmbedderError
from .usual import SENTENCES
from .vector_file import (
    BLOCK_BITS,
    FORMAT,
    LONGEST,
    ROLES,
    Block,
    Entry,
    create,
    write_entries,
)
from .vectors import Array, normalized

log = logging.getLogger(__name__)

BATCH = 512
"""Messages of one round."""
CHANGES = 256
_READ = 6 * LONGEST
"""Bytes of a message that are read."""
_SWEPT = 64
"""Blocks of which one round looks whether their messages are still there."""


class Place(NamedTuple):
    """How far the vectors are, and how far the store."""

    store_id: str | None
    model: str
    width: int
    message_seq: int
    change_seq: int
    last_id: int | None
    last_time: float | None
    changed: int
    to_sweep: int
    """The first block that has yet to be looked through for deleted messages, and 1; 0 for none."""
    now_store_id: str | None
    now_message_seq: int
    now_change_seq: int
    now_last_time: float | None

    def invalid(self, model: str) -> str | None:
        """Why the vectors cannot be carried on, if so."""
        if self.store_id != self.now_store_id:
            return "they belong to another store"
        if self.model != model:
            return f"they were made by {self.model}"
        if self.message_seq > self.now_message_seq or self.change_seq > self.now_change_seq:
            return "they are ahead of the store"
        if self.now_last_time is not None and self.last_time != self.now_last_time:
            return "the store has another past"
        return None

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to do."""
        return (
            self.message_seq >= self.now_message_seq
            and self.change_seq >= self.now_change_seq
            and not self.to_sweep
        )


def place_of(conn: IndexConnection) -> Place | None:
    """Where the vectors stand; None if the file holds none that we can read."""
    if conn.pragma("user_version", schema="main") != FORMAT:
        return None
    rows = tuples(
        conn,
        "SELECT feed.store_id, feed.model, feed.width, feed.message_seq, feed.change_seq,"
        " feed.last_id, feed.last_time, feed.changed, feed.to_sweep,"
        " (SELECT value FROM state.state_meta WHERE key = 'store_id'),"
        " coalesce((SELECT seq FROM state.sqlite_sequence WHERE name = 'messages'), 0),"
        " coalesce((SELECT seq FROM state.sqlite_sequence WHERE name = 'search_changes'), 0),"
        " (SELECT CAST(timestamp AS REAL) FROM state.messages WHERE id = feed.last_id) FROM feed",
    )
    return Place(*rows[0]) if rows else None


_ENTRIES = (
    "SELECT m.id, s.user_id, s.source, octet_length(m.content),"
    f" substr(CAST(m.content AS BLOB), 1, {_READ}), CAST(m.timestamp AS REAL)"
    " FROM state.messages AS m LEFT JOIN state.sessions AS s ON s.id = m.session_id"
    f" WHERE m.origin_id IS NULL AND m.role IN ({', '.join(map(repr, ROLES))})"
    " AND octet_length(m.content) > 0 AND "
)


class Round(NamedTuple):
    """What was read for one round, to be written if the vectors are still at that place."""

    place: Place
    entries: list[Entry]
    message_seq: int
    change_seq: int
    last: tuple[int, float] | None
    """The newest message that was read, and its time."""
    to_sweep: bool


def read_round(file: IndexFile, conn: IndexConnection, place: Place) -> Round:
    """What comes next: first what changed, then what is new."""
    try:
        with _transaction(conn, "BEGIN"):
            if place.change_seq < place.now_change_seq:
                return _changes(conn, place)
            return _new(conn, place)
    except Exception as error:
        import apsw

        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            raise translated(error, file.state_path) from error
        raise


def _new(conn: IndexConnection, place: Place) -> Round:
    rows = tuples(conn, f"{_ENTRIES} m.id > ? ORDER BY m.id LIMIT ?", (place.message_seq, BATCH))
    is_full = len(rows) == BATCH
    return Round(
        place,
        [_entry(row) for row in rows],
        rows[-1][0] if is_full else place.now_message_seq,
        place.change_seq,
        (rows[-1][0], rows[-1][5]) if rows else None,
        False,
    )


def _changes(conn: IndexConnection, place: Place) -> Round:
    changes = tuples(
        conn,
        "SELECT seq, session_id, kind FROM state.search_changes WHERE seq > ? AND seq <= ?"
        " ORDER BY seq LIMIT ?",
        (place.change_seq, place.now_change_seq, CHANGES),
    )
    late = [int(row[1]) for row in changes if row[2] == LATE_MESSAGE]
    sessions = list(dict.fromkeys(row[1] for row in changes if row[2] == "session"))
    rows = []
    for column, some in (("m.id", late), ("m.session_id", sessions)):
        rows += tuples(
            conn,
            f"{_ENTRIES} {column} IN (SELECT value FROM json_each(?)) AND m.id <= ? ORDER BY m.id",
            (json.dumps(some), place.message_seq),
        )
    reached = changes[-1][0] if len(changes) == CHANGES else place.now_change_seq
    entries = [_entry(row) for row in rows]
    return Round(place, entries, place.message_seq, reached, None, bool(sessions))


def _entry(row: tuple[object, ...]) -> Entry:
    number, owner, source, size, content, time = row
    raw = as_text(content) or ""  # type: ignore[arg-type]
    text = content_text(raw) if int(size) <= _READ else cut_content_text(raw)  # type: ignore[call-overload]
    return Entry(number, owner, source, time, text[:LONGEST])  # type: ignore[arg-type]


def write_round(conn: IndexConnection, read: Round, vectors: Array) -> bool:
    """Write a round; False if another process went on meanwhile."""
    with _transaction(conn, "BEGIN IMMEDIATE"):
        here = place_of(conn)
        if here is None or here[:9] != read.place[:9]:
            return False
        changed = here.changed + 1
        write_entries(conn, read.entries, vectors, changed)
        conn.execute(
            "UPDATE feed SET message_seq = ?, change_seq = ?, changed = ?",
            (read.message_seq, read.change_seq, changed),
        )
        if read.last is not None:
            conn.execute("UPDATE feed SET last_id = ?, last_time = ?", read.last)
        if read.to_sweep:
            conn.execute("UPDATE feed SET to_sweep = 1")
    return True


def sweep(conn: IndexConnection) -> bool:
    """Drop vectors of messages that are gone, in a few blocks; True when all were looked at."""
    with _transaction(conn, "BEGIN IMMEDIATE"):
        here = place_of(conn)
        if here is None or not here.to_sweep:
            return True
        numbers = [
            number
            for (number,) in tuples(
                conn,
                "SELECT number FROM block WHERE number >= ? ORDER BY number LIMIT ?",
                (here.to_sweep - 1, _SWEPT),
            )
        ]
        changed = here.changed + 1
        for number in numbers:
            first = number << BLOCK_BITS
            kept = tuples(
                conn,
                "SELECT id FROM state.messages WHERE id BETWEEN ? AND ?"
                " AND (active = 1 OR compacted = 1)",
                (first, first + (1 << BLOCK_BITS) - 1),
            )
            block = Block(conn, number, -(-here.width // 64))
            dropped = block.keep(row[0] for row in kept)
            if dropped:
                block.write(changed)
                conn.executemany("DELETE FROM fine WHERE id = ?", [(one,) for one in dropped])
        following = numbers[-1] + 2 if len(numbers) == _SWEPT else 0
        conn.execute("UPDATE feed SET to_sweep = ?, changed = ?", (following, changed))
    return not following


def ask(embedder: Embedder, texts: Sequence[str], width: int | None = None) -> Array:
    """Vectors of texts, of length 1; EmbedderError if the model gives none that can be used."""
    import numpy as np

    if not texts:
        return np.zeros((0, width or 0), dtype=np.float32)
    try:
        vectors = normalized(embedder.embed(texts))
    except ValueError as error:
        raise EmbedderError(f"{embedder.name} gave no usable vectors: {error}") from error
    if len(vectors) != len(texts) or (width is not None and vectors.shape[1] != width):
        raise EmbedderError(
            f"{embedder.name} gave {vectors.shape} numbers for {len(texts)} texts, where vectors of"
            f" {width or 'one'} length were expected"
        )
    return vectors


def start_over(conn: IndexConnection, embedder: Embedder, reason: str) -> None:
    """Make the file empty, for this model."""
    usual = ask(embedder, SENTENCES)
    with _transaction(conn, "BEGIN IMMEDIATE"):
        here = place_of(conn)
        if here is not None and not here.invalid(embedder.name) and reason != ANEW:
            return  # another process did
        log.info("Making the vectors for search by meaning from nothing: %s", reason)
        create(conn, embedder.name, usual)


ANEW = "that was asked for"


@contextlib.contextmanager
def _transaction(conn: IndexConnection, begin: str) -> Iterator[None]:
    conn.execute(begin)
    try:
        yield
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise
