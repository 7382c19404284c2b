"""Background work of sub-agents: begun once, ended once, delivered once.

A row is inserted before the work begins and settled when it ends. Its result reaches the
conversation as a message, written in the same transaction that marks it as delivered. Work that was
abandoned, because its process is gone, is "lost" and delivered like any other result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes_base.process import this_process

from .codec import decode_json, encode_json, encode_text
from .dialect import Connection, at_most, column, rows, tuples, value

RUNNING = "running"
ENDED = ("completed", "failed", "interrupted")
LOST = "lost"

NOTE = "background_result"
"""`finish_reason` of a message that tells of an outcome: no person wrote it."""

MARK = "[Background result "
"""How such a message begins."""

_STORY = {
    "completed": "completed",
    "failed": "failed",
    "interrupted": "stopped before it was done",
    LOST: "outcome unknown",
}


def create_delegation(
    conn: Connection,
    delegation_id: str,
    session_id: str,
    task: Mapping[str, Any],
    *,
    owner_pid: int | None = None,
    owner_started_at: int | None = None,
    ui_session_id: str = "",
) -> None:
    """Insert a row for work that begins for a session; `task` holds its `goals` and `sessions`."""
    now = conn.now()
    conn.execute(
        "INSERT INTO async_delegations (delegation_id, origin_session, origin_ui_session_id,"
        " parent_session_id, state, dispatched_at, updated_at, owner_pid, owner_started_at,"
        " task_json, owner) VALUES (?1, ?2, ?3, ?2, 'running', ?4, ?4, ?5, ?6, ?7, ?8)"
        " ON CONFLICT DO NOTHING",
        (
            encode_text(delegation_id, "delegation_id"),
            encode_text(session_id, "session_id"),
            encode_text(ui_session_id, "ui_session_id"),
            now,
            owner_pid,
            owner_started_at,
            encode_json(dict(task), "task"),
            this_process(),
        ),
    )
    if not conn.changes():
        raise ValueError(f"There is a delegation {delegation_id!r} already.")


def finish_delegation(conn: Connection, delegation_id: str, state: str, report: str) -> bool:
    """Settle work with its report; False if it is unknown or was settled before.

    Work that was marked as lost and ends after all is delivered again, with its real result.
    """
    if state not in ENDED:
        raise ValueError(f"state must be one of {', '.join(ENDED)}, not {state!r}")
    conn.execute(
        "UPDATE async_delegations SET state = ?1, result_json = ?2, completed_at = ?3,"
        " updated_at = ?3, delivery_state = 'pending', delivered_at = NULL"
        " WHERE delegation_id = ?4 AND state IN ('running', 'lost')",
        (state, encode_json({"report": report}, "report"), conn.now(), delegation_id),
    )
    return conn.changes() > 0


def lose_delegation(conn: Connection, delegation_id: str) -> bool:
    """Mark abandoned work as lost; False if it is not running."""
    conn.execute(
        "UPDATE async_delegations SET state = 'lost', completed_at = ?1, updated_at = ?1"
        " WHERE delegation_id = ?2 AND state = 'running'",
        (conn.now(), delegation_id),
    )
    return conn.changes() > 0


def list_delegations(
    conn: Connection, session_id: str, state: str | None = None, limit: int = 20
) -> list[dict[str, Any]]:
    """The background work of a session's whole conversation, newest first."""
    # Every turn asks for what runs: with its delivery state the index answers that.
    pending = "d.delivery_state = 'pending' AND " if state == RUNNING else ""
    delegations = rows(
        conn,
        f"SELECT d.* FROM async_delegations d WHERE {pending}{_OF_CONVERSATION}"
        " AND (CAST(?2 AS TEXT) IS NULL OR d.state = ?2)"
        " ORDER BY d.dispatched_at DESC, d.rowid DESC LIMIT ?3",
        (session_id, state, at_most(limit)),
    )
    return [_decoded(delegation) for delegation in delegations]


# A conversation that has no row yet is known by its session's id alone.
_OF_CONVERSATION = (
    "(d.parent_session_id = ?1 OR d.parent_session_id IN (SELECT o.id FROM sessions o"
    " JOIN sessions s ON s.conversation_id = o.conversation_id WHERE s.id = ?1))"
)


