"""Marks that others follow: a session's version, and what the search index must look at again."""

from __future__ import annotations

from .dialect import Connection


def touch(conn: Connection, session_id: str) -> None:
    """Raise the session's version, so that every cached view of it is known to be old."""
    conn.execute("UPDATE sessions SET version = version + 1 WHERE id = ?", (session_id,))


def note_title_changed(conn: Connection, session_id: str) -> None:
    """Have the search index read the session's title again."""
    conn.execute("INSERT INTO search_changes (session_id, kind) VALUES (?, 'title')", (session_id,))


def note_session_changed(conn: Connection, session_id: str) -> None:
    """Have the search index read the whole session again: owner, deletions, rewritten messages."""
    conn.execute(
        "INSERT INTO search_changes (session_id, kind) VALUES (?, 'session')", (session_id,)
    )
