"""A conversation by pages, forwards and backwards, as it was said or as a model was sent it.

As said: everything, over all compressions, each message once (as `views.display_history`). As sent:
what the live view of the session was when a message was its newest. Compressing in place archives
the live rows and inserts the shorter ones behind them, so a *generation* of rows begins with those
that the compression inserted: repetitions, which name their origin, and its own messages.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from .dialect import Connection, at_most, column, row, rows, value
from .lineage import get_compression_lineage
from .messages import decode_row

View = Literal["said", "sent"]
MADE = ("compression_record", "compression_bridge")
"""`finish_reason` of messages that a compression made."""

_SHOWN = (
    "(m.active = 1 OR m.compacted = 1 OR ? = 1) AND (m.origin_id IS NULL OR NOT EXISTS ("
    " SELECT 1 FROM messages o JOIN sessions s ON s.id = o.session_id"
    " WHERE (o.id = m.origin_id OR (o.origin_id = m.origin_id AND o.id < m.id))"
    " AND (o.active = 1 OR o.compacted = 1) AND s.conversation_id = ?))"
)


class MessagePage(TypedDict):
    """Some messages of a conversation, in order."""

    messages: list[dict[str, Any]]
    """Rows, as `get_messages` gives them."""
    older: bool
    """Whether there are more before."""
    newer: bool
    """Whether there are more behind."""


def get_message_page(
    conn: Connection,
    session_id: str,
    *,
    before: int | None = None,
    after: int | None = None,
    around: int | None = None,
    limit: int = 60,
    view: View = "said",
    undone: bool = False,
) -> MessagePage:
    """The last `limit` messages; or those before, after or around one, by its id.

    With `undone`, messages that were taken back are among them. A view "sent" is of the moment of
    the message `around`, or of now.
    """
    limit = at_most(max(1, limit))
    if view == "sent":
        return _sent_page(conn, session_id, before, after, around, limit)
    segments = get_compression_lineage(conn, session_id) or [session_id]
    own = value(conn, "SELECT conversation_id FROM sessions WHERE id = ?", (session_id,))

    def read(newest: int | None, oldest: int | None, most: int) -> list[dict[str, Any]]:
        """Up to `most` rows before `newest`, from the end; or, with `oldest`, after it."""
        forwards = oldest is not None
        bound, order = ("m.id > ?", "m.id") if forwards else ("m.id < ?", "m.id DESC")
        given = oldest if oldest is not None else newest if newest is not None else 2**62
        found: list[dict[str, Any]] = []
        for segment in segments if forwards else reversed(segments):
            found += rows(
                conn,
                f"SELECT m.* FROM messages m WHERE m.session_id = ? AND {bound} AND {_SHOWN}"
                f" ORDER BY {order} LIMIT ?",
                (segment, given, int(undone), own, most - len(found)),
            )
            if len(found) >= most:
                break
        return found if forwards else found[::-1]

    if around is not None:
        half = limit // 2 + 1
        earlier = read(around, None, half + 1)
        later = read(None, around - 1, half + 1)
        page = [*earlier[-half:], *later[:half]]
        return _page(page, older=len(earlier) > half, newer=len(later) > half)
    if after is not None:
        later = read(None, after, limit + 1)
        return _page(later[:limit], older=True, newer=len(later) > limit)
    earlier = read(before, None, limit + 1)
    return _page(earlier[-limit:], older=len(earlier) > limit, newer=before is not None)


def live_at(conn: Connection, session_id: str, message_id: int) -> list[int]:
    """The ids of the rows that were live in a session when this message was its newest."""
    inserted = f"(origin_id IS NOT NULL OR finish_reason IN {MADE!r})"
    made = value(
        conn,
        "SELECT MAX(id) FROM messages WHERE session_id = ? AND id <= ? AND finish_reason = ?",
        (session_id, message_id, MADE[0]),
    )
    start = 0
    if made is not None:
        start = value(
            conn,
            f"SELECT COALESCE(MAX(id), 0) FROM messages WHERE session_id = ? AND id < ?"
            f" AND NOT {inserted}",
            (session_id, made),
        )
    return column(
        conn,
        "SELECT id FROM messages WHERE session_id = ? AND id > ? AND id <= ?"
        " AND (active = 1 OR compacted = 1) ORDER BY id",
        (session_id, start, message_id),
    )


def _sent_page(
    conn: Connection,
    session_id: str,
    before: int | None,
    after: int | None,
    around: int | None,
    limit: int,
) -> MessagePage:
    place, until = session_id, 2**62
    if around is not None:
        found = row(conn, "SELECT session_id FROM messages WHERE id = ?", (around,))
        lineage = get_compression_lineage(conn, session_id) or [session_id]
        if found is not None and found["session_id"] in lineage:
            place, until = found["session_id"], around
    ids = live_at(conn, place, until)
    if before is not None:
        ids = [one for one in ids if one < before]
    if after is not None:
        ids = [one for one in ids if one > after]
    chosen = ids[:limit] if after is not None else ids[-limit:]
    messages = [
        message
        for one in chosen
        if (message := row(conn, "SELECT * FROM messages WHERE id = ?", (one,))) is not None
    ]
    more = len(ids) > limit
    return _page(messages, older=more and after is None, newer=more and after is not None)


def _page(stored: list[dict[str, Any]], *, older: bool, newer: bool) -> MessagePage:
    return {"messages": [decode_row(message) for message in stored], "older": older, "newer": newer}
