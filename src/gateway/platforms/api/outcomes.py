"""A turn's result as HTTP says it: text, finish reason, headers, or an error."""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.replies import is_overflow, normalize_empty_response

from .context import Place, header_text
from .errors import ApiError
from .names import shown_id
from .reading import SESSION_HEADER


class Outcome(NamedTuple):
    """What a turn came to."""

    text: str
    finish_reason: str
    """stop or length."""
    headers: dict[str, str]
    error: ApiError | None
    """Set if there is no answer."""
    facts: dict[str, Any]
    """completed, partial, failed, interrupted and error, for clients that know us."""


def outcome_of(result: dict[str, Any], place: Place) -> Outcome:
    """Judge a result; never silent: without an answer there is an error that says why."""
    from hermes_base.redaction import redact

    text = result.get("final_response") or ""
    failed, partial = bool(result.get("failed")), bool(result.get("partial"))
    interrupted = bool(result.get("interrupted"))
    problem = redact(str(result.get("error") or "")) or None
    facts = {
        "completed": bool(result.get("completed")),
        "partial": partial,
        "failed": failed,
        "interrupted": interrupted,
        "error": problem,
    }
    session_id = str(result.get("session_id") or place.session_id)
    headers = {**place.headers, SESSION_HEADER: shown_id(place.owner, session_id)}
    headers["X-Hermes-Completed"] = str(facts["completed"]).lower()
    headers["X-Hermes-Partial"] = str(partial).lower()
    if problem:
        headers["X-Hermes-Error"] = header_text(problem)
    error = None
    if not text:
        error = _no_answer(result, interrupted, problem, headers)
    return Outcome(text, "length" if partial else "stop", headers, error, facts)


def _no_answer(
    result: dict[str, Any], interrupted: bool, problem: str | None, headers: dict[str, str]
) -> ApiError:
    # What was done is stored; doing it again must be the client's own decision.
    headers = {**headers, "x-should-retry": "false"}
    if interrupted:
        return ApiError(499, "The turn was stopped.", code="interrupted", headers=headers)
    if problem and is_overflow(problem):
        return ApiError(400, problem, code="context_length_exceeded", headers=headers)
    said = normalize_empty_response(result, "", history_len=len(result.get("messages") or ()))
    message = problem or said.removeprefix("⚠️ ")
    return ApiError(502, message, code="agent_incomplete", headers=headers)


def usage_of(result: dict[str, Any]) -> dict[str, int]:
    """Tokens as chat completions name them."""
    usage = result.get("usage") or {}
    asked, answered = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": usage.get("total_tokens", asked + answered),
    }
