"""A turn as the named events of POST /api/sessions/{id}/chat/stream."""

from __future__ import annotations

import os
import time
from typing import Any

from agent.events import (
    Compressed,
    Event,
    ReasoningStreamed,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnStarted,
)
from agent.outcome import TurnOutcome, usage_dict

from .context import Place
from .errors import ApiError
from .names import shown_id
from .outcomes import HttpOutcome
from .sse import data


class SessionEvents:
    """Builds the events of one turn, in order."""

    def __init__(self, run_id: str, place: Place, content: Any) -> None:
        self._run_id, self._session_id, self._content = run_id, place.session_id, content
        self._owner = place.owner
        self._message_id = f"msg_{os.urandom(12).hex()}"
        self._number = 0

    def of(self, event: Event) -> tuple[bytes, bool]:
        """What an event adds, and whether it may be left out for a slow reader."""
        if isinstance(event, TextStreamed):
            return self._event("assistant.delta", delta=event.text), False
        if isinstance(event, TurnStarted):
            self._session_id = event.session_id
            asked = {"role": "user", "content": self._content}
            message = {"id": self._message_id, "role": "assistant"}
            return self._event("run.started", user_message=asked) + self._event(
                "message.started", message=message
            ), False
        if isinstance(event, Compressed):
            self._session_id = event.session_id
        if isinstance(event, ReasoningStreamed):
            return self._event("assistant.reasoning", delta=event.text), True
        if isinstance(event, StreamRestarted):
            return self._event("assistant.restarted", reason=event.reason), False
        if isinstance(event, ToolStarted):
            return self._event(
                "tool.started", tool_name=event.name, call_id=event.call_id, args=event.arguments
            ), False
        if isinstance(event, ToolProgressed):
            return self._event("tool.progress", call_id=event.call_id, delta=event.text), True
        if isinstance(event, ToolFinished):
            name = "tool.failed" if event.is_error else "tool.completed"
            return self._event(
                name, tool_name=event.name, call_id=event.call_id, preview=event.result[:500]
            ), False
        return b"", True

    def end(self, result: TurnOutcome, outcome: HttpOutcome) -> bytes:
        """The turn is over."""
        self._session_id = result.session_id
        if outcome.error is not None:
            return self.fail(outcome.error)
        facts = {name: outcome.facts[name] for name in ("completed", "partial", "interrupted")}
        return (
            self._event("assistant.completed", content=outcome.text, **facts)
            + self._event(
                "run.completed", completed=facts["completed"], usage=usage_dict(result.usage)
            )
            + self._event("done")
        )

    def fail(self, error: ApiError) -> bytes:
        """There is no answer."""
        return self._event("error", message=str(error), code=error.code) + self._event("done")

    def _event(self, name: str, **facts: Any) -> bytes:
        self._number += 1
        common = {
            "session_id": shown_id(self._owner, self._session_id),
            "run_id": self._run_id,
            "message_id": self._message_id,
            "seq": self._number,
            "ts": time.time(),
        }
        return data({**common, **facts}, event=name)
