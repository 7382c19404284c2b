"""How sessions hang together: continuations, tips, branches.

A compressed session goes on in exactly one continuation (`continuation_of`, unique). A conversation
is such a chain; its id is the id of the first session. Branches and delegates have a parent too,
but are conversations of their own, marked in `model_config`.
"""

from __future__ import annotations

from typing import Any

from .codec import decode_json, encode_json
from .dialect import Connection, column, row, tuples, value
from .errors import UnknownSessionError
from .object_links import copy_links

BRANCH_MARK = "_branched_from"
DELEGATE_MARK = "_delegate_from"
SUB_AGENT = "tool"
"""The source of a sub-agent's session: its parent repeats its turn, which is not resumed."""


def is_marked(model_config: str | None, *marks: str) -> bool:
    """Whether a stored model configuration carries one of the marks."""
    return any(mark in _marks(model_config) for mark in marks)


def _marks(model_config: str | None) -> dict[str, Any]:
    """The marks in a stored model configuration, each with what it names."""
    if not model_config or "_from" not in model_config:
        return {}
    config = decode_json(model_config)
    if not isinstance(config, dict):
        return {}
    return {mark: config[mark] for mark in (BRANCH_MARK, DELEGATE_MARK) if config.get(mark)}


def with_marks_of(before: str | None, model_config: str | None) -> str | None:
    """A new model configuration with the marks of the one it replaces."""
    marks = _marks(before)
    if not marks:
        return model_config
    config = decode_json(model_config)
    return encode_json(marks | config if isinstance(config, dict) else marks, "model_config")


def link_to_parent(conn: Connection, session_id: str, parent_id: str) -> None:
    """Record the parent; the child of a compressed session becomes its continuation if it can."""
    if set_parent(conn, session_id, parent_id) == "compression":
        adopt_continuation(conn, parent_id)


def set_parent(conn: Connection, session_id: str, parent_id: str) -> str | None:
    """Record the parent; returns why the parent ended, if it did."""
    parent = row(conn, "SELECT end_reason FROM sessions WHERE id = ?", (parent_id,))
    if parent is None:
        raise UnknownSessionError(parent_id)
    if is_ancestor(conn, session_id, parent_id):
        raise ValueError(
            f"Session {parent_id} descends from {session_id}; it cannot be its parent."
        )
    conn.execute(
        "UPDATE sessions SET parent_session_id = ?, version = version + 1 WHERE id = ?",
        (parent_id, session_id),
    )
    return None if parent["end_reason"] is None else str(parent["end_reason"])


def is_ancestor(conn: Connection, session_id: str, of: str) -> bool:
    """Whether `session_id` is `of` itself or stands above it."""
    return (
        value(
            conn,
            "WITH RECURSIVE above(id) AS (SELECT CAST(?1 AS TEXT) UNION"
            " SELECT parent_session_id FROM sessions JOIN above USING (id)"
            " WHERE parent_session_id IS NOT NULL) SELECT 1 FROM above WHERE id = ?2",
            (of, session_id),
        )
        is not None
    )


def adopt_continuation(conn: Connection, parent_id: str) -> str | None:
    """Make the best child of a compressed session its continuation, unless it has one.

    Branches, delegates and tool sessions do not count. A child that was compressed itself comes
    first, then one that is still open, then one that ended otherwise; among equals, the one that
    was used last.
    """
    existing = get_continuation(conn, parent_id)
    if existing is not None:
        return existing
    own_marks = _marks(value(conn, "SELECT model_config FROM sessions WHERE id = ?", (parent_id,)))
    children = tuples(
        conn,
        "SELECT id, model_config, end_reason, ended_at, started_at,"
        " (SELECT MAX(timestamp) FROM messages WHERE session_id = sessions.id) FROM sessions"
        " WHERE parent_session_id = ? AND source <> 'tool' AND id <> ?",
        (parent_id, parent_id),
    )
    # A continuation has the marks its parent has; only further ones set a child apart.
    candidates = [
        (reason == "compression", ended is None, max(started, said or 0), child)
        for child, config, reason, ended, started, said in children
        if all(own_marks.get(mark) == by for mark, by in _marks(config).items())
        and child not in get_compression_lineage(conn, parent_id)
    ]
    if not candidates:
        return None
    continuation = str(max(candidates)[-1])
    set_continuation(conn, parent_id, continuation)
    return continuation


