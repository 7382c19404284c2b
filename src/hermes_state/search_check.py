"""Whether the search index knows every message it should."""

from __future__ import annotations

from collections.abc import Iterator

from .connection import tuples
from .search import SearchIndex
from .search_document import as_text, calls_text, content_text
from .search_index import IndexConnection, parts
from .search_text import words


def missing_from_index(index: SearchIndex) -> list[int]:
    """The messages that the index does not know although it has caught up with the store.

    Messages without a word in them cannot be searched for, and repetitions are found by their
    first telling; neither counts.
    """
    index.catch_up()
    return index._file.run(lambda conn: list(_missing(conn)))


def _missing(conn: IndexConnection) -> Iterator[int]:
    known = {
        one for part in parts(conn) for (one,) in conn.execute(f"SELECT rowid FROM doc_{part}")
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
    found = tuples(
        conn,
        "SELECT CAST(content AS BLOB), CAST(tool_name AS BLOB), CAST(tool_calls AS BLOB)"
        " FROM state.messages WHERE id = ?",
        (message_id,),
    )
    return any(
        words(content_text(as_text(content))) or words(calls_text(as_text(name), as_text(calls)))
        for content, name, calls in found
    )
