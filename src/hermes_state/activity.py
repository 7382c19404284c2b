"""How much goes on in the store: per day and hour, and as a whole. For people, and read-only."""

from __future__ import annotations

from typing import Any

from .connection import Connection, row, rows, tuples, value

# A day is a day where the person is, not in Greenwich.
_DAY = "date({}, 'unixepoch', 'localtime')"


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
        " AND m.origin_id IS NULL AND (?2 IS NULL OR s.source = ?2)"
    )
    local = "m.timestamp, 'unixepoch', 'localtime'"
    days: dict[str, dict[str, Any]] = {
        day: {"messages": count, "tokens": 0, "cost_usd": 0.0}
        for day, count in tuples(
            conn,
            f"SELECT {_DAY.format('m.timestamp')} AS day, SUM(m.role IN ('user', 'assistant'))"
            f"{said} GROUP BY day",
            given,
        )
    }
    for day, tokens, cost in tuples(
        conn,
        f"SELECT {_DAY.format('u.last_seen')} AS day, SUM(u.input_tokens + u.output_tokens),"
        " SUM(COALESCE(NULLIF(u.actual_cost_usd, 0), u.estimated_cost_usd))"
        " FROM session_model_usage u JOIN sessions s ON s.id = u.session_id"
        " WHERE u.last_seen >= ?1 AND (?2 IS NULL OR s.source = ?2) GROUP BY day",
        given,
    ):
        days.setdefault(day, {"messages": 0, "tokens": 0, "cost_usd": 0.0})
        days[day] |= {"tokens": tokens, "cost_usd": cost}
    by_person = f"{said} AND m.role = 'user'"
    return {
        "days": dict(sorted(days.items())),
        "hours": dict(
            tuples(
                conn,
                f"SELECT CAST(strftime('%H', {local}) AS INTEGER) AS hour, COUNT(*){by_person}"
                " GROUP BY hour ORDER BY hour",
                given,
            )
        ),
        "weekdays": dict(
            tuples(
                conn,
                f"SELECT CAST(strftime('%w', {local}) AS INTEGER) AS day, COUNT(*){by_person}"
                " GROUP BY day ORDER BY day",
                given,
            )
        ),
        "tools": dict(
            tuples(
                conn,
                f"SELECT COALESCE(m.tool_name, '?') AS name, COUNT(*) AS uses{said}"
                " AND m.role = 'tool' GROUP BY name ORDER BY uses DESC, name LIMIT 20",
                given,
            )
        ),
    }


def store_stats(conn: Connection) -> dict[str, Any]:
    """The whole store in numbers: conversations, sessions, messages, tokens, cost, size."""
    totals = row(
        conn,
        "SELECT COUNT(*) AS sessions, COUNT(DISTINCT conversation_id) AS conversations,"
        " COALESCE(SUM(archived), 0) AS archived, COALESCE(SUM(ended_at IS NULL), 0) AS open,"
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
        "bytes": int(value(conn, "PRAGMA page_count")) * int(value(conn, "PRAGMA page_size")),
        "unused_bytes": int(value(conn, "PRAGMA freelist_count"))
        * int(value(conn, "PRAGMA page_size")),
    }