def set_continuation(conn: Connection, parent_id: str, session_id: str) -> None:
    """Let a session, with all that followed it, go on from a compressed one."""
    conversation = value(
        conn, "SELECT COALESCE(conversation_id, id) FROM sessions WHERE id = ?", (parent_id,)
    )
    conn.execute(
        "UPDATE sessions SET continuation_of = ?, version = version + 1 WHERE id = ?",
        (parent_id, session_id),
    )
    if conn.is_server:
        joins = value(conn, "SELECT conversation_id FROM sessions WHERE id = ?", (session_id,))
        copy_links(conn, joins, conversation)
    # It may have been continued already: its whole chain joins the conversation.
    conn.execute(
        "UPDATE sessions SET conversation_id = ? WHERE conversation_id ="
        " (SELECT conversation_id FROM sessions WHERE id = ?)",
        (conversation, session_id),
    )


def get_continuation(conn: Connection, session_id: str) -> str | None:
    """The session that goes on from this one after its compression, or None."""
    return value(conn, "SELECT id FROM sessions WHERE continuation_of = ?", (session_id,))


def get_compression_tip(conn: Connection, session_id: str) -> str:
    """Follow continuations to the session the conversation is in now; an unknown id is returned."""
    return str(
        value(
            conn,
            "WITH RECURSIVE chain(id, depth) AS (SELECT CAST(?1 AS TEXT), 0 UNION ALL"
            " SELECT s.id, depth + 1 FROM sessions s JOIN chain ON s.continuation_of = chain.id"
            " WHERE depth < 100000) SELECT id FROM chain ORDER BY depth DESC LIMIT 1",
            (session_id,),
        )
    )


FIRST_SESSION = (
    "WITH RECURSIVE chain(id, before, depth) AS ("
    " SELECT id, continuation_of, 0 FROM sessions WHERE id = ?1 UNION ALL"
    " SELECT s.id, s.continuation_of, depth + 1 FROM sessions s JOIN chain ON s.id = before"
    " WHERE depth < 100000) SELECT id FROM chain ORDER BY depth DESC LIMIT 1"
)
"""The first session of the conversation of a session `?1`; nothing for an unknown id."""


def get_compression_lineage(conn: Connection, session_id: str) -> list[str]:
    """Every session of the conversation from the first to the tip; empty for an unknown id."""
    first = value(conn, FIRST_SESSION, (session_id,))
    if first is None:
        return []
    return column(
        conn,
        "WITH RECURSIVE chain(id, depth) AS (SELECT CAST(? AS TEXT), 0 UNION ALL"
        " SELECT s.id, depth + 1 FROM sessions s JOIN chain ON s.continuation_of = chain.id"
        " WHERE depth < 100000) SELECT id FROM chain ORDER BY depth",
        (first,),
    )


def get_conversation_root(conn: Connection, session_id: str) -> str:
    """The id of the conversation; a delegate belongs to the conversation that started it."""
    current = session_id
    for _ in range(100):
        session = row(
            conn,
            "SELECT conversation_id, parent_session_id, model_config FROM sessions WHERE id = ?",
            (current,),
        )
        if session is None:
            return current
        current = session["conversation_id"] or current
        if (
            not is_marked(session["model_config"], DELEGATE_MARK)
            or not session["parent_session_id"]
        ):
            return current
        current = session["parent_session_id"]
    return current


def resolve_resume_session_id(conn: Connection, session_id: str) -> str:
    """The session to load when someone wants to resume this one: the tip of its conversation.

    Where the tip is still empty (a continuation that never got a message), the newest session
    before it that has messages.
    """
    lineage = get_compression_lineage(conn, session_id)
    if session_id not in lineage:
        return session_id
    for candidate in reversed(lineage[lineage.index(session_id) :]):
        if value(conn, "SELECT 1 FROM messages WHERE session_id = ? LIMIT 1", (candidate,)):
            return candidate
    return session_id


def conversation_facts(conn: Connection, session_id: str) -> dict[str, Any]:
    """The row of a session, or UnknownSessionError."""
    session = row(conn, "SELECT * FROM sessions WHERE id = ?", (session_id,))
    if session is None:
        raise UnknownSessionError(session_id)
    return session
