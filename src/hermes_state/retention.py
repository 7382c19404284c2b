"""What is deleted, archived or settled, and when.

Only ended sessions are ever pruned, and never one whose conversation is still open. Deleting a
session in the middle of a conversation closes the gap: its neighbours go on as one lineage. With a
session goes everything the store has of it, in the same transaction; what is kept beside the store
goes after it (`SessionDB.on_conversations_deleted`). What its model calls cost stays, without its
ids.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .approvals import delete_approvals
from .changes import note_session_changed
from .dialect import Connection, column, rows, tuples, value
from .lineage import DELEGATE_MARK, get_compression_lineage, is_marked
from .listing import like
from .model_calls import forget_call_ids
from .reviews import review_key
from .rewrites import remove_messages
from .sessions import set_session_archived
from .turns import forget_session
from .wall_settings import wall_key

DAY = 86_400.0
GHOST_AGE = DAY
ORPHAN_AGE = 7 * DAY


class Deleted(NamedTuple):
    """A session that is gone, and the conversation it was part of."""

    id: str
    conversation_id: str


def delete_session(conn: Connection, session_id: str) -> list[Deleted]:
    """Delete a session, its messages and the delegates it started; returns all that went."""
    session = conn.execute(
        "SELECT parent_session_id, continuation_of, COALESCE(conversation_id, id)"
        " FROM sessions WHERE id = ?",
        (session_id,),
    ).fetchone()
    if session is None:
        return []
    deleted: list[Deleted] = []
    for child, config in tuples(
        conn, "SELECT id, model_config FROM sessions WHERE parent_session_id = ?", (session_id,)
    ):
        if is_marked(config, DELEGATE_MARK):
            deleted += delete_session(conn, child)
    parent_id, continuation_of, conversation_id = session
    continuation = value(conn, "SELECT id FROM sessions WHERE continuation_of = ?", (session_id,))
    remove_messages(conn, session_id)
    conn.execute(
        "UPDATE sessions SET parent_session_id = NULL, version = version + 1"
        " WHERE parent_session_id = ?",
        (session_id,),
    )
    conn.execute(
        "UPDATE sessions SET continuation_of = NULL WHERE id IN (?, ?)", (continuation, session_id)
    )
    # An older file's table may not do this by itself.
    conn.execute("DELETE FROM session_model_usage WHERE session_id = ?", (session_id,))
    forget_call_ids(conn, session_id)
    conn.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    delete_approvals(conn, session_id)
    forget_session(conn, session_id, conversation_id)
    conn.execute("DELETE FROM inbox WHERE session_id = ?", (session_id,))
    conn.execute("DELETE FROM compression_locks WHERE session_id = ?", (session_id,))
    conn.execute("DELETE FROM async_delegations WHERE parent_session_id = ?", (session_id,))
    conn.execute(
        "DELETE FROM state_meta WHERE key IN (?, ?, ?)",
        (f"goal:{session_id}", review_key(session_id), wall_key(session_id)),
    )
    if continuation is not None and continuation_of is not None:
        conn.execute(
            "UPDATE sessions SET continuation_of = ?, parent_session_id = ? WHERE id = ?",
            (continuation_of, parent_id, continuation),
        )
    note_session_changed(conn, session_id)
    return [*deleted, Deleted(session_id, conversation_id)]


def without_sessions(conn: Connection, deleted: Iterable[Deleted]) -> list[str]:
    """Those conversations of the deleted sessions that have no session left."""
    conversations = dict.fromkeys(session.conversation_id for session in deleted)
    left = "SELECT 1 FROM sessions WHERE conversation_id = ? LIMIT 1"
    return [name for name in conversations if value(conn, left, (name,)) is None]


def delete_sessions(conn: Connection, session_ids: Iterable[str]) -> list[Deleted]:
    """Delete several sessions as one change; unknown ids are passed over."""
    return [gone for session_id in session_ids for gone in delete_session(conn, session_id)]


def delete_conversation(conn: Connection, session_id: str) -> list[Deleted]:
    """Delete every session of the conversation that this session belongs to."""
    return delete_sessions(conn, get_compression_lineage(conn, session_id))


def delete_session_if_empty(conn: Connection, session_id: str) -> list[Deleted]:
    """Delete the session if it has neither messages nor a title nor children."""
    empty = value(
        conn,
        "SELECT 1 FROM sessions s WHERE id = ? AND title IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)"
        " AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = s.id)",
        (session_id,),
    )
    return delete_session(conn, session_id) if empty else []


_EMPTY = (
    "ended_at IS NOT NULL AND archived = 0"
    " AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)"
)


def count_empty_sessions(conn: Connection) -> int:
    """How many ended sessions, not archived, have no message."""
    return int(value(conn, f"SELECT COUNT(*) FROM sessions s WHERE {_EMPTY}"))


def delete_empty_sessions(conn: Connection) -> list[Deleted]:
    """Delete ended sessions, not archived, that have no message."""
    empty = column(conn, f"SELECT id FROM sessions s WHERE {_EMPTY}")
    return delete_sessions(conn, empty)


def prune_empty_ghost_sessions(conn: Connection) -> list[Deleted]:
    """Delete terminal sessions older than a day that have neither a message nor a title."""
    ghosts = column(
        conn,
        "SELECT id FROM sessions s WHERE source = 'tui' AND title IS NULL AND started_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)"
        " AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = s.id)",
        (conn.now() - GHOST_AGE,),
    )
    return delete_sessions(conn, ghosts)


def finalize_orphaned_compression_sessions(conn: Connection) -> int:
    """End continuations that were never used and never ended; returns how many.

    That is: older than a week, the parent ended by compression, messages but no model call, no
    end. Nothing is deleted.
    """
    conn.execute(
        "UPDATE sessions SET ended_at = ?, end_reason = 'orphaned_compression',"
        " version = version + 1"
        " WHERE ended_at IS NULL AND started_at < ? AND COALESCE(api_call_count, 0) = 0"
        " AND EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id)"
        " AND EXISTS (SELECT 1 FROM sessions p WHERE p.id = sessions.parent_session_id"
        "  AND p.end_reason = 'compression')",
        (conn.now(), conn.now() - ORPHAN_AGE),
    )
    return conn.changes()


_NUMBER_FILTERS = {
    "min_messages": "s.message_count >= ?",
    "max_messages": "s.message_count <= ?",
    "min_tokens": "COALESCE(s.input_tokens, 0) + COALESCE(s.output_tokens, 0) >= ?",
    "max_tokens": "COALESCE(s.input_tokens, 0) + COALESCE(s.output_tokens, 0) <= ?",
    "min_cost": "COALESCE(s.actual_cost_usd, s.estimated_cost_usd, 0) >= ?",
    "max_cost": "COALESCE(s.actual_cost_usd, s.estimated_cost_usd, 0) <= ?",
    "min_tool_calls": "s.tool_call_count >= ?",
    "max_tool_calls": "s.tool_call_count <= ?",
    "started_before": "s.started_at < ?",
    "started_after": "s.started_at >= ?",
}
_EXACT_FILTERS = {
    "end_reason": "s.end_reason = ?",
    "provider": "lower(s.billing_provider) = lower(?)",
    "user_id": "s.user_id = ?",
    "chat_id": "s.chat_id = ?",
    "chat_type": "s.chat_type = ?",
}
_SUBSTRING_FILTERS = {
    "title_like": "lower(s.title) LIKE lower(?) ESCAPE '\\'",
    "model_like": "lower(s.model) LIKE lower(?) ESCAPE '\\'",
    "branch_like": "lower(s.git_branch) LIKE lower(?) ESCAPE '\\'",
}


def _candidates_where(
    conn: Connection, older_than_days: float | None, source: str | None, filters: dict[str, Any]
) -> tuple[str, list[Any]]:
    where = [
        "s.ended_at IS NOT NULL",
        "NOT EXISTS (SELECT 1 FROM sessions o WHERE o.conversation_id = s.conversation_id"
        " AND o.ended_at IS NULL)",
    ]
    values: list[Any] = []
    if older_than_days is not None and filters.get("started_before") is None:
        # Old means not used since, not begun before: a conversation is kept or let go as a whole.
        where.append(
            "NOT EXISTS (SELECT 1 FROM sessions o WHERE o.conversation_id = s.conversation_id"
            " AND (o.started_at > ? OR o.last_active > ? OR o.ended_at > ?))"
        )
        values += [conn.now() - older_than_days * DAY] * 3
    if source:
        where.append("s.source = ?")
        values.append(source)
    for name, given in filters.items():
        if given is None:
            continue
        if name in _NUMBER_FILTERS:
            where.append(_NUMBER_FILTERS[name])
            values.append(float(given))
        elif name in _EXACT_FILTERS:
            where.append(_EXACT_FILTERS[name])
            values.append(str(given))
        elif name in _SUBSTRING_FILTERS:
            where.append(_SUBSTRING_FILTERS[name])
            values.append(like(str(given)))
        elif name == "archived":
            where.append("s.archived = ?")
            values.append(int(bool(given)))
        elif name == "cwd_prefix":
            prefix = str(given).rstrip("/") + "/"
            where.append("(s.cwd = ? OR substr(s.cwd, 1, CAST(? AS INTEGER)) = ?)")
            values += [str(given).rstrip("/") or "/", len(prefix), prefix]
        else:
            raise TypeError(f"there is no filter {name!r} for sessions")
    return " AND ".join(where), values


def list_prune_candidates(
    conn: Connection,
    older_than_days: float | None = None,
    source: str | None = None,
    **filters: Any,
) -> list[dict[str, Any]]:
    """What `prune_sessions` or `archive_sessions` would touch with these filters, oldest first."""
    where, values = _candidates_where(conn, older_than_days, source, filters)
    return rows(
        conn,
        "SELECT id, source, title, model, started_at, ended_at, message_count, archived"
        f" FROM sessions s WHERE {where} ORDER BY started_at, id",
        values,
    )


def archive_sessions(
    conn: Connection,
    older_than_days: float | None = None,
    source: str | None = None,
    **filters: Any,
) -> int:
    """Archive the conversations of matching sessions; returns how many sessions matched."""
    sessions = list_prune_candidates(
        conn, older_than_days, source, **{"archived": False, **filters}
    )
    for session in sessions:
        set_session_archived(conn, session["id"], True)
    return len(sessions)


def prune_sessions(
    conn: Connection,
    older_than_days: float | None = 90,
    source: str | None = None,
    **filters: Any,
) -> list[Deleted]:
    """Delete matching ended sessions; returns what went."""
    sessions = list_prune_candidates(conn, older_than_days, source, **filters)
    return delete_sessions(conn, [session["id"] for session in sessions])


def remove_transcript_files(sessions_dir: Path | None, session_ids: Iterable[str]) -> None:
    """Remove the files that older versions kept beside the database for these sessions."""
    if sessions_dir is None:
        return
    folder = Path(sessions_dir)
    for session_id in session_ids:
        if "/" in session_id or "\\" in session_id or session_id.startswith("."):
            continue  # an id that is a path must not reach outside the folder
        for path in (
            folder / f"{session_id}.json",
            folder / f"{session_id}.jsonl",
            # With what follows the id, so that "s1" does not take the files of "s10".
            *folder.glob(f"request_dump_{glob.escape(session_id)}[._]*"),
        ):
            # Left-overs; the session itself is gone. An id with a NUL byte cannot have had any.
            with contextlib.suppress(OSError, ValueError):
                path.unlink()
