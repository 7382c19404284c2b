"""Invariants of turns and deliveries: valid leases, and every delivery settled.

On a live store turns run and answers are being sent; only what no process can be working on any
more is a finding.
"""

from __future__ import annotations

from typing import Any

from .dialect import Connection, column
from .take_over import close_abandoned_turn
from .turns import list_abandoned

HOUR = 3600.0
DAY = 24 * HOUR

UNSURE = "It is unknown whether it was shown: the process that sent it ended in the middle."


def impossible_leases(conn: Connection) -> list[str]:
    """Conversations whose turn or tool runs have an impossible state."""
    return column(
        conn,
        "SELECT conversation_id FROM turns t WHERE state NOT IN ('running', 'ended')"
        " OR fence < 1 OR attempts < 1 OR NOT EXISTS"
        " (SELECT 1 FROM sessions s WHERE s.conversation_id = t.conversation_id)"
        " UNION SELECT conversation_id FROM tool_runs r"
        " WHERE state NOT IN ('started', 'finished', 'unknown')"
        " OR (state <> 'unknown' AND NOT EXISTS (SELECT 1 FROM turns t"
        " WHERE t.conversation_id = r.conversation_id AND t.state = 'running'))"
        " OR fence > (SELECT fence FROM turns t WHERE t.conversation_id = r.conversation_id)",
    )


def fix_leases(conn: Connection, conversations: list[str]) -> None:
    """End such turns; their open history is closed by the next turn."""
    for conversation_id in conversations:
        conn.execute(
            "DELETE FROM turns WHERE conversation_id = ?1"
            " AND NOT EXISTS (SELECT 1 FROM sessions WHERE conversation_id = ?1)",
            (conversation_id,),
        )
        fences = column(
            conn,
            "SELECT fence FROM turns WHERE conversation_id = ?1"
            " UNION SELECT fence FROM tool_runs WHERE conversation_id = ?1",
            (conversation_id,),
        )
        conn.execute(
            "UPDATE turns SET state = 'ended', fence = ?2,"
            " attempts = CASE WHEN attempts < 1 THEN 1 ELSE attempts END"
            " WHERE conversation_id = ?1",
            (conversation_id, max([1, *fences])),
        )
        conn.execute(
            "DELETE FROM tool_runs WHERE conversation_id = ?1 AND (state <> 'unknown'"
            " OR NOT EXISTS (SELECT 1 FROM turns WHERE conversation_id = ?1))",
            (conversation_id,),
        )


def long_abandoned_turns(conn: Connection) -> list[str]:
    """Conversations whose turn was abandoned and not taken over for an hour."""
    return [str(turn["conversation_id"]) for turn in _forgotten(conn)]


def close_turns(conn: Connection, conversations: list[str]) -> None:
    """Close them in their history, visibly."""
    for turn in _forgotten(conn):
        close_abandoned_turn(conn, turn["conversation_id"], turn["fence"])


def _forgotten(conn: Connection) -> list[dict[str, Any]]:
    edge = conn.now() - HOUR
    return [turn for turn in list_abandoned(conn) if turn["started_at"] < edge]


def unsettled_deliveries(conn: Connection) -> list[str]:
    """Abandoned deliveries: no process can be sending them; neither sent nor reported."""
    return column(
        conn,
        "SELECT obligation_id FROM delivery_obligations"
        " WHERE (state = 'sending' AND updated_at < ?) OR state NOT IN"
        " ('pending', 'sending', 'delivered', 'failed') ORDER BY rowid",
        (conn.now() - HOUR,),
    )


def report_deliveries(conn: Connection, deliveries: list[str]) -> None:
    """Mark them as failed, with the reason: sending them again might show them twice."""
    conn.executemany(
        "UPDATE delivery_obligations SET state = 'failed', last_error = ?, updated_at = ?"
        " WHERE obligation_id = ?",
        [(UNSURE, conn.now(), delivery_id) for delivery_id in deliveries],
    )


def late_deliveries(conn: Connection) -> list[str]:
    """Answers that have been waiting for more than a day."""
    return column(
        conn,
        "SELECT obligation_id FROM delivery_obligations WHERE state = 'pending' AND created_at < ?"
        " ORDER BY rowid",
        (conn.now() - DAY,),
    )
