"""Statistics of the store: per day and hour, and in total. Read-only."""

from __future__ import annotations

from typing import Any

from .dialect import Connection, row, rows, tuples, value
from .owners import asked_owner, owned
from .spending import QUARTER, list_spent, local_day, local_time


def activity_since(
    conn: Connection, since: float, source: str | None = None
) -> dict[str, dict[Any, Any]]:
    """What happened since then: `days`, `hours` (0–23), `weekdays` (0 is Sunday) and `tools`.

    `days` maps a date to messages, tokens and cost; those of a model call count for the day on
    which it was made (for older ones see `spending`). What was carried over is counted once.
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
        at = local_time(quarter)
        _day(days, quarter)["messages"] += talked
        if asked:
            hours[at.tm_hour] = hours.get(at.tm_hour, 0) + asked
            weekday = (at.tm_wday + 1) % 7
            weekdays[weekday] = weekdays.get(weekday, 0) + asked
    for spent in list_spent(conn, since, source=source).parts:
        day = _day(days, spent.quarter)
        day["tokens"] += spent.input_tokens + spent.output_tokens
        day["cost_usd"] += spent.cost_usd
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


def activity_by(
    conn: Connection, since: float, by: str = "model", user_id: str | None = None
) -> dict[str, Any]:
    """What happened since then, for charts: tokens and cost per day and model (or person, or
    source), messages per day, tools, sources, and what people sent by weekday (0 is Sunday) and
    hour.

    `counted` has messages per day and person (or source), or uses per day and tool, if asked for
    by one of these. With `user_id`, only what is one person's.
    """
    condition, values = owned("s.user_id", asked_owner(user_id))
    said = (
        " FROM messages m JOIN sessions s ON s.id = m.session_id WHERE m.timestamp >= ?1"
        " AND m.origin_id IS NULL" + condition.replace("?", "?2")
    )
    given = (since, *values)
    messages: dict[str, int] = {}
    times: dict[tuple[int, int], int] = {}
    for quarter, talked, asked in tuples(
        conn,
        f"SELECT FLOOR(m.timestamp / {QUARTER}.0) AS quarter,"
        " COUNT(*) FILTER (WHERE m.role IN ('user', 'assistant')),"
        f" COUNT(*) FILTER (WHERE m.role = 'user'){said} GROUP BY quarter",
        given,
    ):
        at, day = local_time(quarter), local_day(quarter)
        messages[day] = messages.get(day, 0) + talked
        if asked:
            place = ((at.tm_wday + 1) % 7, at.tm_hour)
            times[place] = times.get(place, 0) + asked
    counts: dict[tuple[str, str], int] = {}
    if by in _COUNTED:
        group, roles = _COUNTED[by]
        for quarter, name, count in tuples(
            conn,
            f"SELECT FLOOR(m.timestamp / {QUARTER}.0) AS quarter, {group} AS name, COUNT(*){said}"
            f" AND m.role IN {roles} GROUP BY quarter, name",
            given,
        ):
            key = (local_day(quarter), str(name or ""))
            counts[key] = counts.get(key, 0) + count
    return {
        "messages": dict(sorted(messages.items())),
        "spent": _spent_by(conn, since, by, user_id),
        "counted": [
            {"day": day, "group": name, "count": count}
            for (day, name), count in sorted(counts.items())
        ],
        "times": [
            {"weekday": weekday, "hour": hour, "messages": count}
            for (weekday, hour), count in sorted(times.items())
        ],
        "tools": [
            {"name": name, "uses": uses}
            for name, uses in tuples(
                conn,
                f"SELECT COALESCE(m.tool_name, '?') AS name, COUNT(*) AS uses{said}"
                " AND m.role = 'tool' GROUP BY name ORDER BY uses DESC, name LIMIT 20",
                given,
            )
        ],
        "sources": [
            {"name": name, "messages": count}
            for name, count in tuples(
                conn,
                f"SELECT s.source AS name, COUNT(*) AS uses{said}"
                " AND m.role IN ('user', 'assistant') GROUP BY name ORDER BY uses DESC, name",
                given,
            )
        ],
    }


_COUNTED = {
    "person": ("COALESCE(s.user_id, '')", "('user', 'assistant')"),
    "source": ("s.source", "('user', 'assistant')"),
    "tool": ("COALESCE(m.tool_name, '?')", "('tool', 'tool')"),
}
"""What is counted by a group, and of which messages."""


def _spent_by(conn: Connection, since: float, by: str, user_id: str | None) -> list[dict[str, Any]]:
    """Tokens and cost per day and model, person or source; of tools it is not known."""
    if by == "source":
        named = [
            (str(name or ""), list_spent(conn, since, user_id, name).parts)
            for (name,) in tuples(
                conn,
                "SELECT source FROM model_calls WHERE made_at >= ?1 AND source IS NOT NULL"
                " UNION SELECT source FROM sessions",
                (since,),
            )
        ]
    else:
        named = [("", list_spent(conn, since, user_id).parts)]
    parts: dict[tuple[str, str], dict[str, Any]] = {}
    for source, all_spent in named:
        for spent in all_spent:
            group = {"source": source, "person": spent.user_id or ""}.get(by, spent.model)
            day = local_day(spent.quarter)
            none = {"day": day, "group": group, "calls": 0, "tokens": 0, "cost_usd": 0.0}
            part = parts.setdefault((day, group), none)
            part["calls"] += spent.api_calls
            part["tokens"] += spent.input_tokens + spent.output_tokens
            part["cost_usd"] += spent.cost_usd
    return [parts[key] for key in sorted(parts)]


def _day(days: dict[str, dict[str, Any]], quarter: float) -> dict[str, Any]:
    none: dict[str, Any] = {"messages": 0, "tokens": 0, "cost_usd": 0.0}
    return days.setdefault(local_day(quarter), none)


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
