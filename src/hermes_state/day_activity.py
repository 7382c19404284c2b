"""What is behind the sums of a day: its conversations; and how long tools took."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from .dialect import Connection, rows, tuples
from .model_calls import RESERVED
from .owners import asked_owner, owned

MOST = 200
TIMED = 5000
"""So many of the newest runs are looked at for how long tools took."""
_CALL_GROUPS = {"model": "c.model", "person": "COALESCE(c.user_id, '')", "source": "c.source"}
_SAID_GROUPS = {"person": "COALESCE(s.user_id, '')", "source": "s.source", "tool": "m.tool_name"}


def list_day(
    conn: Connection,
    day: str,
    by: str = "",
    group: str | None = None,
    user_id: str | None = None,
) -> list[dict[str, Any]]:
    """The conversations of a day (YYYY-MM-DD, where the server is), the dearest first.

    With `group`, what one model, person, source or tool (as `by` says) had to do with; with
    `user_id`, only one person's. ValueError for what is no day.
    """
    date = time.strptime(day, "%Y-%m-%d")
    begin, end = (
        time.mktime((date.tm_year, date.tm_mon, date.tm_mday + more, 0, 0, 0, 0, 0, -1))
        for more in (0, 1)
    )
    found: dict[str, dict[str, Any]] = {}
    if by != "tool" or group is None:
        for row in _calls(conn, begin, end, _CALL_GROUPS.get(by), group, user_id):
            found[row["id"]] = {**row, "messages": 0, "tools": 0}
    for row in _said(conn, begin, end, _SAID_GROUPS.get(by), group, user_id):
        if row["id"] in found:
            found[row["id"]] |= row
        elif by != "model" or group is None:
            found[row["id"]] = {"calls": 0, "tokens": 0, "cost_usd": 0.0, **row}
    order = sorted(found.values(), key=lambda row: (-row["cost_usd"], -row["messages"], row["id"]))
    return order[:MOST]


def _calls(
    conn: Connection, begin: float, end: float, column: str | None, group: str | None,
    user_id: str | None,
) -> list[dict[str, Any]]:  # fmt: skip
    condition, values = owned("c.user_id", asked_owner(user_id))
    wanted, given = (f" AND {column} = ?", (group,)) if column and group is not None else ("", ())
    return rows(
        conn,
        "SELECT c.conversation_id AS id, COUNT(*) AS calls,"
        " SUM(c.input_tokens + c.output_tokens) AS tokens, COALESCE(SUM(c.cost_usd), 0) AS cost_usd"
        " FROM model_calls c WHERE c.made_at >= ? AND c.made_at < ? AND c.outcome <> ?"
        f" AND c.conversation_id IS NOT NULL{wanted}{condition} GROUP BY c.conversation_id",
        (begin, end, RESERVED, *given, *values),
    )


def _said(
    conn: Connection, begin: float, end: float, column: str | None, group: str | None,
    user_id: str | None,
) -> list[dict[str, Any]]:  # fmt: skip
    condition, values = owned("s.user_id", asked_owner(user_id))
    wanted, given = (f" AND {column} = ?", (group,)) if column and group is not None else ("", ())
    return rows(
        conn,
        "SELECT COALESCE(s.conversation_id, s.id) AS id,"
        " COUNT(*) FILTER (WHERE m.role IN ('user', 'assistant')) AS messages,"
        " COUNT(*) FILTER (WHERE m.role = 'tool') AS tools"
        " FROM messages m JOIN sessions s ON s.id = m.session_id WHERE m.timestamp >= ?"
        f" AND m.timestamp < ? AND m.origin_id IS NULL{wanted}{condition}"
        " GROUP BY COALESCE(s.conversation_id, s.id)",
        (begin, end, *given, *values),
    )


def tool_times(
    conn: Connection, since: float, user_id: str | None = None
) -> dict[str, dict[str, Any]]:
    """By tool: the median of how long its newest runs took, and how many were lost in a crash.

    A run lasts from the reply that asked for it to its result; of several at once, each.
    """
    condition, values = owned("s.user_id", asked_owner(user_id))
    seconds: dict[str, list[float]] = {}
    unknown: dict[str, int] = {}
    for name, took, effect in tuples(
        conn,
        "SELECT m.tool_name, m.timestamp - (SELECT a.timestamp FROM messages a"
        " WHERE a.session_id = m.session_id AND a.id < m.id AND a.role = 'assistant'"
        " ORDER BY a.id DESC LIMIT 1), m.effect_disposition"
        " FROM messages m JOIN sessions s ON s.id = m.session_id WHERE m.role = 'tool'"
        f" AND m.timestamp >= ? AND m.origin_id IS NULL{condition} ORDER BY m.id DESC LIMIT ?",
        (since, *values, TIMED),
    ):
        tool = name or "?"
        unknown[tool] = unknown.get(tool, 0) + (effect == "unknown")
        if took is not None and effect != "unknown":
            seconds.setdefault(tool, []).append(max(0.0, took))
    return {
        tool: {"seconds": median(seconds[tool]) if tool in seconds else None, "unknown": lost}
        for tool, lost in unknown.items()
    }
