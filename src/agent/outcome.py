"""What a turn came to, as front ends get it, and what its calls cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_state import AlreadyTakenError, LeaseLostError

from .errors import ContextTooLongError

if TYPE_CHECKING:
    from .loop import Turn
    from .model import Model, Usage


def outcome(turn: Turn, broken: Exception | None) -> dict[str, Any]:
    """The result of a turn; `broken` is what kept it from coming to its own end."""
    messages = turn.journal.messages
    final = turn.final_response
    if turn.exhausted and messages:
        final = messages[-1]["content"]
    return {
        "final_response": final,
        "messages": list(messages),
        "api_calls": turn.api_calls,
        "session_id": turn.journal.session_id,
        "completed": final is not None and not turn.exhausted,
        "partial": turn.exhausted or (final is not None and turn.reply.finish_reason == "length"),
        "failed": broken is not None or turn.error is not None,
        "interrupted": turn.interrupted,
        "superseded": _is_superseded(turn, broken),
        "error": _error(turn, broken),
        "model": turn.model.name,
        "usage": {
            **turn.usage.as_dict(),
            "total_tokens": turn.usage.input_tokens + turn.usage.output_tokens,
        },
        "last_prompt_tokens": turn.last_prompt_tokens,
    }


def _is_superseded(turn: Turn, broken: Exception | None) -> bool:
    """Whether another process answers: it has the turn, or began with the question first."""
    if isinstance(broken, AlreadyTakenError):
        return turn.asked is None  # a message that came later is not what the turn is about
    return isinstance(broken, LeaseLostError)


def _error(turn: Turn, broken: Exception | None) -> str | None:
    if isinstance(turn.error, ContextTooLongError):
        return f"context length exceeded: {turn.error}"
    if turn.exhausted:
        return f"The budget of {turn.max_iterations} model calls for one turn is used up."
    fault = broken or turn.error
    return None if fault is None else str(fault) or type(fault).__name__


def call_cost(usage: Usage, model: Model) -> dict[str, Any]:
    """One call of a model, as the store counts it."""
    from .catalog import cost_usd

    dollars = cost_usd(usage, model.name)
    return {
        **usage.as_dict(),
        "model": model.name,
        "billing_provider": model.provider,
        "billing_base_url": model.base_url,
        "estimated_cost_usd": dollars,
    }


def step_cost(usage: Usage, model: Model) -> dict[str, Any]:
    """One call of a turn, as the store counts it with the step it belongs to."""
    cost = call_cost(usage, model)
    known = cost["estimated_cost_usd"] is not None
    return {**cost, "cost_status": "estimated" if known else "unknown", "api_call_count": 1}
