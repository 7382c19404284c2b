"""What a person reads when a turn has no answer of its own: never nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OVERFLOW_SIGNS = (
    "context length", "context window", "context_length", "maximum context", "too long",
    "token limit", "context size", "too many tokens",
)  # fmt: skip


def normalize_empty_response(
    agent_result: Mapping[str, Any], response: str, *, history_len: int
) -> str:
    """`response`, or what is to be said in its place; empty only for an interrupted turn."""
    if response:
        return response
    if agent_result.get("interrupted"):
        return ""  # whoever interrupted knows, and the platform shows it
    error = str(agent_result.get("error") or "").strip()
    if agent_result.get("failed"):
        if is_overflow(error):
            return (
                f"⚠️ This conversation ({history_len} messages) no longer fits the model's context"
                " window. Send /compact to shorten it and try again, or /new to begin anew."
            )
        return f"⚠️ No answer: {error or 'the turn failed'}\nTry again, or /reset to begin anew."
    if agent_result.get("partial"):
        return f"⚠️ The turn stopped before an answer: {error or 'it was cut short'}. Try again."
    if agent_result.get("api_calls"):
        return f"⚠️ The model returned no text{f': {error}' if error else ''}. Try again, or /reset."
    return f"⚠️ No answer{f': {error}' if error else ''}. Try again, or /reset to begin anew."


def is_overflow(error: str) -> bool:
    """Whether an error says that the conversation has grown too long."""
    lowered = error.lower()
    return any(sign in lowered for sign in _OVERFLOW_SIGNS)
