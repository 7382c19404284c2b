"""Token and cost counters, on the session and per model."""

from __future__ import annotations

from typing import Any

from .codec import encode_text
from .dialect import Connection
from .errors import InvalidMessageError
from .model_calls import TOKENS as _TOKENS
from .model_calls import ModelCall, insert_call

_COUNTS = (*_TOKENS, "api_call_count")

UNKNOWN_MODEL = "unknown"


def _known(*counts: int | None) -> tuple[int, ...]:
    """Counts as numbers: what a provider does not report is nothing."""
    for count in counts:
        if count is not None and not isinstance(count, int):
            raise InvalidMessageError(f"A count must be a whole number, not {count!r:.100}")
    return tuple(count or 0 for count in counts)


def update_token_counts(
    conn: Connection,
    session_id: str,
    input_tokens: int = 0,
    output_tokens: int = 0,
    model: str | None = None,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    reasoning_tokens: int = 0,
    estimated_cost_usd: float | None = None,
    actual_cost_usd: float | None = None,
    cost_status: str | None = None,
    cost_source: str | None = None,
    pricing_version: str | None = None,
    billing_provider: str | None = None,
    billing_base_url: str | None = None,
    billing_mode: str | None = None,
    api_call_count: int = 0,
    absolute: bool = False,
) -> None:
    """Add usage to the session and to its row per model; with `absolute`, set the session's totals.

    In absolute mode the row per model gets the difference to what the session had, so that both
    always tell the same story.
    """
    counts = _known(
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
        api_call_count,
    )  # fmt: skip
    costs = {"estimated_cost_usd": estimated_cost_usd, "actual_cost_usd": actual_cost_usd}
    before = conn.execute(
        f"SELECT model, billing_provider, billing_base_url, billing_mode, {', '.join(_COUNTS)},"
        " COALESCE(estimated_cost_usd, 0), COALESCE(actual_cost_usd, 0)"
        " FROM sessions WHERE id = ?",
        (session_id,),
    ).fetchone()
    if before is None:
        return
    known_model, known_provider, known_url, known_mode, *totals = before
    delta: list[Any] = [*counts, *(cost or 0.0 for cost in costs.values())]
    if absolute:
        given = [*counts, *costs.values()]
        delta = [
            new - (old or 0) if new is not None else 0.0
            for new, old in zip(given, totals, strict=True)
        ]
    add, put, keep = "{0} = COALESCE({0}, 0) + ?", "{0} = ?", "{0} = COALESCE({0}, ?)"
    changes: list[tuple[str, str, Any]] = [
        *((add, name, count) for name, count in zip(_COUNTS, delta, strict=False)),
        *((put if absolute else add, name, cost) for name, cost in costs.items()),
        (put, "cost_status", encode_text(cost_status, "cost_status")),
        (put, "cost_source", encode_text(cost_source, "cost_source")),
        (put, "pricing_version", encode_text(pricing_version, "pricing_version")),
        (keep, "model", encode_text(model, "model")),
        (keep, "billing_provider", encode_text(billing_provider, "billing_provider")),
        (keep, "billing_base_url", encode_text(billing_base_url, "billing_base_url")),
        (keep, "billing_mode", encode_text(billing_mode, "billing_mode")),
    ]
    changes = [change for change in changes if change[2] is not None]
    conn.execute(
        f"UPDATE sessions SET {', '.join(how.format(name) for how, name, _ in changes)},"
        " version = version + 1 WHERE id = ?",
        (*(value for *_, value in changes), session_id),
    )
    if any(delta):
        _add_model_usage(
            conn,
            session_id,
            model or known_model or UNKNOWN_MODEL,
            billing_provider or known_provider,
            billing_base_url or known_url,
            billing_mode or known_mode,
            "",
            delta,
            cost_status,
            cost_source,
        )


def record_auxiliary_usage(
    conn: Connection,
    session_id: str,
    task: str,
    *,
    model: str | None = None,
    billing_provider: str | None = None,
    billing_base_url: str | None = None,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    reasoning_tokens: int = 0,
    estimated_cost_usd: float | None = None,
    call: ModelCall | None = None,
) -> None:
    """Count a side call (title, review, …) per model and task, not in the session's totals.

    The session's row stays as it is, its version too: a side call changes nothing that a holder of
    the conversation has in memory. `call` is stored with it.
    """
    if conn.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is None:
        return
    tokens = _known(
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens
    )
    _add_model_usage(
        conn,
        session_id,
        model or UNKNOWN_MODEL,
        billing_provider,
        billing_base_url,
        None,
        task,
        [*tokens, 1, estimated_cost_usd or 0.0, 0.0],
        None,
        None,
    )
    if call is not None:
        insert_call(conn, session_id, call)


def _add_model_usage(
    conn: Connection,
    session_id: str,
    model: str,
    provider: str | None,
    base_url: str | None,
    mode: str | None,
    task: str,
    delta: list[Any],
    cost_status: str | None,
    cost_source: str | None,
) -> None:
    now = conn.now()
    names = (*_COUNTS, "estimated_cost_usd", "actual_cost_usd")
    added = ", ".join(f"{name} = session_model_usage.{name} + excluded.{name}" for name in names)
    conn.execute(
        "INSERT INTO session_model_usage (session_id, model, billing_provider, billing_base_url,"
        f" billing_mode, task, {', '.join(names)}, cost_status, cost_source, first_seen, last_seen)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (session_id, model, billing_provider, billing_base_url, billing_mode, task)"
        f" DO UPDATE SET {added}, cost_status = COALESCE(excluded.cost_status,"
        " session_model_usage.cost_status),"
        " cost_source = COALESCE(excluded.cost_source, session_model_usage.cost_source),"
        " last_seen = excluded.last_seen",
        (
            session_id,
            encode_text(model, "model"),
            encode_text(provider, "billing_provider") or "",
            encode_text(base_url, "billing_base_url") or "",
            encode_text(mode, "billing_mode") or "",
            encode_text(task, "task") or "",
            *delta,
            encode_text(cost_status, "cost_status"),
            encode_text(cost_source, "cost_source"),
            now,
            now,
        ),
    )
