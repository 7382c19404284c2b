"""A conversation with everything that came of it: continuations, branches, delegates.

The family of a session is all that hangs together by parents, so any member gives the same one.
"""

from __future__ import annotations

from typing import Any

from .dialect import Connection, rows, value
from .lineage import BRANCH_MARK, DELEGATE_MARK, is_marked


def get_family(conn: Connection, session_id: str) -> list[dict[str, Any]]:
    """Every session that hangs together with this one, parents before their children.

    Each has `parent_session_id` (None for the first), `relation` to it ("root", "continuation",
    "branch", "delegate" or "child"), and what a person wants to see of a session. Empty for an
    unknown id.
    """
    first = value(
        conn,
        "WITH RECURSIVE above(id, depth) AS (SELECT id, 0 FROM sessions WHERE id = ? UNION"
        " SELECT s.parent_session_id, depth + 1 FROM sessions s JOIN above USING (id)"
        " WHERE s.parent_session_id IS NOT NULL AND depth < 10000)"
        " SELECT id FROM above JOIN sessions USING (id) ORDER BY depth DESC LIMIT 1",
        (session_id,),
    )
    if first is None:
        return []
    members = rows(
        conn,
        "WITH RECURSIVE family(id) AS (SELECT CAST(?1 AS TEXT) UNION"
        " SELECT s.id FROM sessions s JOIN family ON s.parent_session_id = family.id)"
        " SELECT s.id, s.parent_session_id, s.continuation_of, s.conversation_id, s.title,"
        " s.source, s.model, s.model_config, s.started_at, s.ended_at, s.end_reason,"
        " s.message_count, s.archived FROM family JOIN sessions s USING (id)"
        " ORDER BY s.started_at, s.id",
        (first,),
    )
    for member in members:
        member["relation"] = _relation(member, str(first))
        if member["id"] == first:
            member["parent_session_id"] = None  # a ring of parents must not make a ring of the tree
        del member["model_config"]
    return _parents_first(members)


def _relation(session: dict[str, Any], first: str) -> str:
    if session["id"] == first:
        return "root"
    if session["continuation_of"] == session["parent_session_id"]:
        return "continuation"
    if is_marked(session["model_config"], BRANCH_MARK):
        return "branch"
    if is_marked(session["model_config"], DELEGATE_MARK) or session["source"] == "tool":
        return "delegate"
    return "child"


def _parents_first(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    children: dict[str | None, list[dict[str, Any]]] = {}
    for member in members:
        children.setdefault(member["parent_session_id"], []).append(member)
    ordered: list[dict[str, Any]] = []
    waiting = children.pop(None, [])
    while waiting:
        member = waiting.pop(0)
        ordered.append(member)
        waiting += children.pop(member["id"], [])
    return ordered
