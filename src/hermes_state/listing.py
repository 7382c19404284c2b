"""Lists of sessions for people: one row per conversation, shown as it is now.

A compressed conversation appears once, as its tip, with the start of its first session. Delegates
and other helpers are hidden unless asked for; branches are conversations of their own.
"""

from __future__ import annotations

from typing import Any

from .dialect import Connection, at_most, rows, value
from .owners import asked_owner, owned
from .views import preview

_IS_BRANCH = (
    "(json_valid(h.model_config) AND json_extract(h.model_config, '$._branched_from') IS NOT NULL)"
)
_IS_DELEGATE = (
    "(json_valid(h.model_config) AND json_extract(h.model_config, '$._delegate_from') IS NOT NULL)"
)
# The head of a conversation that people see. A child that is not marked as a branch is somebody's
# helper, unless it began after its parent ended for a branch (scripts and older versions set no
# mark), or its parent was compressed: then it is a fork that an older version left behind.
_VISIBLE_HEAD = (
    "h.continuation_of IS NULL AND (h.parent_session_id IS NULL OR "
    + _IS_BRANCH
    + " OR (NOT "
    + _IS_DELEGATE
    + " AND h.source <> 'tool' AND EXISTS (SELECT 1 FROM sessions p"
    " WHERE p.id = h.parent_session_id AND (p.end_reason = 'compression'"
    " OR (p.end_reason = 'branched' AND h.started_at >= p.ended_at)))))"
)
_TIP_OF_HEAD = (
    "sessions t ON t.conversation_id = h.conversation_id"
    " AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.continuation_of = t.id)"
)

# What follows a job's id in its sessions' ids. Without it, "job" would list the runs of "job_b".
_CRON_TIME = "[0-9]" * 8 + "_" + "[0-9]" * 6 + "*"


