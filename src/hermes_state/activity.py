"""Statistics of the store: per day and hour, and in total. Read-only."""

from __future__ import annotations

import time
from typing import Any

from .dialect import Connection, row, rows, tuples, value

QUARTER = 900
"""Seconds for which one sum is made: the clocks of all time zones differ by whole quarters."""


def activity_since(
    conn: Connection, since: float, source: str | None = None
) -> dict[str, dict[Any, Any]]:
    """What happened since then: `days`, `hours` (0–23), `weekdays` (0 is Sunday) and `tools`.

    `days` maps a date to messages, tokens and cost; a session's tokens and cost count for the day
    on which the model was last used in it. What was carried over is counted once.
    """
    given = (since, source)
    said = (
        " FROM messages m JOIN sessions s ON s.id = m.session_id WHERE m.timestamp >= ?1"
        " AND m.origin_id IS NULL AND (CAST(?2 AS TEXT) IS NULL OR s.source = ?2)"
    )
    days: dict[str, dict[str, Any]] = {}
    hours: dict[int, int] = {}
    weekdays: dict[int, int] = {}
    for quarter, talked, asked in tuples(
        conn,
        f"SELECT FLOOR(m.timestamp / {QUARTER}.0) AS quarter,"
        " COUNT(*) FILTER (WHERE m.role IN ('user', 'assistant')),"
        f" COUNT(*) FILTER (WHERE m.role = 'user'){said} GROUP BY quarter",
        given,
    ):
        at = _local(quarter)
        _day(days, at)["messages"] += talked
        if asked:
            hours[at.tm_hour] = hours.get(at.tm_hour, 0) + asked
            weekday = (at.tm_wday + 1) % 7
            weekdays[weekday] = weekdays.get(weekday, 0) + asked
    for quarter, tokens, cost in tuples(
        conn,
        f"SELECT FLOOR(u.last_seen / {QUARTER}.0) AS quarter,"
        " SUM(u.input_tokens + u.output_tokens),"
        " SUM(COALESCE(NULLIF(u.actual_cost_usd, 0), u.estimated_cost_usd))"
        " FROM session_model_usage u JOIN sessions s ON s.id = u.session_id"
        " WHERE u.last_seen >= ?1 AND (CAST(?2 AS TEXT) IS NULL OR s.source = ?2)"
        " GROUP BY quarter",
        given,
    ):
        day = _day(days, _local(quarter))
        day["tokens"] += tokens
        day["cost_usd"] += cost
    return {
        "days": dict(sorted(days.items())),
        "hours": dict(sorted(hours.items())),
        "weekdays": dict(sorted(weekdays.items())),
        "tools": dict(
            tuples(
                conn,
                f"SELECT COALESCE(m.tool_name, '?') AS name, COUNT(*) AS uses{said}"
                " AND m.role = 'tool' GROUP BY name ORDER BY uses DESC, name LIMIT 20",
                given,
            )
        ),
    }


def _local(quarter: float) -> time.struct_time:
    """The beginning of a quarter where the person is, not in Greenwich."""
    try:
        return time.localtime(quarter * QUARTER)
    except (OverflowError, OSError, ValueError):  # an import may bring any time: the last known one
        return time.localtime(253_402_214_400)


def _day(days: dict[str, dict[str, Any]], at: time.struct_time) -> dict[str, Any]:
    none: dict[str, Any] = {"messages": 0, "tokens": 0, "cost_usd": 0.0}
    return days.setdefault(time.strftime("%Y-%m-%d", at), none)


def store_stats(conn: Connection) -> dict[str, Any]:
    """The whole store in numbers: conversations, sessions, messages, tokens, cost, size."""
    totals = row(
        conn,
        "SELECT COUNT(*) AS sessions, COUNT(DISTINCT conversation_id) AS conversations,"
        " COALESCE(SUM(archived), 0) AS archived, COUNT(*) FILTER (WHERE ended_at IS NULL) AS open,"
        " COALESCE(SUM(input_tokens), 0) AS input_tokens,"
        " COALESCE(SUM(output_tokens), 0) AS output_tokens,"
        " COALESCE(SUM(COALESCE(actual_cost_usd, estimated_cost_usd)), 0) AS cost_usd,"
        " MIN(started_at) AS first_at, MAX(COALESCE(last_active, started_at)) AS last_at"
        " FROM sessions",
    )
    return {
        **(totals or {}),
        "messages": int(value(conn, "SELECT COUNT(*) FROM messages")),
        "sources": rows(
            conn,
            "SELECT source, COUNT(*) AS sessions, SUM(message_count) AS messages FROM sessions"
            " GROUP BY source ORDER BY sessions DESC, source",
        ),
        "bytes": conn.size(),
        "unused_bytes": conn.unused_size(),
    }
