"""One run: how it is, what has happened in it, and who watches."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from agent.events import (
    Compressed,
    Event,
    Noticed,
    ReasoningStreamed,
    ReplyFinished,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnStarted,
)
from agent.outcome import TurnOutcome, usage_dict
from tools.base import ApprovalRequest

from .names import shown_id
from .outcomes import HttpOutcome
from .sse import Outlet, data

KEPT_EVENTS = 20_000
LONGEST_PREVIEW = 500


class Run:
    """A turn and its events. Those that come from other threads are taken as they come."""

    def __init__(self, id: str, owner: str, key: str, session_id: str, model: str) -> None:
        self.id = id
        self.owner = owner
        self.key = key
        self.status = "queued"
        self.created_at = self.updated_at = time.time()
        self._facts: dict[str, Any] = {"session_id": shown_id(owner, session_id), "model": model}
        self._events: deque[tuple[int, bytes]] = deque(maxlen=KEPT_EVENTS)
        self._number = 0
        self._watchers: list[Outlet] = []
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in ("completed", "failed", "cancelled")

    def shown(self) -> dict[str, Any]:
        """How it is, for a client."""
        return {
            "object": "hermes.run",
            "run_id": self.id,
            "status": self.status,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            **self._facts,
        }

    def follow(self, outlet: Outlet, after: int) -> None:
        """Send what has happened behind an event, and what happens from now on."""
        with self._lock:
            for number, piece in self._events:
                if number > after:
                    outlet.put(piece)
            if self.is_over:
                outlet.close()
            else:
                self._watchers.append(outlet)

    def on_event(self, event: Event) -> None:
        """Something happened in the turn."""
        if isinstance(event, TextStreamed):
            self._add("message.delta", delta=event.text)
        elif isinstance(event, TurnStarted):
            self.status = "running"
            self._facts["session_id"] = shown_id(self.owner, event.session_id)
            self._add("run.started", session_id=self._facts["session_id"])
        elif isinstance(event, ReasoningStreamed):
            self._add("reasoning.delta", delta=event.text)
        elif isinstance(event, StreamRestarted):
            self._add("message.restarted", reason=event.reason)
        elif isinstance(event, ToolStarted):
            preview = str(event.arguments)[:LONGEST_PREVIEW]
            self._add("tool.started", tool=event.name, call_id=event.call_id, preview=preview)
        elif isinstance(event, ToolProgressed):
            text = event.text[-LONGEST_PREVIEW:]
            self._add("tool.progress", call_id=event.call_id, text=text)
        elif isinstance(event, ToolFinished):
            self._add(
                "tool.completed", tool=event.name, call_id=event.call_id,
                duration=round(event.seconds, 3), error=event.is_error,
            )  # fmt: skip
        elif isinstance(event, ReplyFinished):
            self._add("message.completed", text=event.text, tool_calls=event.tool_calls)
        elif isinstance(event, Compressed):
            self._facts["session_id"] = shown_id(self.owner, event.session_id)
            if event.method:  # else it was left as it was
                self._add("session.compressed", session_id=self._facts["session_id"])
        elif isinstance(event, Noticed):
            self._add("notice", text=event.text)

    def ask(self, request: ApprovalRequest, choices: list[str]) -> None:
        """A tool asks for an approval."""
        from hermes_base.redaction import redact

        self.status = "waiting_for_approval"
        self._add(
            "approval.request", approval_id=request.id, command=redact(request.command),
            description=request.description, choices=choices, expires_at=request.expires_at,
        )  # fmt: skip

    def approved(self, choice: str, resolved: int) -> None:
        """It was answered."""
        self.status = "running"
        self._add("approval.responded", choice=choice, resolved=resolved)

    def end(self, result: TurnOutcome, outcome: HttpOutcome) -> None:
        """The turn is over."""
        self._facts["session_id"] = shown_id(self.owner, result.session_id)
        self._facts["usage"] = usage_dict(result.usage)
        if result.interrupted:
            self._finish("cancelled", "run.cancelled", output=outcome.text)
        elif outcome.error is not None:
            self.fail(str(outcome.error))
        else:
            self._finish(
                "completed", "run.completed", output=outcome.text, usage=self._facts["usage"],
                partial=outcome.facts["partial"],
            )  # fmt: skip

    def fail(self, error: str) -> None:
        """There is no answer."""
        self._finish("failed", "run.failed", error=error)

    def _finish(self, status: str, name: str, **facts: Any) -> None:
        self._facts |= facts
        self.status = status
        self._add(name, **facts)
        with self._lock:
            for outlet in self._watchers:
                outlet.close()
            self._watchers.clear()

    def _add(self, name: str, **facts: Any) -> None:
        with self._lock:
            self._number += 1
            self.updated_at = time.time()
            if name != "message.delta":
                self._facts["last_event"] = name
            event = {"event": name, "run_id": self.id, "timestamp": self.updated_at, **facts}
            piece = data(event, id=self._number)
            self._events.append((self._number, piece))
            for outlet in self._watchers:
                outlet.put(piece)
