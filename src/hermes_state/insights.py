"""What was used in a stretch of time, for people."""

from __future__ import annotations

from typing import Any

from .dialect import Connection, row, rows

_OWN = (
    "(CAST(?2 AS TEXT) IS NULL OR s.user_id = ?2) AND (CAST(?3 AS TEXT) IS NULL OR s.source = ?3)"
)


def usage_since(
    conn: Connection, since: float, user_id: str | None = None, source: str | None = None
) -> dict[str, Any]:
    """Conversations, messages and tool calls since then, and what each model was used for.

    `user_id` and `source` keep to one owner and one place. What sub-agents did counts too, unless
    `source` is given: theirs is "tool". A model counts with all of its use in a session that used
    it since then.
    """
    given = (since, user_id, source)
    totals = row(
        conn,
        "SELECT COUNT(DISTINCT CASE WHEN s.source <> 'tool' THEN s.conversation_id END)"
        " AS conversations, COUNT(m.id) AS messages,"
        " COUNT(*) FILTER (WHERE m.role = 'tool') AS tool_calls"
        " FROM sessions s JOIN messages m ON m.session_id = s.id AND m.timestamp >= ?1"
        f" AND m.origin_id IS NULL WHERE s.last_active >= ?1 AND {_OWN}",
        given,
    )
    models = rows(
        conn,
        "SELECT u.model AS model, SUM(u.api_call_count) AS api_calls,"
        " SUM(u.input_tokens) AS input_tokens, SUM(u.output_tokens) AS output_tokens,"
        " SUM(COALESCE(NULLIF(u.actual_cost_usd, 0), u.estimated_cost_usd)) AS cost_usd"
        " FROM session_model_usage u JOIN sessions s ON s.id = u.session_id"
        f" WHERE u.last_seen >= ?1 AND {_OWN} GROUP BY u.model ORDER BY api_calls DESC, u.model",
        given,
    )
    return {**(totals or {}), "models": models}
