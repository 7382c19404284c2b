"""Where a conversation is reached from: chat peers, hand-off."""

from __future__ import annotations

from typing import Any

from hermes_base.process import this_process

from .changes import note_session_changed
from .codec import encode_text
from .dialect import Connection, row, rows, tuples
from .formats import needed, understood
from .owners import stored_owner
from .replicas import filter_abandoned
from .sessions import RECOVERABLE_END_REASONS
from .titles import make_room_for_title


def record_gateway_session_peer(
    conn: Connection,
    session_id: str,
    *,
    source: str,
    user_id: str | None = None,
    session_key: str | None = None,
    chat_id: str | None = None,
    chat_type: str | None = None,
    thread_id: str | None = None,
    display_name: str | None = None,
    origin_json: str | None = None,
) -> None:
    """Keep from where the session is reached; what is None stays as it was."""
    before = row(conn, "SELECT source, user_id FROM sessions WHERE id = ?", (session_id,))
    if before is None:
        return
    facts = {
        "source": source,
        "user_id": user_id,
        "session_key": session_key,
        "chat_id": chat_id,
        "chat_type": chat_type,
        "thread_id": thread_id,
        "display_name": display_name,
        "origin_json": origin_json,
    }
    known = {name: encode_text(fact, name) for name, fact in facts.items() if fact is not None}
    if "user_id" in known:
        known["user_id"] = stored_owner(known["user_id"])
    if known.get("user_id", before["user_id"]) != before["user_id"]:
        make_room_for_title(conn, session_id, known["user_id"])
    conn.execute(
        f"UPDATE sessions SET {''.join(f'{name} = ?, ' for name in known)}version = version + 1"
        " WHERE id = ?",
        (*known.values(), session_id),
    )
    if any(name in known and known[name] != before[name] for name in before):
        note_session_changed(conn, session_id)


def list_gateway_sessions(
    conn: Connection, *, platform: str | None = None, active_only: bool = True
) -> list[dict[str, Any]]:
    """The newest session of each session key."""
    sessions = rows(
        conn,
        "SELECT * FROM (SELECT s.*, ROW_NUMBER() OVER (PARTITION BY session_key"
        "  ORDER BY started_at DESC, id DESC) AS _nth FROM sessions s"
        "  WHERE session_key IS NOT NULL AND session_key <> ''"
        "  AND (CAST(?1 AS TEXT) IS NULL OR source = ?1) AND (?2 = 0 OR ended_at IS NULL)) AS peers"
        " WHERE _nth = 1 ORDER BY started_at DESC",
        (platform, int(active_only)),
    )
    for session in sessions:
        del session["_nth"]
        if session["last_active"] is None:
            session["last_active"] = session["started_at"]
    return sessions


def find_session_by_origin(
    conn: Connection,
    *,
    platform: str,
    chat_id: str,
    thread_id: str | None = None,
    user_id: str | None = None,
) -> str | None:
    """The newest open session of a chat.

    Where the chat has sessions of several people and none is `user_id`'s (or nobody said who is
    asking), None: never somebody else's.
    """
    sessions = tuples(
        conn,
        "SELECT id, user_id FROM sessions WHERE source = ? AND chat_id = ? AND ended_at IS NULL"
        " AND (CAST(? AS TEXT) IS NULL OR thread_id = ?) ORDER BY started_at DESC, id DESC",
        (platform, chat_id, thread_id, thread_id),
    )
    owners = {owner for _, owner in sessions} - {None}
    if user_id is not None:
        own = [session_id for session_id, owner in sessions if owner == stored_owner(user_id)]
        if own:
            return str(own[0])
        if owners:
            return None
    elif len(owners) > 1:
        return None
    return str(sessions[0][0]) if sessions else None


