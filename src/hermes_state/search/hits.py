"""Reading what a search found: the messages with their snippets and their neighbours.

Hits are read in groups, with one statement for their messages, the sessions of these and the
messages around them: what a search of few hits costs is mostly the number of its statements.
Messages may be very long. Of a long one only pieces are read from the file, not the whole value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

from ..dialect import tuples
from .collect import Candidate
from .document import as_text, calls_text, content_text, cut_content_text
from .index import IndexConnection
from .snippet import Matcher, matching_snippet, shortened, snippet

CONTEXT_WIDTH = 200
GROUP = 32
"""How many rows one statement reads; whatever the limit, no more messages are in memory at once."""

_WHOLE = 1 << 15  # bytes up to which a value is read as a whole
_BEGINNING = 1 << 12
_FEW = 4
_NOBODY: list[Any] = [None] * GROUP

_MESSAGE = (
    "{m}.id, {m}.role, CAST({m}.tool_name AS BLOB), octet_length({m}.content),"
    " CASE WHEN octet_length({m}.content) <= {whole} THEN CAST({m}.content AS BLOB) END,"
    " octet_length({m}.tool_calls),"
    " CASE WHEN octet_length({m}.tool_calls) <= {whole} THEN CAST({m}.tool_calls AS BLOB) END"
)
_NEIGHBOUR = (
    " LEFT JOIN state.messages AS {m} ON {m}.id = (SELECT id FROM state.messages"
    " WHERE session_id = found.session_id AND id {than} found.id{visible}"
    " ORDER BY id {direction} LIMIT 1)"
)
_VISIBLE = " AND (active = 1 OR compacted = 1)"
_SESSION = "s.source, s.model, CAST(s.title AS BLOB), s.started_at"


def _found_messages_sql(visible: str) -> str:
    return (
        f"SELECT {_MESSAGE.format(m='found', whole=_WHOLE)}, {_SESSION},"
        f" {_MESSAGE.format(m='before', whole=_BEGINNING)},"
        f" {_MESSAGE.format(m='after', whole=_BEGINNING)}"
        " FROM state.messages AS found CROSS JOIN state.sessions AS s ON s.id = found.session_id"
        + _NEIGHBOUR.format(m="before", than="<", direction="DESC", visible=visible)
        + _NEIGHBOUR.format(m="after", than=">", direction="ASC", visible=visible)
        + " WHERE found.id"
    )


_FOUND_MESSAGES = {False: _found_messages_sql(_VISIBLE), True: _found_messages_sql("")}
"""Messages with their sessions and those before and after, by whether inactive ones count."""
_SESSIONS = f"SELECT s.id, {_SESSION} FROM state.sessions AS s WHERE s.id"


class _Message(NamedTuple):
    id: int
    role: str
    tool_name: bytes | None
    content_size: int | None
    content: bytes | None
    calls_size: int | None
    calls: bytes | None


_as_message = cast(
    Callable[[tuple[Any, ...]], _Message], functools.partial(tuple.__new__, _Message)
)
"""Makes a row that was read a message; called for each one, so quicker than `_make`."""


def read_hits(
    conn: IndexConnection,
    hits: Sequence[tuple[Candidate, str, Matcher]],
    include_inactive: bool,
) -> list[dict[str, Any]]:
    """The hits as they are returned, without those whose session has gone."""
    read: list[dict[str, Any]] = []
    for first in range(0, len(hits), GROUP):
        read += _read_group(conn, hits[first : first + GROUP], include_inactive)
    return read


def _read_group(
    conn: IndexConnection,
    hits: Sequence[tuple[Candidate, str, Matcher]],
    include_inactive: bool,
) -> list[dict[str, Any]]:
    messages = {
        row[0]: row
        for row in _select(conn, _FOUND_MESSAGES[include_inactive], [hit[0][0] for hit in hits])
    }
    without = [hit[0].session_id for hit in hits if hit[0].message_id is None]
    sessions = {row[0]: row[1:] for row in _select(conn, _SESSIONS, without)} if without else {}
    read = []
    for candidate, match, matcher in hits:
        message_id, session_id, conversation_id, timestamp, _ = candidate
        row = messages.get(message_id)
        session = sessions.get(session_id) if row is None else row[7:11]
        if session is None:
            continue
        source, model, raw_title, started = session
        title = as_text(raw_title)
        hit = {
            "id": message_id,
            "session_id": session_id,
            "conversation_id": conversation_id,
            "role": None,
            "snippet": "",
            "timestamp": timestamp,
            "tool_name": None,
            "source": source,
            "model": model,
            "title": title,
            "session_started": started,
            "match": match,
            "context": [],
        }
        if row is not None:
            _add_message(conn, hit, row, matcher)
        if row is None or match == "title":
            hit["snippet"] = snippet(title or "", matcher)
        read.append(hit)
    return read


def _add_message(
    conn: IndexConnection, hit: dict[str, Any], row: tuple[Any, ...], matcher: Matcher
) -> None:
    """Add to a hit what its message says, and those before and after it."""
    message = _as_message(row[:7])
    text = _text(message)
    hit["role"] = message.role
    hit["tool_name"] = as_text(message.tool_name)
    if hit["match"] != "title":
        hit["snippet"] = _snippet(conn, message, text, matcher)
    context = hit["context"]
    if row[11] is not None:
        context.append(_context(conn, _as_message(row[11:18])))
    context.append({"role": message.role, "content": _beginning(conn, message, text)})
    if row[18] is not None:
        context.append(_context(conn, _as_message(row[18:])))


def _context(conn: IndexConnection, message: _Message) -> dict[str, str]:
    return {"role": message.role, "content": _beginning(conn, message, _text(message))}


def _select(conn: IndexConnection, sql: str, keys: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The rows with these keys (no more than a group), each of them once."""
    wanted = [key for key in dict.fromkeys(keys) if key is not None]
    size = _FEW if len(wanted) <= _FEW else GROUP
    # One of two numbers of values, so that the statement stays prepared; NULL is no row's key.
    return tuples(conn, _with_keys(sql, size), wanted + _NOBODY[: size - len(wanted)])