def list_running(conn: Connection) -> list[dict[str, Any]]:
    """The background work of every conversation that has not ended, oldest first."""
    running = rows(
        conn,
        "SELECT * FROM async_delegations WHERE delivery_state = 'pending' AND state = 'running'"
        " AND completed_at IS NULL ORDER BY dispatched_at, rowid",
    )
    return [_decoded(delegation) for delegation in running]


# Work that was stopped on purpose begins no turn of its own.
_WAKING = "delivery_state = 'pending' AND completed_at IS NOT NULL AND state <> 'interrupted'"


def has_results(conn: Connection, session_id: str) -> bool:
    """Whether results of a conversation's background work wait to be delivered."""
    sql = f"SELECT 1 FROM async_delegations d WHERE {_WAKING} AND {_OF_CONVERSATION}"
    return bool(value(conn, f"SELECT EXISTS ({sql})", (session_id,)))


def result_owners(conn: Connection, session_id: str) -> list[str | None]:
    """For whom the work was done whose results wait in a conversation."""
    sql = f"SELECT d.task_json FROM async_delegations d WHERE {_WAKING} AND {_OF_CONVERSATION}"
    tasks = column(conn, sql, (session_id,))
    names = [name for task in tasks for name in (decode_json(task) or {}).get("sessions") or ()]
    return [
        value(conn, "SELECT user_id FROM sessions WHERE id = ?", (str(name),)) for name in names
    ]


def sessions_with_results(conn: Connection, oldest: float) -> list[str]:
    """The sessions whose conversations have such results, of work that ended after `oldest`."""
    sql = f"SELECT DISTINCT parent_session_id FROM async_delegations WHERE {_WAKING}"
    sessions = tuples(conn, f"{sql} AND completed_at > ?", (oldest,))
    return [str(session_id) for (session_id,) in sessions if session_id is not None]


def take_results(conn: Connection, session_id: str) -> list[dict[str, Any]]:
    """Take the messages for ended work of a conversation, each exactly once.

    To be stored by the caller in the same transaction.
    """
    delegations = rows(
        conn,
        "SELECT d.* FROM async_delegations d WHERE d.delivery_state = 'pending'"
        f" AND d.completed_at IS NOT NULL AND {_OF_CONVERSATION}"
        " ORDER BY d.completed_at, d.rowid",
        (session_id,),
    )
    now = conn.now()
    messages: list[dict[str, Any]] = []
    for delegation in delegations:
        conn.execute(
            "UPDATE async_delegations SET delivery_state = 'delivered', delivered_at = ?1,"
            " updated_at = ?1, delivery_attempts = delivery_attempts + 1 WHERE delegation_id = ?2"
            " AND delivery_state = 'pending'",
            (now, delegation["delegation_id"]),
        )
        if conn.changes():
            note = note_of(_decoded(delegation))
            messages.append({"role": "user", "content": note, "finish_reason": NOTE})
    return messages


def note_of(delegation: Mapping[str, Any]) -> str:
    """The message for work that has ended."""
    state = delegation["state"]
    goals = "; ".join(delegation["goals"]) or "no goal is known"
    report = delegation["report"]
    if state == LOST:
        sessions = ", ".join(delegation["sessions"])
        where = f" What it had done until then is in session {sessions}." if sessions else ""
        report = (
            "The program ended while this was running. It may or may not have taken effect; check "
            f"before doing it again.{where}"
        )
    head = f"{MARK}{delegation['delegation_id']}, {_STORY.get(state, state)}]"
    return f"{head}\nTask: {goals}\n\n{report}\n[end of the background result]"


def is_note(content: Any) -> bool:
    """Whether a user-role message tells of background work, and is nothing the person wrote."""
    return isinstance(content, str) and content.startswith(MARK)


def _decoded(delegation: dict[str, Any]) -> dict[str, Any]:
    task = decode_json(delegation.pop("task_json"))
    result = decode_json(delegation.pop("result_json"))
    task = task if isinstance(task, dict) else {}
    delegation["goals"] = [str(goal) for goal in task.get("goals") or ()]
    delegation["sessions"] = [str(session_id) for session_id in task.get("sessions") or ()]
    delegation["machine"] = task.get("machine")
    report = result.get("report") if isinstance(result, dict) else None
    # Rows that an older file brings along have another shape: better shown raw than not at all.
    delegation["report"] = str(report if report is not None else result or "")
    return delegation
