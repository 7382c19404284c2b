"""Changing what a session shows: taking back, restoring, replacing, clearing.

Taking back only flips `active`; the rows stay. Replacing and clearing are the two operations that
remove rows, for callers that ask for exactly that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .changes import note_session_changed
from .dialect import Connection, row, value
from .messages import append_messages, decode_row, recount
from .repeats import release_repeats, settle_repeats
from .sessions import require_session


def rewind_to_message(conn: Connection, session_id: str, target_message_id: int) -> dict[str, Any]:
    """Take back a user message and everything after it.

    Returns `rewound_count`, `target_message` (to offer it for editing) and `new_head_id`, the
    newest message still there. ValueError if the message is not a user message of this session, or
    was compacted.
    """
    target = row(
        conn,
        "SELECT * FROM messages WHERE id = ? AND session_id = ?",
        (target_message_id, session_id),
    )
    if target is None:
        raise ValueError(f"Session {session_id} has no message {target_message_id}.")
    if target["role"] != "user":
        raise ValueError(
            f"Message {target_message_id} is from the {target['role']}; "
            "only a user message can be gone back to."
        )
    if target["compacted"]:
        raise ValueError(
            f"Message {target_message_id} was compacted, and with it what came before. "
            "Only a message that is still in the live view can be gone back to."
        )
    conn.execute(
        "UPDATE messages SET active = 0 WHERE session_id = ? AND id >= ? AND active = 1",
        (session_id, target_message_id),
    )
    rewound = conn.changes()
    settle_repeats(conn, session_id, target_message_id)
    conn.execute("UPDATE sessions SET rewind_count = rewind_count + 1 WHERE id = ?", (session_id,))
    recount(conn, session_id)
    return {
        "rewound_count": rewound,
        "target_message": decode_row(target),
        "new_head_id": value(
            conn, "SELECT MAX(id) FROM messages WHERE session_id = ? AND active = 1", (session_id,)
        ),
    }


def restore_rewound(conn: Connection, session_id: str, since_message_id: int) -> int:
    """Bring back what was taken back from this message on; returns how many messages.

    Rows that a compaction archived are not touched: they are part of the record, not taken back.
    """
    conn.execute(
        "UPDATE messages SET active = 1"
        " WHERE session_id = ? AND id >= ? AND active = 0 AND compacted = 0",
        (session_id, since_message_id),
    )
    restored = conn.changes()
    if restored:
        settle_repeats(conn, session_id, since_message_id)
        recount(conn, session_id)
    return restored


def replace_messages(
    conn: Connection,
    session_id: str,
    messages: Iterable[Mapping[str, Any]],
    active_only: bool = False,
) -> None:
    """Replace a session's messages in one transaction; what was there is gone.

    With `active_only`, rows outside the live view (compacted, taken back) stay. For compression
    use `archive_and_compact` or `rotate_session`, which keep everything.
    """
    require_session(conn, session_id)
    remove_messages(conn, session_id, active_only=active_only)
    append_messages(conn, session_id, messages)
    recount(conn, session_id)


def clear_messages(conn: Connection, session_id: str) -> None:
    """Delete every message of a session and set its counters to zero."""
    if value(conn, "SELECT 1 FROM sessions WHERE id = ?", (session_id,)):
        remove_messages(conn, session_id)
        recount(conn, session_id)


def remove_messages(conn: Connection, session_id: str, *, active_only: bool = False) -> None:
    """Delete a session's rows (the active ones); copies of them elsewhere stay findable."""
    release_repeats(conn, session_id, active_only=active_only)
    conn.execute(
        "DELETE FROM messages WHERE session_id = ?" + (" AND active = 1" if active_only else ""),
        (session_id,),
    )
    note_session_changed(conn, session_id)