def like(text: str) -> str:
    """A LIKE pattern that finds `text` anywhere, for use with ESCAPE '\\'."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _under(folder: str) -> tuple[str, list[Any]]:
    folder = folder.rstrip("/") or "/"
    prefix = folder if folder == "/" else folder + "/"
    return "(t.cwd = ? OR substr(t.cwd, 1, CAST(? AS INTEGER)) = ?)", [folder, len(prefix), prefix]


def _filters(
    *,
    source: str | None,
    exclude_sources: list[str] | None,
    cwd_prefix: str | None,
    min_message_count: int,
    include_archived: bool,
    archived_only: bool,
    visible_only: bool,
) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    values: list[Any] = []
    if visible_only:
        where.append(_VISIBLE_HEAD)
    if source:
        where.append("h.source = ?")
        values.append(source)
    if exclude_sources:
        where.append(f"h.source NOT IN ({', '.join('?' * len(exclude_sources))})")
        values += exclude_sources
    if cwd_prefix:
        condition, folder_values = _under(cwd_prefix)
        where.append(condition)
        values += folder_values
    if min_message_count > 0:
        where.append("(h.message_count >= ? OR t.message_count >= ?)")
        values += [min_message_count] * 2
    if archived_only:
        where.append("t.archived = 1")
    elif not include_archived:
        where.append("t.archived = 0")
    return where, values


def list_sessions_rich(
    conn: Connection,
    source: str | None = None,
    exclude_sources: list[str] | None = None,
    cwd_prefix: str | None = None,
    limit: int = 20,
    offset: int = 0,
    include_children: bool = False,
    min_message_count: int = 0,
    project_compression_tips: bool = True,
    order_by_last_active: bool = False,
    include_archived: bool = False,
    archived_only: bool = False,
    id_query: str | None = None,
    search_query: str | None = None,
    compact_rows: bool = False,
    user_id: str | None = None,
) -> list[dict[str, Any]]:
    """Sessions, newest first, each with `last_active` and a `preview` of its first user message.

    A conversation that was compressed is shown as its tip with `_lineage_root_id`; with
    `project_compression_tips=False` as its first session; with `include_children` every session is
    a row of its own. `id_query` and `search_query` (title, name or id) match anywhere in the text.
    `user_id` keeps to one person; None is everybody. `compact_rows` leaves out the system prompt.
    """
    where, values = _filters(
        source=source,
        exclude_sources=exclude_sources,
        cwd_prefix=cwd_prefix,
        min_message_count=min_message_count,
        include_archived=include_archived,
        archived_only=archived_only,
        visible_only=not include_children,
    )
    condition, owner_values = owned("h.user_id", asked_owner(user_id))
    if condition:
        where.append(condition.removeprefix(" AND "))
        values += owner_values
    if id_query:
        where.append(
            "EXISTS (SELECT 1 FROM sessions i WHERE i.conversation_id = t.conversation_id"
            " AND lower(i.id) LIKE lower(?) ESCAPE '\\')"
        )
        values.append(like(id_query))
    if search_query:
        where.append(
            "(lower(t.title) LIKE lower(?) ESCAPE '\\' OR lower(h.title) LIKE lower(?) ESCAPE '\\'"
            " OR lower(t.display_name) LIKE lower(?) ESCAPE '\\'"
            " OR lower(t.id) LIKE lower(?) ESCAPE '\\')"
        )
        values += [like(search_query)] * 4
    project = project_compression_tips and not include_children
    join = _TIP_OF_HEAD if project else "sessions t ON t.id = h.id"
    order = "COALESCE(t.last_active, t.started_at)" if order_by_last_active else "h.started_at"
    sessions = rows(
        conn,
        "SELECT t.*, h.id AS _head, h.started_at AS _head_started, h.parent_session_id AS _parent,"
        " COALESCE((SELECT content FROM messages WHERE session_id = h.id AND role = 'user'"
        "   AND (active = 1 OR compacted = 1) ORDER BY id LIMIT 1),"
        "  (SELECT content FROM messages WHERE session_id = t.id AND role = 'user' AND active = 1"
        "   ORDER BY id LIMIT 1)) AS preview"
        f" FROM sessions h JOIN {join}"
        + (f" WHERE {' AND '.join(where)}" if where else "")
        + f" ORDER BY {order} DESC, h.id DESC LIMIT ? OFFSET ?",
        (*values, at_most(limit), offset),
    )
    for session in sessions:
        head, started, parent = (
            session.pop(name) for name in ("_head", "_head_started", "_parent")
        )
        if session["last_active"] is None:
            session["last_active"] = session["started_at"]
        if head != session["id"]:
            session |= {
                "started_at": started,
                "parent_session_id": parent,
                "_lineage_root_id": head,
            }
        session["preview"] = preview(session["preview"], 60)
        if compact_rows:
            del session["system_prompt"]
    return sessions


def session_count(
    conn: Connection,
    source: str | None = None,
    cwd_prefix: str | None = None,
    min_message_count: int = 0,
    include_archived: bool = False,
    archived_only: bool = False,
    exclude_children: bool = False,
    exclude_sources: list[str] | None = None,
) -> int:
    """How many sessions there are; with `exclude_children`, how many a list would show."""
    where, values = _filters(
        source=source,
        exclude_sources=exclude_sources,
        cwd_prefix=cwd_prefix,
        min_message_count=min_message_count,
        include_archived=include_archived,
        archived_only=archived_only,
        visible_only=exclude_children,
    )
    join = _TIP_OF_HEAD if exclude_children else "sessions t ON t.id = h.id"
    return int(
        value(
            conn,
            f"SELECT COUNT(*) FROM sessions h JOIN {join}"
            + (f" WHERE {' AND '.join(where)}" if where else ""),
            values,
        )
    )


def search_sessions_by_id(
    conn: Connection, query: str, limit: int = 20, include_archived: bool = True
) -> list[dict[str, Any]]:
    """Conversations with an id (of any of their sessions) that holds the text; exact ones first."""
    query = query.strip()
    if not query:
        return []
    sessions = list_sessions_rich(
        conn, id_query=query, limit=-1, include_archived=include_archived, order_by_last_active=True
    )

    def closeness(session: dict[str, Any]) -> int:
        ids = (session["id"], session.get("_lineage_root_id", session["id"]))
        if query in ids:
            return 0
        return 1 if any(session_id.startswith(query) for session_id in ids) else 2

    return sorted(sessions, key=closeness)[:limit]


def search_sessions(
    conn: Connection, source: str | None = None, limit: int = 20, offset: int = 0
) -> list[dict[str, Any]]:
    """Every session as a row of its own, most recently used first."""
    sessions = rows(
        conn,
        "SELECT * FROM sessions WHERE CAST(?1 AS TEXT) IS NULL OR source = ?1"
        " ORDER BY COALESCE(last_active, started_at) DESC, id DESC LIMIT ?2 OFFSET ?3",
        (source, at_most(limit), offset),
    )
    for session in sessions:
        if session["last_active"] is None:
            session["last_active"] = session["started_at"]
    return sessions


def distinct_session_cwds(conn: Connection, include_archived: bool = False) -> list[dict[str, Any]]:
    """Working directories with how many sessions they had and when last, newest first."""
    return rows(
        conn,
        "SELECT cwd, COUNT(*) AS sessions, MAX(COALESCE(last_active, started_at)) AS last_active"
        " FROM sessions WHERE cwd IS NOT NULL AND cwd <> '' AND archived <= ?"
        " GROUP BY cwd ORDER BY last_active DESC, cwd",
        (int(include_archived),),
    )


def list_cron_job_runs(
    conn: Connection, job_id: str, limit: int = 20, offset: int = 0
) -> list[dict[str, Any]]:
    """The sessions that a scheduled job produced, newest first."""
    prefix = f"cron_{job_id}_"
    sessions = rows(
        conn,
        "SELECT *, (SELECT content FROM messages WHERE session_id = sessions.id"
        "  AND role = 'user' ORDER BY id LIMIT 1) AS preview FROM sessions"
        " WHERE id >= ?1 AND id < ?2 AND glob(?3, substr(id, length(?1) + 1))"
        " ORDER BY started_at DESC, id DESC LIMIT ?4 OFFSET ?5",
        (prefix, prefix + "\U0010ffff", _CRON_TIME, at_most(limit), offset),
    )
    for session in sessions:
        session["preview"] = preview(session["preview"], 60)
        if session["last_active"] is None:
            session["last_active"] = session["started_at"]
    return sessions
