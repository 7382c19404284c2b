"""Taking conversations out and bringing them in.

An export is the session's row with its messages. An import creates sessions that are not there yet,
all of them or, if anything in the payload is wrong, none. Live state (routing, hand-off, leases) is
not imported: it belongs to the place it came from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .codec import encode_json
from .connection import Connection, tuples
from .errors import StoreError
from .lineage import adopt_continuation, get_compression_lineage, is_ancestor, link_to_parent
from .messages import get_messages, insert_message, message_fields, recount, seconds
from .sessions import create_session, get_session
from .titles import get_next_title_in_lineage, sanitize_title, set_session_title

MAX_SESSIONS = 500
MAX_MESSAGES_PER_SESSION = 10_000
MAX_MESSAGES = 50_000
MAX_SESSION_BYTES = 5 * 1024 * 1024
MAX_BYTES = 25 * 1024 * 1024

_FACTS = [
    "model",
    "model_config",
    "system_prompt",
    "user_id",
    "chat_id",
    "chat_type",
    "thread_id",
    "display_name",
    "cwd",
    "git_branch",
    "git_repo_root",
    "profile_name",
    "started_at",
    "billing_provider",
    "billing_base_url",
    "billing_mode",
]
_COUNTERS = [
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "cost_source",
    "pricing_version",
    "api_call_count",
    "archived",
]


def export_session(conn: Connection, session_id: str) -> dict[str, Any] | None:
    """One session with all its messages (`messages`), or None."""
    session = get_session(conn, session_id)
    if session is None:
        return None
    return {**session, "messages": get_messages(conn, session_id, include_inactive=True)}


def export_session_lineage(conn: Connection, session_id: str) -> dict[str, Any] | None:
    """A whole conversation: the row, `segments`, `lineage_session_ids` and all `messages`."""
    session = get_session(conn, session_id)
    if session is None:
        return None
    lineage = get_compression_lineage(conn, session_id)
    segments = [segment for one in lineage if (segment := export_session(conn, one))]
    messages = [
        message
        for segment in segments
        for message in segment["messages"]
        if message["origin_id"] is None or segment is segments[0]
    ]
    return {
        **session,
        "message_count": len(messages),
        "segments": segments,
        "lineage_session_ids": lineage,
        "messages": messages,
    }


def export_all(conn: Connection, source: str | None = None) -> list[dict[str, Any]]:
    """Every session (of a source) with its messages, oldest first."""
    ids = tuples(
        conn,
        "SELECT id FROM sessions WHERE ?1 IS NULL OR source = ?1 ORDER BY started_at, id",
        (source,),
    )
    return [session for (one,) in ids if (session := export_session(conn, one))]


def import_sessions(conn: Connection, sessions: list[dict[str, Any]]) -> dict[str, Any]:
    """Bring in exported sessions; ids that are here already are skipped.

    Returns `ok`, `imported`, `skipped`, `detached` (children whose parent is not known), the ids,
    and `errors`. With errors nothing is imported. A title that is taken gets a number.
    """
    if not isinstance(sessions, list):
        raise ValueError("sessions must be a list of exported sessions")
    report: dict[str, Any] = {
        "ok": True,
        "imported": 0,
        "skipped": 0,
        "detached": 0,
        "imported_ids": [],
        "skipped_ids": [],
        "errors": validate_import(sessions),
    }
    if report["errors"]:
        return {**report, "ok": False}
    fresh: list[dict[str, Any]] = []
    seen: set[str] = set()
    for session in sessions:
        if session["id"] in seen or get_session(conn, session["id"]) is not None:
            report["skipped_ids"].append(session["id"])
        else:
            seen.add(session["id"])
            fresh.append(session)
    fresh.sort(key=lambda session: seconds(session.get("started_at") or 0))
    told: _Told = {}
    for session in fresh:
        _import_one(conn, session, told)
    for session in fresh:
        _link_import(conn, session, report)
    report["imported_ids"] = [session["id"] for session in fresh]
    report["imported"] = len(fresh)
    report["skipped"] = len(report["skipped_ids"])
    return report


def validate_import(sessions: list[Any]) -> list[dict[str, Any]]:
    """What is wrong with an import payload: a list of {index, error}, empty if nothing."""
    errors: list[dict[str, Any]] = []
    if len(sessions) > MAX_SESSIONS:
        errors.append({"index": None, "error": f"more than {MAX_SESSIONS} sessions at once"})
        return errors
    total_messages = total_bytes = 0
    for index, session in enumerate(sessions):
        problem, messages, size = _examine(session)
        total_messages += messages
        total_bytes += size
        if problem:
            errors.append({"index": index, "error": problem})
    if total_messages > MAX_MESSAGES:
        errors.append({"index": None, "error": f"more than {MAX_MESSAGES} messages at once"})
    if total_bytes > MAX_BYTES:
        errors.append({"index": None, "error": f"more than {MAX_BYTES} bytes at once"})
    return errors


def _examine(session: Any) -> tuple[str | None, int, int]:
    if not isinstance(session, Mapping):
        return "a session must be an object", 0, 0
    if not isinstance(session.get("id"), str) or not session["id"]:
        return "session id is required", 0, 0
    messages = session.get("messages") or []
    if not isinstance(messages, list):
        return "messages must be a list", 0, 0
    if len(messages) > MAX_MESSAGES_PER_SESSION:
        return f"more than {MAX_MESSAGES_PER_SESSION} messages", len(messages), 0
    try:
        size = len(json.dumps(session))
        for message in messages:
            fields = message_fields(message)
            seconds(fields.get("timestamp"))
            if not isinstance(fields["role"], str) or not fields["role"]:
                return "a message needs a role", len(messages), size
        encode_json(session.get("model_config"), "model_config")
        for name in ("started_at", "ended_at"):
            seconds(session.get(name))
        for name in (*_COUNTERS, "title", "end_reason", "source"):
            if not isinstance(session.get(name), str | int | float | None):
                return f"{name} must be text or a number", len(messages), size
        for message in messages:
            if not isinstance(message.get("id"), int | str | None):
                return "a message id must be a number or text", len(messages), size
            if not isinstance(message.get("origin_id"), int | str | None):
                return "a message's origin_id must be a number or text", len(messages), size
            if not isinstance(message.get("token_count"), int | None):
                return "token_count must be a whole number", len(messages), size
    except (TypeError, ValueError, RecursionError, StoreError) as error:
        return str(error), len(messages), 0
    if size > MAX_SESSION_BYTES:
        return f"more than {MAX_SESSION_BYTES} bytes", len(messages), size
    return None, len(messages), size


_Told = dict[Any, tuple[int, dict[str, Any]]]
"""Exported message id → the imported message's id and what it says."""


