"""Messages that are stored more than once: what rotations, compactions and branches carry over.

All rows that tell the same message form a group: the first telling has no `origin_id`, the others
point at it. Search looks at first tellings only. Invariant: the first telling is the earliest row
of its group that can be seen (active or compacted), if any can. So whenever rows are hidden, shown
or deleted, another row may have to become the first.
"""

from __future__ import annotations

from .changes import note_session_changed
from .dialect import Connection, tuples, value

_VISIBLE = "(active = 1 OR compacted = 1)"


def settle_repeats(conn: Connection, session_id: str, since_message_id: int) -> None:
    """Restore the invariant after rows of a session, from an id on, were hidden or shown."""
    groups = tuples(
        conn,
        "SELECT DISTINCT COALESCE(origin_id, id) FROM messages m WHERE session_id = ? AND id >= ?"
        " AND (origin_id IS NOT NULL OR EXISTS (SELECT 1 FROM messages WHERE origin_id = m.id))",
        (session_id, since_message_id),
    )
    for (first,) in groups:
        shown = value(
            conn,
            f"SELECT MIN(id) FROM messages WHERE (id = ?1 OR origin_id = ?1) AND {_VISIBLE}",
            (first,),
        )
        if shown is not None and shown != first:
            _make_first(conn, shown, first)
            conn.execute("UPDATE messages SET origin_id = ? WHERE id = ?", (shown, first))
            _note_session_of(conn, first)


def release_repeats(conn: Connection, session_id: str, *, active_only: bool) -> None:
    """Let others become the first telling before rows of a session (the active ones) go."""
    doomed = "session_id = ?" + (" AND active = 1" if active_only else "")
    groups = tuples(
        conn,
        f"SELECT id FROM messages m WHERE {doomed} AND origin_id IS NULL"
        " AND EXISTS (SELECT 1 FROM messages WHERE origin_id = m.id)",
        (session_id,),
    )
    for (first,) in groups:
        heir = value(
            conn,
            f"SELECT id FROM messages WHERE origin_id = ? AND NOT ({doomed})"
            f" ORDER BY {_VISIBLE} DESC, id LIMIT 1",
            (first, session_id),
        )
        if heir is not None:
            _make_first(conn, heir, first)


def _make_first(conn: Connection, message_id: int, before: int) -> None:
    conn.execute(
        "UPDATE messages SET origin_id = NULLIF(?1, id) WHERE origin_id = ?2", (message_id, before)
    )
    _note_session_of(conn, message_id)


def _note_session_of(conn: Connection, message_id: int) -> None:
    note_session_changed(
        conn, str(value(conn, "SELECT session_id FROM messages WHERE id = ?", (message_id,)))
    )
