"""What was used in a stretch of time, for people."""

from __future__ import annotations

from typing import Any

from .dialect import Connection, row
from .owners import asked_owner, owned
from .spending import Spent, list_spent, list_spent_by_chat, local_day, sum_by


def usage_since(
    conn: Connection, since: float, user_id: str | None = None, source: str | None = None
) -> dict[str, Any]:
    """Conversations, messages and tool calls since then, and what was used: by model (`models`), by
    owner (`people`), by chat (`chats`) and by day where the person is (`per_day`).

    `user_id` and `source` keep to one person and one place; None is everybody, everywhere. What
    sub-agents did counts too, unless `source` is given: theirs is "tool". Model calls count when
    they were made; for what is older than the rows that say so see `spending`, and `exact_since`
    says when those begin, or None if nothing is older.
    """
    condition, owner_values = owned("s.user_id", asked_owner(user_id))
    own = "(CAST(?2 AS TEXT) IS NULL OR s.source = ?2)" + condition.replace("?", "?3")
    given = (since, source, *owner_values)
    totals = row(
        conn,
        "SELECT COUNT(DISTINCT CASE WHEN s.source <> 'tool' THEN s.conversation_id END)"
        " AS conversations, COUNT(m.id) AS messages,"
        " COUNT(*) FILTER (WHERE m.role = 'tool') AS tool_calls"
        " FROM sessions s JOIN messages m ON m.session_id = s.id AND m.timestamp >= ?1"
        f" AND m.origin_id IS NULL WHERE s.last_active >= ?1 AND {own}",
        given,
    )
    spent = list_spent(conn, since, user_id, source)
    return {
        **(totals or {}),
        "models": sum_by(spent.parts, lambda part: part.model, "model"),
        "people": sum_by(spent.parts, lambda part: part.user_id, "user_id"),
        "chats": list_spent_by_chat(conn, since, user_id, source),
        "per_day": sum_by_day(spent.parts),
        "exact_since": spent.exact_since,
    }


def sum_by_day(spent: list[Spent]) -> list[dict[str, Any]]:
    """Sums by day where the person is, the oldest first."""
    days = sum_by(spent, lambda part: local_day(part.quarter), "day")
    return sorted(days, key=lambda total: str(total["day"]))
