"""What clients are told of a turn's end: the payloads of message.complete."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from conversation.abandoned import TAKEN_AWAY

from .hub import Hub, Session
from .rpc import AGENT_FAILED

if TYPE_CHECKING:
    from agent.outcome import TurnOutcome

log = logging.getLogger(__name__)

NOT_BEGUN = "It had to wait for another turn, was stopped before it began, and is not kept."


def completed(
    hub: Hub, session: Session, outcome: TurnOutcome, warning: str | None = None
) -> dict[str, Any]:
    """A turn that has come to an end, whichever; `warning` goes before what the turn says."""
    from agent.outcome import usage_dict

    text = outcome.text
    status = outcome.status
    if outcome.is_silent:
        status, warning = "interrupted", TAKEN_AWAY
    elif status == "complete" and outcome.error:
        status = "error"
    payload: dict[str, Any] = {"text": text, "usage": usage_dict(outcome.usage), "status": status}
    if warning or outcome.error:
        payload["warning"] = warning or outcome.error
    if not text and status == "error":
        payload["text"] = f"[No answer: {outcome.error or 'the turn failed'}]"
    last = outcome.messages[-1] if outcome.messages else {}
    if last.get("role") == "assistant" and last.get("timestamp") is not None:
        payload["timestamp"] = last["timestamp"]
    total = session.setdefault("usage", {})
    for name, value in payload["usage"].items():
        if isinstance(value, int | float):
            total[name] = total.get(name, 0) + value
    with contextlib.suppress(KeyError, TypeError):
        rendered = hub.render_message(text, session["cols"])
        if rendered is not None:
            payload["rendered"] = rendered
    return payload


def failed(reason: str) -> dict[str, Any]:
    """A turn that a fault has ended."""
    return {"text": f"[No answer: {reason}]", "usage": {}, "status": "error", "warning": reason}


def not_begun(prompt_id: str) -> dict[str, Any]:
    """A prompt that was stopped while it waited for a turn of another process."""
    return {
        "text": "", "usage": {}, "status": "interrupted", "warning": NOT_BEGUN,
        "dropped": prompt_id,
    }  # fmt: skip


def answered_elsewhere(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A prompt that the turn of another process has read; `messages` end with its answer."""
    last = messages[-1] if messages else {}
    text = last.get("content") if last.get("role") == "assistant" else ""
    return {"text": text if isinstance(text, str) else "", "usage": {}, "status": "complete"}


def not_built(hub: Hub, sid: str, error: Exception) -> dict[str, Any]:
    """No agent: a prompt stays in the inbox, and is run once the cause is fixed."""
    log.error("No agent for %s: %s", sid, error, exc_info=error)
    hub.emit("error", sid, {"message": str(error), "code": AGENT_FAILED})
    return {**failed(str(error)), "unstored": True}
