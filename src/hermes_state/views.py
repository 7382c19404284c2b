"""What people and models read: conversations, the surroundings of a message, previews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .codec import decode_content, plain_text
from .dialect import Connection, at_most, row, rows, value
from .history import repair_message_sequence
from .lineage import get_compression_lineage
from .messages import CONVERSATION_SQL, decode_row, load_conversation, read_conversation


def get_messages_as_conversation(
    conn: Connection,
    session_id: str,
    include_ancestors: bool = False,
    include_inactive: bool = False,
    repair_alternation: bool = False,
) -> list[dict[str, Any]]:
    """The session as chat messages: role, content, timestamp, and what else is set.

    With `include_ancestors`, everything said before the compressions comes first and what they
    carried over is not repeated. With `repair_alternation`, the list is made valid for a model
    (see `repair_message_sequence`); what is stored stays as it is.
    """
    if include_ancestors:
        conversation = display_history(conn, session_id, include_inactive)
    else:
        conversation = load_conversation(conn, session_id, include_inactive)
    return repair_message_sequence(conversation) if repair_alternation else conversation


# Hidden is what the conversation has told already: the first telling, or an earlier repetition of
# one that belongs to another conversation.
_DISPLAY = CONVERSATION_SQL.replace(
    "active >= ?",
    "(active = 1 OR compacted = 1 OR ? = 1) AND (origin_id IS NULL OR NOT EXISTS ("
    " SELECT 1 FROM messages o JOIN sessions s ON s.id = o.session_id"
    " WHERE (o.id = messages.origin_id"
    "  OR (o.origin_id = messages.origin_id AND o.id < messages.id))"
    " AND (o.active = 1 OR o.compacted = 1) AND s.conversation_id = ?))",
)


def display_history(
    conn: Connection, session_id: str, include_inactive: bool = False
) -> list[dict[str, Any]]:
    """The whole conversation up to this session, as it was said, each message once."""
    conversation: list[dict[str, Any]] = []
    own = value(conn, "SELECT conversation_id FROM sessions WHERE id = ?", (session_id,))
    for segment in _segments_up_to(conn, session_id):
        conversation += read_conversation(conn, _DISPLAY, (segment, int(include_inactive), own))
    return conversation


def get_ancestor_display_prefix(conn: Connection, session_id: str) -> list[dict[str, Any]]:
    """What was said in the conversation's earlier sessions, before this one."""
    segments = _segments_up_to(conn, session_id)
    return display_history(conn, segments[-2]) if len(segments) > 1 else []


def get_resume_conversations(
    conn: Connection, session_id: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two views for resuming: what the model gets (valid), and what a person reads (everything)."""
    model_view = repair_message_sequence(load_conversation(conn, session_id))
    return model_view, display_history(conn, session_id)


def _segments_up_to(conn: Connection, session_id: str) -> list[str]:
    lineage = get_compression_lineage(conn, session_id)
    return lineage[: lineage.index(session_id) + 1] if session_id in lineage else [session_id]


def list_recent_user_messages(
    conn: Connection, session_id: str, limit: int = 20, include_inactive: bool = False
) -> list[dict[str, Any]]:
    """The newest user messages, newest first: id, timestamp and a one-line preview."""
    return [
        {"id": message_id, "timestamp": at, "preview": preview(content, 80)}
        for message_id, at, content in conn.execute(
            "SELECT id, timestamp, content FROM messages WHERE session_id = ? AND role = 'user'"
            " AND active >= ? ORDER BY id DESC LIMIT ?",
            (session_id, 0 if include_inactive else 1, at_most(limit)),
        )
    ]


def preview(raw_content: str | None, length: int) -> str:
    """One line of a stored message, at most `length` characters."""
    text = plain_text(decode_content(raw_content))[: length * 4]
    return " ".join(text.split())[:length]


def get_last_question(conn: Connection, session_id: str) -> tuple[str, str | None]:
    """What a session was asked last, and its platform's name for that; ("", None) if nothing."""
    question = row(
        conn,
        "SELECT content, platform_message_id FROM messages WHERE session_id = ? AND active = 1"
        " AND role = 'user' ORDER BY id DESC LIMIT 1",
        (session_id,),
    )
    if question is None:
        return "", None
    text = plain_text(decode_content(question["content"]) or "")
    return text, question["platform_message_id"]


def get_last_user_message(conn: Connection, session_id: str) -> dict[str, Any] | None:
    """The last question of a session: its content and the time it was stored with."""
    message = row(
        conn,
        "SELECT content, timestamp FROM messages WHERE session_id = ? AND active = 1"
        " AND role = 'user' ORDER BY id DESC LIMIT 1",
        (session_id,),
    )
    if message is None:
        return None
    return {"content": decode_content(message["content"]), "timestamp": message["timestamp"]}


def get_session_of_message(conn: Connection, message_id: int) -> str | None:
    """The session a message stands in, or None for an unknown id."""
    return value(conn, "SELECT session_id FROM messages WHERE id = ?", (message_id,))


def get_messages_around(
    conn: Connection, session_id: str, around_message_id: int, window: int = 5
) -> dict[str, Any]:
    """A message with up to `window` messages on either side, and how many those are."""
    visible = "session_id = ? AND (active = 1 OR compacted = 1)"
    anchor = rows(
        conn, f"SELECT * FROM messages WHERE {visible} AND id = ?", (session_id, around_message_id)
    )
    if not anchor:
        return {"window": [], "messages_before": 0, "messages_after": 0}
    before = rows(
        conn,
        f"SELECT * FROM messages WHERE {visible} AND id < ? ORDER BY id DESC LIMIT ?",
        (session_id, around_message_id, window),
    )[::-1]
    after = rows(
        conn,
        f"SELECT * FROM messages WHERE {visible} AND id > ? ORDER BY id LIMIT ?",
        (session_id, around_message_id, window),
    )
    return {
        "window": [decode_row(row) for row in (*before, *anchor, *after)],
        "messages_before": len(before),
        "messages_after": len(after),
    }


def get_anchored_view(
    conn: Connection,
    session_id: str,
    around_message_id: int,
    window: int = 5,
    bookend: int = 3,
    keep_roles: Sequence[str] | None = ("user", "assistant"),
) -> dict[str, Any]:
    """The surroundings of a message plus how its session begins and ends.

    Only `keep_roles` are shown (None: all), but the message itself always is. The first and last
    `bookend` messages with text are added where the window does not reach them.
    """
    view = get_messages_around(conn, session_id, around_message_id, window)
    if not view["window"]:
        return {**view, "bookend_start": [], "bookend_end": []}
    first, last = view["window"][0]["id"], view["window"][-1]["id"]
    view["window"] = [
        message
        for message in view["window"]
        if keep_roles is None or message["role"] in keep_roles or message["id"] == around_message_id
    ]
    roles = "" if keep_roles is None else f" AND role IN ({', '.join('?' * len(keep_roles))})"
    text = " AND (active = 1 OR compacted = 1)" + (
        " AND content IS NOT NULL AND content <> ''" if keep_roles is not None else ""
    )
    select = f"SELECT * FROM messages WHERE session_id = ?{text}{roles} AND id "
    wanted = tuple(keep_roles or ())
    start = rows(conn, select + "< ? ORDER BY id LIMIT ?", (session_id, *wanted, first, bookend))
    end = rows(conn, select + "> ? ORDER BY id DESC LIMIT ?", (session_id, *wanted, last, bookend))[
        ::-1
    ]
    view["bookend_start"] = [decode_row(row) for row in start]
    view["bookend_end"] = [decode_row(row) for row in end]
    return view
