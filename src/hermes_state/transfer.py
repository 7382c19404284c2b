"""Taking conversations out and bringing them in.

An export is the session's row with its messages. It is made to be given away, so the secrets in its
texts are masked; a backup asks for `redact=False` and loses nothing. An import takes either. It
creates sessions that are not there yet, all of them or, if anything in the payload is wrong, none.
Live state (routing, hand-off, leases) is not imported: it belongs to the place it came from.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from hermes_base.redaction import redact_value

from .codec import encode_text
from .dialect import Connection, tuples
from .import_check import NUMBERS, TEXT_FACTS, is_safe_id, validate_import
from .lineage import (
    adopt_continuation,
    get_compression_lineage,
    get_continuation,
    is_ancestor,
    set_continuation,
    set_parent,
)
from .messages import get_messages, insert_message, message_fields, recount, seconds
from .model_calls import export_calls, follow_conversation, import_calls
from .owners import asked_owner, is_owned, stored_owner
from .sessions import create_session, get_session
from .titles import (
    get_next_title_in_lineage,
    get_session_by_title,
    sanitize_title,
    set_session_title,
)

_IDENTITY = frozenset({
    "id", "session_id", "parent_session_id", "conversation_id", "continuation_of", "session_key",
    "call_id", "tool_call_id", "platform_message_id", "signature", "encrypted_content",
})  # fmt: skip
"""Entries that hold no text: what refers to something, and what a provider has sealed."""


def export_session(conn: Connection, session_id: str, redact: bool = True) -> dict[str, Any] | None:
    """One session with all its messages (`messages`) and model calls (`model_calls`), or None;
    `redact=False` for a backup."""
    session = get_session(conn, session_id)
    if session is None:
        return None
    messages = get_messages(conn, session_id, include_inactive=True)
    calls = export_calls(conn, session_id)
    exported = {**session, "messages": messages, "model_calls": calls}
    return redact_value(exported, _IDENTITY) if redact else exported


def export_session_lineage(
    conn: Connection, session_id: str, redact: bool = True
) -> dict[str, Any] | None:
    """A whole conversation: the row, `segments`, `lineage_session_ids` and all `messages`."""
    session = get_session(conn, session_id)
    if session is None:
        return None
    if redact:
        session = redact_value(session, _IDENTITY)
    lineage = get_compression_lineage(conn, session_id)
    segments = [segment for part in lineage if (segment := export_session(conn, part, redact))]
    rows = [message for segment in segments for message in segment["messages"]]
    visible = {row["id"] for row in rows if row["active"] or row["compacted"]}
    messages = [row for row in rows if row["origin_id"] not in visible]
    return {
        **session,
        "message_count": len(messages),
        "segments": segments,
        "lineage_session_ids": lineage,
        "messages": messages,
    }


def export_all(
    conn: Connection, source: str | None = None, redact: bool = True
) -> list[dict[str, Any]]:
    """Every session (of a source) with its messages, oldest first; `redact=False` for a backup."""
    ids = tuples(
        conn,
        "SELECT id FROM sessions WHERE CAST(?1 AS TEXT) IS NULL OR source = ?1"
        " ORDER BY started_at, id",
        (source,),
    )
    return [session for (name,) in ids if (session := export_session(conn, name, redact))]


def import_sessions(
    conn: Connection,
    sessions: list[dict[str, Any]],
    unlimited: bool = False,
    user_id: str | None = None,
) -> dict[str, Any]:
    """Bring in exported sessions; ids that are here already are skipped.

    There are limits to how much comes in at once, unless `unlimited`: for what a person brings in
    from files of their own. Owners are taken over as they are: that is for the operator. Whoever
    imports for somebody else gives their `user_id`; then all of it is theirs, and what others have
    is as if it were not there.

    An id that could be taken for a path, or is another owner's, is replaced (`renamed`: old → new).
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
        "renamed": {},
        "errors": validate_import(sessions, unlimited),
    }
    if report["errors"]:
        return {**report, "ok": False}
    sessions = _with_safe_ids(conn, sessions, user_id, report["renamed"])
    fresh: list[dict[str, Any]] = []
    seen: set[str] = set()
    for session in sessions:
        if session["id"] in seen or get_session(conn, session["id"]) is not None:
            report["skipped_ids"].append(session["id"])
        else:
            seen.add(session["id"])
            fresh.append(session)
    fresh = _parents_first(fresh)
    rows: list[_Row] = []
    for session in fresh:
        rows += _import_one(conn, session)
    _mark_repeats(conn, rows)
    _set_titles(conn, fresh)
    _link(conn, fresh, report, user_id)
    for session in fresh:
        if session.get("model_calls"):
            follow_conversation(conn, session["id"])
    report["imported_ids"] = [session["id"] for session in fresh]
    report["imported"] = len(fresh)
    report["skipped"] = len(report["skipped_ids"])
    return report


def _with_safe_ids(
    conn: Connection, sessions: list[dict[str, Any]], user_id: str | None, renamed: dict[str, str]
) -> list[dict[str, Any]]:
    """The sessions under ids that can be used here, all of `user_id` if that is given."""
    for session in sessions:
        given = session["id"]
        here = None if user_id is None else get_session(conn, given)
        if not is_safe_id(given) or (here is not None and not is_owned(here, asked_owner(user_id))):
            renamed[given] = _other_id(given, user_id)
    names = ("id", "parent_session_id", "continuation_of")
    safe = []
    for session in sessions:
        ids = {
            name: renamed.get(session[name], session[name])
            for name in names
            if isinstance(session.get(name), str)
        }
        owner = {} if user_id is None else {"user_id": stored_owner(user_id)}
        safe.append({**session, **ids, **owner})
    return safe


