"""Which message of a chat shows an answer that is still being made.

It is kept from the moment it is shown until the answer has taken its place, so that a process that
takes a turn over continues the message that its chat sees already.
"""

from __future__ import annotations

from .dialect import Connection, tuples
from .sessions import get_meta, set_meta

KEPT_SECONDS = 86_400.0
"""How long a preview is remembered whose answer never came."""
_PREFIX = "preview:"


def note_preview(conn: Connection, turn: str, message_id: str) -> None:
    """Store the id of the message in which the chat shows a turn's unfinished answer."""
    now = conn.now()
    for key, kept in tuples(
        conn,
        "SELECT key, value FROM state_meta WHERE key >= ? AND key < ?",
        (_PREFIX, f"{_PREFIX}\U0010ffff"),
    ):
        # A value is a time, a space, and the message's id.
        if float(kept.partition(" ")[0]) < now - KEPT_SECONDS:
            conn.execute("DELETE FROM state_meta WHERE key = ? AND value = ?", (key, kept))
    set_meta(conn, f"{_PREFIX}{turn}", f"{now} {message_id}")


def get_preview(conn: Connection, turn: str) -> str | None:
    """The platform's id of the message that shows a turn's answer, if one does."""
    kept = get_meta(conn, f"{_PREFIX}{turn}")
    return None if kept is None else kept.partition(" ")[2]


def forget_preview(conn: Connection, turn: str) -> bool:
    """The answer has taken its place, or there will be none; False if none was noted."""
    conn.execute("DELETE FROM state_meta WHERE key = ?", (f"{_PREFIX}{turn}",))
    return conn.changes() > 0
