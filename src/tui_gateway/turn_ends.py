"""What clients are told of a turn's end: the payloads of message.complete."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

from .hub import Hub, Session
from .other_turns import TAKEN_AWAY
from .rpc import AGENT_FAILED

log = logging.getLogger(__name__)

NOT_BEGUN = "It had to wait for another turn, was stopped before it began, and is not kept."


def completed(hub: Hub, session: Session, result: dict[str, Any]) -> dict[str, Any]:
    """A turn that has come to an end, whichever."""
    text = result.get("final_response") or ""
    status = (
        "interrupted"
        if result.get("interrupted") or result.get("superseded")
        else "error"
        if result.get("failed") or result.get("error")
        else "complete"
    )
    payload: dict[str, Any] = {"text": text, "usage": result.get("usage") or {}, "status": status}
    if result.get("superseded"):
        payload["warning"] = TAKEN_AWAY
    elif result.get("error"):
        payload["warning"] = str(result["error"])
    if not text and status == "error":
        payload["text"] = f"[No answer: {result.get('error') or 'the turn failed'}]"
    last = (result.get("messages") or [{}])[-1]
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


def not_begun() -> dict[str, Any]:
    """A prompt whose sender did not want to wait for another process's turn."""
    return {"text": "", "usage": {}, "status": "interrupted", "warning": NOT_BEGUN}


def not_built(hub: Hub, sid: str, error: Exception) -> dict[str, Any]:
    """No agent: a prompt stays in the inbox, and is run once the cause is mended."""
    log.error("No agent for %s: %s", sid, error, exc_info=error)
    hub._emit("error", sid, {"message": str(error), "code": AGENT_FAILED})
    return {**failed(str(error)), "unstored": True}