def _other_id(session_id: str, user_id: str | None) -> str:
    """An id to have instead, the same whenever the same session is imported again."""
    digest = hashlib.sha256(f"{user_id}\0{session_id}".encode(errors="surrogatepass"))
    return f"imported_{digest.hexdigest()[:24]}"


def _parents_first(sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order in which they began, but each after its parent: clocks have been wrong."""
    waiting = {
        session["id"]: session
        for session in sorted(sessions, key=lambda session: seconds(session.get("started_at") or 0))
    }
    ordered: list[dict[str, Any]] = []
    while waiting:
        line = [next(iter(waiting))]
        while isinstance(parent := waiting[line[-1]].get("parent_session_id"), str):
            if parent not in waiting or parent in line:
                break
            line.append(parent)
        ordered += [waiting.pop(session_id) for session_id in reversed(line)]
    return ordered


class _Row(NamedTuple):
    """An imported message: its new id, and what the export said of it."""

    id: int
    exported_id: Any
    exported_origin: Any
    is_visible: bool
    text: tuple[Any, Any]


def _import_one(conn: Connection, session: dict[str, Any]) -> list[_Row]:
    session_id = session["id"]
    facts = {name: session.get(name) for name in (*TEXT_FACTS, "model_config")}
    facts["started_at"] = seconds(session.get("started_at"))
    create_session(conn, session_id, session.get("source") or "import", **facts)
    rows = []
    for message in session.get("messages") or []:
        fields = message_fields(message)
        message_id, _ = insert_message(conn, session_id, **fields)
        active, compacted = bool(message.get("active", 1)), bool(message.get("compacted", 0))
        if not active:
            conn.execute(
                "UPDATE messages SET active = 0, compacted = ? WHERE id = ?",
                (int(compacted), message_id),
            )
        rows.append(
            _Row(
                message_id,
                message.get("id"),
                message.get("origin_id"),
                active or compacted,
                (fields["role"], fields.get("content")),
            )
        )
    recount(conn, session_id)
    import_calls(conn, session_id, session.get("model_calls") or [])
    ended = session.get("ended_at")
    columns = {name: session[name] for name in NUMBERS if session.get(name) is not None}
    columns["archived"] = int(bool(session.get("archived")))
    columns |= {
        name: encode_text(session.get(name), name)
        for name in ("cost_status", "cost_source", "pricing_version")
    }
    columns["ended_at"] = None if ended is None else seconds(ended)
    if ended is not None:
        columns["end_reason"] = encode_text(session.get("end_reason"), "end_reason")
    conn.execute(
        f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in columns)} WHERE id = ?",
        (*columns.values(), session_id),
    )
    return rows


def _mark_repeats(conn: Connection, rows: list[_Row]) -> None:
    """A copy stays a copy only if the first telling came along, can be seen and is the same."""
    first_tellings = {
        row.exported_id: row
        for row in rows
        if row.exported_id is not None and row.exported_origin is None and row.is_visible
    }
    for row in rows:
        first = first_tellings.get(row.exported_origin)
        if row.exported_origin is not None and first is not None and first.text == row.text:
            conn.execute("UPDATE messages SET origin_id = ? WHERE id = ?", (first.id, row.id))


def _set_titles(conn: Connection, sessions: list[dict[str, Any]]) -> None:
    """Titles as they were; those that are taken here are numbered on, after all others."""
    taken = []
    for session in sessions:
        title = sanitize_title(str(session["title"])[:100]) if session.get("title") else None
        owner = (get_session(conn, session["id"]) or {}).get("user_id")
        if title and get_session_by_title(conn, title, owner) is None:
            set_session_title(conn, session["id"], title)
        elif title:
            taken.append((session["id"], title, owner))
    for session_id, title, owner in taken:
        set_session_title(conn, session_id, get_next_title_in_lineage(conn, title, owner))


def _link(
    conn: Connection, sessions: list[dict[str, Any]], report: dict[str, Any], user_id: str | None
) -> None:
    """Parents first, then the continuations.

    Our own exports name them; in others, the children of a compressed session suggest which it is.
    """
    named: list[tuple[str, str]] = []
    suggested: list[str] = []
    for session in sessions:
        session_id, parent = session["id"], session.get("parent_session_id")
        if not isinstance(parent, str) or not parent or parent == session_id:
            continue
        above = get_session(conn, parent)
        is_anothers = above is not None and user_id is not None and not is_owned(above, user_id)
        if above is None or is_anothers or is_ancestor(conn, session_id, parent):
            report["detached"] += 1
        elif set_parent(conn, session_id, parent) == "compression":
            if "continuation_of" not in session:
                suggested.append(parent)
            elif session["continuation_of"] == parent:
                named.append((session_id, parent))
    for session_id, parent in named:
        if get_continuation(conn, parent) is None:
            set_continuation(conn, parent, session_id)
    for parent in suggested:
        adopt_continuation(conn, parent)
