"""Which tools of a running turn were started, and what is known of them.

A call is `started` here before its tool runs, in a commit that is made anyway: the one that stores
the reply that asks for it, or the result before it. It is `finished` with its result. What a crash
left `started` may have taken effect: a take-over answers it "outcome unknown" if running it again
could do harm, and lets it run again otherwise. The rows of a turn go with its end; unknown ones
stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .dialect import Connection, tuples
from .turns import Lease, note_progress

REPEATABLE = ("none", "idempotent")
"""Effects of tools that may be retried when their outcome is unknown."""


class Started(NamedTuple):
    """A tool that is about to run."""

    call_id: str
    name: str
    effect: str


def start_runs(conn: Connection, lease: Lease, runs: Iterable[Started]) -> None:
    """Insert rows for tools that are about to run."""
    now = conn.now()
    for call_id, name, effect in runs:
        conn.execute(
            "INSERT INTO tool_runs (conversation_id, fence, call_id, tool_name, effect, state,"
            " started_at) VALUES (?, ?, ?, ?, ?, 'started', ?)"
            " ON CONFLICT (conversation_id, fence, call_id) DO UPDATE SET finished_at = NULL,"
            " tool_name = excluded.tool_name, effect = excluded.effect, state = excluded.state,"
            " started_at = excluded.started_at",
            (*lease[:2], call_id, name, effect, now),
        )


def finish_runs(conn: Connection, lease: Lease, messages: Iterable[Mapping[str, Any]]) -> None:
    """Mark runs as finished, in the transaction that stores their results."""
    results = [message for message in messages if message["role"] == "tool"]
    for message in results:
        conn.execute(
            "UPDATE tool_runs SET state = 'finished', finished_at = ?"
            " WHERE conversation_id = ? AND fence = ? AND call_id = ?",
            (conn.now(), *lease[:2], message.get("tool_call_id")),
        )
    if results:
        note_progress(conn, lease)


def unfinished_runs(conn: Connection, conversation_id: str) -> dict[str, str]:
    """The effect of each call that was started and has no result."""
    runs = tuples(
        conn,
        "SELECT call_id, effect FROM tool_runs WHERE conversation_id = ? AND state = 'started'",
        (conversation_id,),
    )
    return {str(call_id): str(effect) for call_id, effect in runs}


def settle_runs(conn: Connection, conversation_id: str, unknown: Iterable[str]) -> None:
    """Of the started calls, those in `unknown` stay as such; the others are forgotten."""
    for call_id in unknown:
        conn.execute(
            "UPDATE tool_runs SET state = 'unknown', finished_at = ?"
            " WHERE conversation_id = ? AND call_id = ? AND state = 'started'",
            (conn.now(), conversation_id, call_id),
        )
    conn.execute(
        "DELETE FROM tool_runs WHERE conversation_id = ? AND state = 'started'",
        (conversation_id,),
    )


def list_tool_runs(conn: Connection, conversation_id: str) -> list[dict[str, Any]]:
    """What is known of the tools of a conversation's running turn, and every unknown outcome."""
    names = "fence, call_id, tool_name, effect, state, started_at, finished_at"
    runs = tuples(
        conn,
        f"SELECT {names} FROM tool_runs WHERE conversation_id = ? ORDER BY fence, started_at",
        (conversation_id,),
    )
    return [dict(zip(names.split(", "), run, strict=True)) for run in runs]
