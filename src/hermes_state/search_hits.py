"""Reading what a search found: the messages with their snippets and their neighbours.

Hits are read in groups, with one statement each for their sessions, their messages and the messages
around them: what a search of few hits costs is mostly the number of its statements. Messages may be
very long. Of a long one only pieces are read from the file, not the whole value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

from .connection import tuples
from .search_collect import Candidate
from .search_document import as_text, calls_text, content_text, cut_content_text
from .search_index import IndexConnection
from .search_snippet import Matcher, matching_snippet, shortened, snippet

CONTEXT_WIDTH = 200
GROUP = 32
"""How many rows one statement reads; whatever the limit, no more messages are in memory at once."""

_WHOLE = 1 << 15  # bytes up to which a value is read as a whole
_BEGINNING = 1 << 12
_ANY = f"({', '.join('?' * GROUP)})"
_NOBODY: list[Any] = [None] * GROUP

_MESSAGE = (
    "m.id, m.role, CAST(m.tool_name AS BLOB), octet_length(m.content),"
    " CASE WHEN octet_length(m.content) <= {whole} THEN CAST(m.content AS BLOB) END,"
    " octet_length(m.tool_calls),"
    " CASE WHEN octet_length(m.tool_calls) <= {whole} THEN CAST(m.tool_calls AS BLOB) END"
)
_NEIGHBOUR = (
    ", (SELECT id FROM state.messages WHERE session_id = m.session_id AND id {than} m.id{visible}"
    " ORDER BY id {direction} LIMIT 1)"
)
_VISIBLE = " AND (active = 1 OR compacted = 1)"
_BY_ID = f" FROM state.messages AS m WHERE m.id IN {_ANY}"


def _found_messages_sql(visible: str) -> str:
    before = _NEIGHBOUR.format(than="<", direction="DESC", visible=visible)
    after = _NEIGHBOUR.format(than=">", direction="ASC", visible=visible)
    return f"SELECT {_MESSAGE.format(whole=_WHOLE)}{before}{after}{_BY_ID}"


_FOUND_MESSAGES = {False: _found_messages_sql(_VISIBLE), True: _found_messages_sql("")}
"""Messages with the ids of those before and after, by whether inactive ones count."""
_AROUND = f"SELECT {_MESSAGE.format(whole=_BEGINNING)}, NULL, NULL{_BY_ID}"
_SESSIONS = (
    "SELECT id, source, model, CAST(title AS BLOB), started_at FROM state.sessions"
    f" WHERE id IN {_ANY}"
)


class _Message(NamedTuple):
    id: int
    role: str
    tool_name: bytes | None
    content_size: int | None
    content: bytes | None
    calls_size: int | None
    calls: bytes | None
    before: int | None
    """The message before it in its session, if that was asked for."""
    after: int | None


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
    sessions = {
        row[0]: row for row in _select(conn, _SESSIONS, [hit[0].session_id for hit in hits])
    }
    messages = {
        row[0]: _as_message(row)
        for row in _select(conn, _FOUND_MESSAGES[include_inactive], [hit[0][0] for hit in hits])
    }
    around = [id for message in messages.values() for id in message[-2:]]
    context: dict[int | None, dict[str, str]] = {}
    for neighbour in map(_as_message, _select(conn, _AROUND, around)):
        beginning = _beginning(conn, neighbour, _text(neighbour))
        context[neighbour[0]] = {"role": neighbour[1], "content": beginning}
    read = []
    for candidate, match, matcher in hits:
        message_id, session_id, conversation_id, timestamp, _ = candidate
        session = sessions.get(session_id)
        if session is None:
            continue
        _, source, model, raw_title, started = session
        title = as_text(raw_title)
        found = messages.get(message_id)
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
        if found is not None:
            text = _text(found)
            itself = {"role": found.role, "content": _beginning(conn, found, text)}
            before, after = context.get(found.before), context.get(found.after)
            hit["role"] = found.role
            hit["tool_name"] = as_text(found.tool_name)
            # Each hit has dictionaries of its own: two may have the same neighbour.
            hit["context"] = [dict(one) for one in (before, itself, after) if one is not None]
        if found is None or match == "title":
            hit["snippet"] = snippet(title or "", matcher)
        else:
            hit["snippet"] = _snippet(conn, found, text, matcher)
        read.append(hit)
    return read


def _select(conn: IndexConnection, sql: str, keys: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The rows with these keys, each of them once."""
    wanted = [key for key in dict.fromkeys(keys) if key is not None]
    rows: list[tuple[Any, ...]] = []
    for first in range(0, len(wanted), GROUP):
        some = wanted[first : first + GROUP]
        # Always as many values, so that the statement stays prepared; NULL is no row's key.
        rows += tuples(conn, sql, some + _NOBODY[len(some) :])
    return rows


def _piece(conn: IndexConnection, message_id: int, column: str, start: int, length: int) -> str:
    """Part of a long text value, by bytes."""
    with conn.blob_open("state", "messages", column, message_id, False) as blob:
        blob.seek(min(start, blob.length()))
        found = blob.read(length)
    return found.decode(errors="ignore")


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
