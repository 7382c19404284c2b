"""Reading what a search found: the message with its snippet and its neighbours.

Messages may be very long. Of a long one only pieces are read from the file, not the whole value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .connection import tuples
from .search_collect import Candidate
from .search_document import as_text, calls_text, content_text, cut_content_text
from .search_index import IndexConnection
from .search_snippet import Matcher, shortened, snippet

CONTEXT_WIDTH = 200
_WHOLE = 1 << 15  # bytes up to which a value is read as a whole
_BEGINNING = 1 << 12

_MESSAGE = (
    "SELECT m.id, m.role, CAST(m.tool_name AS BLOB), octet_length(m.content),"
    " CASE WHEN octet_length(m.content) <= :whole THEN CAST(m.content AS BLOB) END,"
    " octet_length(m.tool_calls),"
    " CASE WHEN octet_length(m.tool_calls) <= :whole THEN CAST(m.tool_calls AS BLOB) END"
    " FROM state.messages AS m WHERE "
)
_SESSION = "SELECT source, model, CAST(title AS BLOB), started_at FROM state.sessions WHERE id = ?"


class _Message(NamedTuple):
    id: int
    role: str
    tool_name: bytes | None
    content_size: int | None
    content: bytes | None
    calls_size: int | None
    calls: bytes | None


def read_hit(
    conn: IndexConnection,
    candidate: Candidate,
    match: str,
    matcher: Matcher,
    include_inactive: bool,
) -> dict[str, Any] | None:
    """The hit as it is returned; None if the session has gone."""
    sessions = tuples(conn, _SESSION, (candidate.session_id,))
    if not sessions:
        return None
    source, model, raw_title, started = sessions[0]
    title = as_text(raw_title)
    found = _messages(conn, "m.id = :id", id=candidate.message_id)
    message = found[0] if found else None
    if match == "title" or message is None:
        shown = snippet(title or "", matcher)
    else:
        shown = _snippet(conn, message, matcher)
    return {
        "id": candidate.message_id,
        "session_id": candidate.session_id,
        "conversation_id": candidate.conversation_id,
        "role": message.role if message else None,
        "snippet": shown,
        "timestamp": candidate.timestamp,
        "tool_name": as_text(message.tool_name) if message else None,
        "source": source,
        "model": model,
        "title": title,
        "session_started": started,
        "match": match,
        "context": _context(conn, candidate, message, include_inactive) if message else [],
    }


def _messages(conn: IndexConnection, condition: str, **values: Any) -> list[_Message]:
    values.setdefault("whole", _WHOLE)
    return [_Message(*row) for row in tuples(conn, _MESSAGE + condition, values)]


def _piece(conn: IndexConnection, message_id: int, column: str, start: int, length: int) -> str:
    """Part of a long text value, by bytes."""
    with conn.blob_open("state", "messages", column, message_id, False) as blob:
        blob.seek(min(start, blob.length()))
        found = blob.read(length)
    return found.decode(errors="ignore")


def _snippet(conn: IndexConnection, message: _Message, matcher: Matcher) -> str:
    """Around the first match in its text or, failing that, in its tool calls."""
    size = message.content_size or 0
    if size > _WHOLE:
        text = cut_content_text(_piece(conn, message.id, "content", 0, _WHOLE))
        place = conn.scorer.places.get(message.id, 0.0)
        if place and not matcher.occurs_in(text):
            start = max(0, int(size * place) - _WHOLE // 2)
            there = _piece(conn, message.id, "content", start, _WHOLE)
            text = there if matcher.occurs_in(there) else text
    else:
        text = content_text(as_text(message.content))
    if not matcher.occurs_in(text):
        calls = _calls_text(conn, message)
        if not text.strip() or matcher.occurs_in(calls):
            text = calls
    return snippet(text, matcher)


def _calls_text(conn: IndexConnection, message: _Message) -> str:
    name = as_text(message.tool_name)
    if (message.calls_size or 0) > _WHOLE:
        return f"{name or ''}\n{_piece(conn, message.id, 'tool_calls', 0, _WHOLE)}"
    return calls_text(name, as_text(message.calls))


def _context(
    conn: IndexConnection, candidate: Candidate, message: _Message, include_inactive: bool
) -> list[dict[str, Any]]:
    """The message before, the message, the message after."""
    visible = "" if include_inactive else " AND (m.active = 1 OR m.compacted = 1)"
    same = f"m.session_id = :session{visible} AND m.id"
    around = {"session": candidate.session_id, "id": message.id, "whole": _BEGINNING}
    before = _messages(conn, f"{same} < :id ORDER BY m.id DESC LIMIT 1", **around)
    after = _messages(conn, f"{same} > :id ORDER BY m.id LIMIT 1", **around)
    return [
        {"role": one.role, "content": _beginning(conn, one)} for one in (*before, message, *after)
    ]


def _beginning(conn: IndexConnection, message: _Message) -> str:
    if message.content_size and message.content is None:
        text = cut_content_text(_piece(conn, message.id, "content", 0, _BEGINNING))
    else:
        text = content_text(as_text(message.content))
    return shortened(text if text.strip() else _calls_text(conn, message), CONTEXT_WIDTH)