def _import_one(conn: Connection, session: dict[str, Any], told: _Told) -> None:
    session_id = session["id"]
    facts = {name: session[name] for name in _FACTS if session.get(name) is not None}
    facts["started_at"] = seconds(session.get("started_at"))
    create_session(conn, session_id, session.get("source") or "import", **facts)
    for message in session.get("messages") or []:
        fields = message_fields(message)
        # A copy stays a copy only if what it repeats came along and is the same.
        origin, original = told.get(fields.pop("origin_id", None), (None, {}))
        same = all(original.get(name) == fields.get(name) for name in ("role", "content"))
        message_id, _ = insert_message(
            conn, session_id, **fields, origin_id=origin if same else None
        )
        if message.get("id") is not None:
            told[message["id"]] = (message_id, fields)
        active, compacted = message.get("active", 1), message.get("compacted", 0)
        if not active:
            conn.execute(
                "UPDATE messages SET active = 0, compacted = ? WHERE id = ?",
                (int(bool(compacted)), message_id),
            )
    recount(conn, session_id)
    title = sanitize_title(str(session["title"])[:100]) if session.get("title") else None
    if title:
        set_session_title(conn, session_id, get_free_title(conn, title))
    counters = {name: session[name] for name in _COUNTERS if session.get(name) is not None}
    ended = session.get("ended_at")
    counters |= {
        "ended_at": None if ended is None else seconds(ended),
        "end_reason": session.get("end_reason") if ended is not None else None,
    }
    conn.execute(
        f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in counters)} WHERE id = ?",
        (*counters.values(), session_id),
    )


def get_free_title(conn: Connection, title: str) -> str:
    """The title itself, or the next in its lineage where it is taken."""
    taken = conn.execute("SELECT 1 FROM sessions WHERE title = ?", (title,)).fetchone()
    return get_next_title_in_lineage(conn, title) if taken else title


def _link_import(conn: Connection, session: dict[str, Any], report: dict[str, Any]) -> None:
    parent = session.get("parent_session_id")
    if isinstance(parent, str) and parent and parent != session["id"]:
        if get_session(conn, parent) is None or is_ancestor(conn, session["id"], parent):
            report["detached"] += 1
        else:
            link_to_parent(conn, session["id"], parent)
    if session.get("end_reason") == "compression":
        adopt_continuation(conn, session["id"])
