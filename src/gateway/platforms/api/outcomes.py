"""A turn's result as HTTP says it: text, finish reason, headers, or an error."""

from __future__ import annotations

from typing import Any, NamedTuple

from agent.outcome import TurnOutcome, usage_dict
from gateway.replies import is_overflow, normalize_empty_response

from .context import Place, header_text
from .errors import ApiError
from .names import shown_id
from .reading import SESSION_HEADER


class HttpOutcome(NamedTuple):
    """What a turn came to."""

    text: str
    finish_reason: str
    """stop or length."""
    headers: dict[str, str]
    error: ApiError | None
    """Set if there is no answer."""
    facts: dict[str, Any]
    """completed, partial, failed, interrupted and error, for clients that know us."""


def http_outcome(result: TurnOutcome, place: Place) -> HttpOutcome:
    """Judge a result; never silent: without an answer there is an error that says why."""
    from hermes_base.redaction import redact

    problem = redact(result.error or "") or None
    facts = {
        "completed": result.completed,
        "partial": result.partial,
        "failed": result.failed,
        "interrupted": result.interrupted,
        "error": problem,
    }
    headers = {**place.headers, SESSION_HEADER: shown_id(place.owner, result.session_id)}
    headers["X-Hermes-Completed"] = str(result.completed).lower()
    headers["X-Hermes-Partial"] = str(result.partial).lower()
    if problem:
        headers["X-Hermes-Error"] = header_text(problem)
    error = None
    if not result.text:
        error = _no_answer(result, problem, headers)
    finish_reason = "length" if result.partial else "stop"
    return HttpOutcome(result.text, finish_reason, headers, error, facts)


def _no_answer(result: TurnOutcome, problem: str | None, headers: dict[str, str]) -> ApiError:
    # What was done is stored; doing it again must be the client's own decision.
    headers = {**headers, "x-should-retry": "false"}
    if result.interrupted:
        return ApiError(499, "The turn was stopped.", code="interrupted", headers=headers)
    if result.limit_reached:
        message = problem or "What may be used is used up."
        return ApiError(429, message, code="insufficient_quota", headers=headers)
    if problem and is_overflow(problem):
        return ApiError(400, problem, code="context_length_exceeded", headers=headers)
    said = normalize_empty_response(result, "", history_len=len(result.messages))
    message = problem or said.removeprefix("⚠️ ")
    return ApiError(502, message, code="agent_incomplete", headers=headers)


def usage_of(result: TurnOutcome) -> dict[str, int]:
    """Tokens as chat completions name them."""
    usage = usage_dict(result.usage)
    asked, answered = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": usage.get("total_tokens", asked + answered),
    }
