"""Whether the search index knows every message it should."""

from __future__ import annotations

from collections.abc import Iterator

from ..dialect import tuples
from .batch import pieces
from .engine import SearchIndex
from .folding import words
from .index import IndexConnection, parts
from .source import SOURCE_ROWS, SourceMessage, texts_of


def missing_from_index(index: SearchIndex) -> list[int]:
    """The messages that the index does not know although it has caught up with the store.

    Messages without a word in them cannot be searched for, and repetitions are found by their
    first telling; neither counts.
    """
    index.catch_up()
    lost = index.mirror.missing() if index.mirror is not None else []
    return sorted({*lost, *index._file.run(lambda conn: list(_missing(conn)))})


def count_unread(index: SearchIndex) -> int:
    """How many messages the index has not read yet; the next search reads them first."""

    def count(conn: IndexConnection) -> int:
        seen = tuples(conn, "SELECT message_seq FROM feed")
        last = seen[0][0] if seen else 0
        return int(tuples(conn, "SELECT COUNT(*) FROM state.messages WHERE id > ?", (last,))[0][0])

    return index._file.run(count)


def _missing(conn: IndexConnection) -> Iterator[int]:
    known = {
        rowid for part in parts(conn) for (rowid,) in conn.execute(f"SELECT rowid FROM doc_{part}")
    }
    seen = tuples(conn, "SELECT message_seq FROM feed")
    for (message_id,) in tuples(
        conn,
        "SELECT id FROM state.messages WHERE origin_id IS NULL AND id <= ? ORDER BY id",
        seen[0] if seen else (0,),
    ):
        if message_id not in known and _has_words(conn, message_id):
            yield message_id


def _has_words(conn: IndexConnection, message_id: int) -> bool:
    rows = tuples(conn, f"{SOURCE_ROWS} WHERE m.id = ?", (message_id,))
    return any(
        words(piece)
        for row in rows
        for text in texts_of(conn, SourceMessage._make(row))
        for piece in pieces(text)
    )