@functools.lru_cache
def _with_keys(sql: str, count: int) -> str:
    return f"{sql} IN ({', '.join('?' * count)})"


def _piece(conn: IndexConnection, message_id: int, column: str, start: int, length: int) -> str:
    """Part of a long text value, by bytes."""
    with conn.blob_open("state", "messages", column, message_id, False) as blob:
        blob.seek(min(start, blob.length()))
        data = blob.read(length)
    return data.decode(errors="ignore")


def _text(message: _Message) -> str | None:
    """What the message says; None if it is too long to be read as a whole."""
    if message.content is None and message.content_size:
        return None
    return content_text(as_text(message.content))


def _snippet(conn: IndexConnection, message: _Message, text: str | None, matcher: Matcher) -> str:
    """Around the first match in its text or, failing that, in its tool calls."""
    if text is None:
        text = _surroundings(conn, message, matcher)
    shown = matching_snippet(text, matcher)
    if shown is None:
        calls = _calls_text(conn, message)
        shown = matching_snippet(calls, matcher)
        if shown is None:
            shown = snippet(text if text.strip() else calls, matcher)
    return shown


def _surroundings(conn: IndexConnection, message: _Message, matcher: Matcher) -> str:
    """A piece of a long text: its beginning or, if nothing matches there, where the match is."""
    text = cut_content_text(_piece(conn, message.id, "content", 0, _WHOLE))
    place = conn.scorer.places.get(message.id, 0.0)
    if place and not matcher.occurs_in(text):
        start = max(0, int((message.content_size or 0) * place) - _WHOLE // 2)
        there = _piece(conn, message.id, "content", start, _WHOLE)
        text = there if matcher.occurs_in(there) else text
    return text


def _calls_text(conn: IndexConnection, message: _Message) -> str:
    name = as_text(message.tool_name)
    if message.calls is None and message.calls_size:
        return f"{name or ''}\n{_piece(conn, message.id, 'tool_calls', 0, _WHOLE)}"
    return calls_text(name, as_text(message.calls))


def _beginning(conn: IndexConnection, message: _Message, text: str | None) -> str:
    if text is None:
        text = cut_content_text(_piece(conn, message.id, "content", 0, _BEGINNING))
    return shortened(text if text.strip() else _calls_text(conn, message), CONTEXT_WIDTH)
