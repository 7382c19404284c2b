"""What model calls took and cost: per day, per model and per owner.

Calls count on the day on which they were made. What a session used beyond its calls has no row of
its own: it is from before there was one per call, or a script counted it. That counts as it always
did, on the day on which the session last used the model, but not later than the day on which the
store began to keep calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .dialect import Connection, rows, tuples, value
from .model_calls import COMPLETE, RESERVED
from .owners import asked_owner, owned

CALLS_SINCE = "model_calls_since"
"""In `state_meta`: when the store began to keep a row per call."""
QUARTER = 900
"""Seconds for which one sum is made: the clocks of all time zones differ by whole quarters."""


class Spent(NamedTuple):
    """What one owner has used of one model in a quarter of an hour."""

    quarter: float
    model: str
    user_id: str | None
    api_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced: int
    """Calls whose price is not known."""


def note_first_call_time(conn: Connection) -> None:
    """The store keeps calls from now on, unless it did so before."""
    conn.execute(
        "INSERT INTO state_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING",
        (CALLS_SINCE, repr(conn.now())),
    )


class Spending(NamedTuple):
    """What was used in a stretch of time."""

    parts: list[Spent]
    exact_since: float | None
    """When the store began to keep calls, if some of it has no row; what is older is not exact."""


def list_spent(
    conn: Connection, since: float, user_id: str | None = None, source: str | None = None
) -> Spending:
    """What was used since then, by one person and in one place if they are given."""
    kept_since = value(conn, "SELECT value FROM state_meta WHERE key = ?", (CALLS_SINCE,))
    exact_since = float(kept_since) if kept_since else conn.now()
    owner = asked_owner(user_id)
    condition, values = owned("c.user_id", owner)
    calls = tuples(conn, _CALLS.format(own=condition.replace("?", "?3")), (since, source, *values))
    condition, _ = owned("s.user_id", owner)
    rest = tuples(
        conn, _REST.format(own=condition.replace("?", "?4")), (since, source, exact_since, *values)
    )
    parts = [Spent(*part) for part in (*calls, *rest)]
    return Spending(parts, exact_since if rest else None)


def list_spent_by_chat(
    conn: Connection, since: float, user_id: str | None = None, source: str | None = None
) -> list[dict[str, Any]]:
    """What was used in each chat since then, by its session key; the dearest first. What is older
    than the rows of calls is in none."""
    condition, values = owned("c.user_id", asked_owner(user_id))
    return rows(
        conn,
        "SELECT c.session_key, COUNT(*) AS api_calls, SUM(c.input_tokens) AS input_tokens,"
        " SUM(c.output_tokens) AS output_tokens, COALESCE(SUM(c.cost_usd), 0) AS cost_usd"
        f" FROM model_calls c WHERE c.made_at >= ?1 AND c.outcome <> '{RESERVED}'"
        " AND c.session_key IS NOT NULL AND (CAST(?2 AS TEXT) IS NULL OR c.source = ?2)"
        + condition.replace("?", "?3")
        + " GROUP BY c.session_key ORDER BY cost_usd DESC, api_calls DESC, c.session_key",
        (since, source, *values),
    )


def local_time(quarter: float) -> time.struct_time:
    """The beginning of a quarter where the person is, not in Greenwich."""
    try:
        return time.localtime(quarter * QUARTER)
    except (OverflowError, OSError, ValueError):  # an import may bring any time: the last known one
        return time.localtime(253_402_214_400)


def local_day(quarter: float) -> str:
    """Its date."""
    return time.strftime("%Y-%m-%d", local_time(quarter))


def sum_by(spent: list[Spent], key: Callable[[Spent], Any], name: str) -> list[dict[str, Any]]:
    """Sums by what `key` says of each, under that name; the most calls first."""
    sums: dict[Any, dict[str, Any]] = {}
    for part in spent:
        group = key(part)
        total = sums.setdefault(
            group,
            {name: group, "api_calls": 0, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0},
        )
        for field in ("api_calls", "input_tokens", "output_tokens", "cost_usd"):
            total[field] += getattr(part, field)
    return sorted(sums.values(), key=lambda total: (-total["api_calls"], str(total[name])))


_CALLS = (
    f"SELECT FLOOR(c.made_at / {QUARTER}.0) AS quarter, c.model, c.user_id, COUNT(*),"
    " SUM(c.input_tokens), SUM(c.output_tokens), COALESCE(SUM(c.cost_usd), 0),"
    " COUNT(*) FILTER (WHERE c.cost_usd IS NULL)"
    f" FROM model_calls c WHERE c.made_at >= ?1 AND c.outcome <> '{RESERVED}'"
    " AND (CAST(?2 AS TEXT) IS NULL OR c.source = ?2){own}"
    " GROUP BY quarter, c.model, c.user_id"
)

_SEEN = (
    "CASE WHEN MIN(COALESCE(u.first_seen, 0)) < ?3 AND MAX(u.last_seen) > ?3 THEN ?3"
    " ELSE MAX(u.last_seen) END"
)

# What is left of a session's use once its calls are taken away. A rounding error is not a use.
_REST = f"""
SELECT FLOOR(u.seen / {QUARTER}.0) AS quarter, u.model, u.user_id,
  SUM(u.calls - COALESCE(c.calls, 0)),
  SUM(u.input_tokens - COALESCE(c.input_tokens, 0)),
  SUM(u.output_tokens - COALESCE(c.output_tokens, 0)),
  SUM(u.cost_usd - COALESCE(c.cost_usd, 0)),
  0
FROM (
  SELECT u.session_id, u.model, s.user_id, {_SEEN} AS seen,
    SUM(u.api_call_count) AS calls, SUM(u.input_tokens) AS input_tokens,
    SUM(u.output_tokens) AS output_tokens,
    SUM(COALESCE(NULLIF(u.actual_cost_usd, 0), u.estimated_cost_usd)) AS cost_usd
  FROM session_model_usage u JOIN sessions s ON s.id = u.session_id
  WHERE (CAST(?2 AS TEXT) IS NULL OR s.source = ?2){{own}} GROUP BY u.session_id, u.model, s.user_id
  HAVING MAX(u.last_seen) >= ?1
) u LEFT JOIN (
  SELECT session_id, model, COUNT(*) AS calls, SUM(input_tokens) AS input_tokens,
    SUM(output_tokens) AS output_tokens, COALESCE(SUM(cost_usd), 0) AS cost_usd
  FROM model_calls WHERE session_id IS NOT NULL AND outcome = '{COMPLETE}'
  GROUP BY session_id, model
) c ON c.session_id = u.session_id AND c.model = u.model
WHERE u.seen >= ?1 AND (u.calls <> COALESCE(c.calls, 0)
  OR u.input_tokens <> COALESCE(c.input_tokens, 0)
  OR u.output_tokens <> COALESCE(c.output_tokens, 0)
  OR ABS(u.cost_usd - COALESCE(c.cost_usd, 0)) > 0.000000001)
GROUP BY quarter, u.model, u.user_id
"""
