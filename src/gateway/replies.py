"""What a person reads when a turn has no answer of its own: never nothing."""

from __future__ import annotations

from agent.outcome import TurnOutcome

_OVERFLOW_SIGNS = (
    "context length", "context window", "context_length", "maximum context", "too long",
    "token limit", "context size", "too many tokens",
)  # fmt: skip


def normalize_empty_response(outcome: TurnOutcome, response: str, *, history_len: int) -> str:
    """`response`, or what is to be said in its place; empty only for an interrupted turn."""
    if response:
        return response
    if outcome.interrupted:
        return ""  # whoever interrupted knows, and the platform shows it
    error = (outcome.error or "").strip()
    if outcome.limit_reached:
        return f"⛔ {error}"
    if outcome.failed:
        if is_overflow(error):
            return (
                f"⚠️ This conversation ({history_len} messages) no longer fits the model's context"
                " window. Send /compact to shorten it and try again, or /new to begin anew."
            )
        return f"⚠️ No answer: {error or 'the turn failed'}\nTry again, or /reset to begin anew."
    if outcome.partial:
        return f"⚠️ The turn stopped before an answer: {error or 'it was cut short'}. Try again."
    if outcome.api_calls:
        return f"⚠️ The model returned no text{f': {error}' if error else ''}. Try again, or /reset."
    return f"⚠️ No answer{f': {error}' if error else ''}. Try again, or /reset to begin anew."


def is_overflow(error: str) -> bool:
    """Whether an error says that the conversation has grown too long."""
    lowered = error.lower()
    return any(sign in lowered for sign in _OVERFLOW_SIGNS)