def find_latest_gateway_session_for_peer(
    conn: Connection,
    *,
    source: str,
    user_id: str | None = None,
    session_key: str | None = None,
    chat_id: str | None = None,
    chat_type: str | None = None,
    thread_id: str | None = None,
) -> dict[str, Any] | None:
    """The newest session a chat can go on with: open, or ended only by accident.

    The session key decides if there is one; else all other facts must match.
    """
    alive = f"(ended_at IS NULL OR end_reason IN {RECOVERABLE_END_REASONS})"
    newest = "ORDER BY started_at DESC, id DESC LIMIT 1"
    if session_key:
        return row(
            conn,
            f"SELECT * FROM sessions WHERE source = ? AND session_key = ? AND {alive} {newest}",
            (source, session_key),
        )
    if chat_id is None and user_id is None:
        return None
    return row(
        conn,
        "SELECT * FROM sessions WHERE source = ? AND user_id IS NOT DISTINCT FROM ?"
        " AND chat_id IS NOT DISTINCT FROM ? AND chat_type IS NOT DISTINCT FROM ?"
        f" AND thread_id IS NOT DISTINCT FROM ? AND {alive} {newest}",
        (source, stored_owner(user_id), chat_id, chat_type, thread_id),
    )


def request_handoff(conn: Connection, session_id: str, platform: str) -> bool:
    """Request a hand-off of the session to a platform; False if it is unknown or under way."""
    conn.execute(
        "UPDATE sessions SET handoff_state = 'pending', handoff_platform = ?, handoff_error = NULL,"
        " handoff_needs_format = ?, version = version + 1 WHERE id = ?"
        " AND (handoff_state IS NULL OR handoff_state NOT IN ('pending', 'running'))",
        (encode_text(platform, "platform"), needed("handoff", (platform,)), session_id),
    )
    return conn.changes() > 0


def get_handoff_state(conn: Connection, session_id: str) -> dict[str, Any] | None:
    """`state`, `platform` and `error` of the session's hand-off, or None if there was none."""
    return row(
        conn,
        "SELECT handoff_state AS state, handoff_platform AS platform, handoff_error AS error"
        " FROM sessions WHERE id = ? AND handoff_state IS NOT NULL",
        (session_id,),
    )


def list_pending_handoffs(conn: Connection) -> list[dict[str, Any]]:
    """Sessions with a pending hand-off, oldest first."""
    return rows(
        conn,
        "SELECT * FROM sessions WHERE handoff_state = 'pending'"
        f" AND {understood('handoff_needs_format')} ORDER BY started_at, id",
    )


def claim_handoff(conn: Connection, session_id: str) -> bool:
    """Take a pending hand-off; True for exactly one of those who try."""
    return _move_handoff(conn, session_id, "running", None, ("pending",), this_process())


def list_abandoned_handoffs(conn: Connection, with_own: bool = False) -> list[dict[str, Any]]:
    """Sessions whose hand-off was abandoned by its owner, oldest first.

    `with_own` as in `list_others`.
    """
    sessions = rows(
        conn,
        "SELECT * FROM sessions WHERE handoff_state = 'running'"
        f" AND {understood('handoff_needs_format')} ORDER BY started_at, id",
    )
    return filter_abandoned(conn, sessions, with_own, "handoff_owner")


def take_over_handoff(conn: Connection, session_id: str, owner: str | None) -> bool:
    """Take over the abandoned hand-off of `owner`; False if another process was first."""
    conn.execute(
        "UPDATE sessions SET handoff_owner = ?, version = version + 1 WHERE id = ?"
        " AND handoff_state = 'running' AND handoff_owner IS NOT DISTINCT FROM ?",
        (this_process(), session_id, owner),
    )
    return conn.changes() > 0


def complete_handoff(conn: Connection, session_id: str) -> None:
    """Record that the hand-off is done."""
    _move_handoff(conn, session_id, "completed", None, ("pending", "running"))


def fail_handoff(conn: Connection, session_id: str, error: str) -> None:
    """Record that the hand-off failed, and why."""
    _move_handoff(conn, session_id, "failed", error, ("pending", "running"))


def _move_handoff(
    conn: Connection,
    session_id: str,
    state: str,
    error: str | None,
    allowed: tuple[str, ...],
    owner: str | None = None,
) -> bool:
    marks = ", ".join("?" * len(allowed))
    conn.execute(
        "UPDATE sessions SET handoff_state = ?, handoff_error = ?, handoff_owner = ?,"
        f" version = version + 1 WHERE id = ? AND handoff_state IN ({marks})"
        f" AND {understood('handoff_needs_format')}",
        (state, encode_text(error, "error"), owner, session_id, *allowed),
    )
    return conn.changes() > 0
