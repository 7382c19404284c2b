"""One run: how it is, what has happened in it, and who watches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from agent.events import (
    Compressed,
    Noticed,
    QuestionAsked,
    QuestionClosed,
    ReasoningStreamed,
    ReplyFinished,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent.model import Usage
from agent.outcome import TurnOutcome, usage_dict
from conversation.events import TURN_SHIFT, Numbered

from .names import shown_id
from .outcomes import HttpOutcome
from .sse import Outlet, data

KEPT_EVENTS = 20_000
LONGEST_PREVIEW = 500
_OF_TURN = (1 << TURN_SHIFT) - 1
"""The part of an event's number that counts within its turn."""


class Run:
    """A turn and its events, which come from any thread."""

    def __init__(self, id: str, owner: str, key: str, session_id: str, model: str) -> None:
        self.id = id
        self.owner = owner
        self.key = key
        self.status = "queued"
        self.created_at = self.updated_at = time.time()
        self._facts: dict[str, Any] = {"session_id": shown_id(owner, session_id), "model": model}
        self._events: deque[tuple[int, bytes]] = deque(maxlen=KEPT_EVENTS)
        self._number = self._end_number = 0
        self._asked: set[str] = set()
        self._stop: Callable[[], None] | None = None
        self.usage = Usage()
        """What its replies have cost, as far as they were seen."""
        self.turn_ended = threading.Event()
        """Set when the end of its turn was seen."""
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
                if number > after or not after:
                    outlet.put(piece)
            if self.is_over:
                outlet.close()
            else:
                self._watchers.append(outlet)

    def follow_log(self, stop: Callable[[], None]) -> None:
        """Its events come from the log of its conversation, until `stop` is called."""
        self._stop = stop

    @property
    def is_followed(self) -> bool:
        """Whether its turn has begun."""
        return self._stop is not None

    def take(self, numbered: Numbered) -> None:
        """Something happened in the turn, in this process or in another.

        Every gateway numbers a run's events as the log of its conversation does.
        """
        number, event = numbered.number & _OF_TURN, numbered.event
        if self.turn_ended.is_set():
            return  # it is about the next turn
        if isinstance(event, TextStreamed):
            self._add(number, "message.delta", delta=event.text)
        elif isinstance(event, TurnStarted):
            self.status = "running"
            self._facts["session_id"] = shown_id(self.owner, event.session_id)
            self._add(number, "run.started", session_id=self._facts["session_id"])
        elif isinstance(event, ReasoningStreamed):
            self._add(number, "reasoning.delta", delta=event.text)
        elif isinstance(event, StreamRestarted):
            self._add(number, "message.restarted", reason=event.reason)
        elif isinstance(event, ToolStarted):
            preview = str(event.arguments)[:LONGEST_PREVIEW]
            self._add(
                number, "tool.started", tool=event.name, call_id=event.call_id, preview=preview
            )
        elif isinstance(event, ToolProgressed):
            text = event.text[-LONGEST_PREVIEW:]
            self._add(number, "tool.progress", call_id=event.call_id, text=text)
        elif isinstance(event, ToolFinished):
            self._add(
                number, "tool.completed", tool=event.name, call_id=event.call_id,
                duration=round(event.seconds, 3), error=event.is_error,
            )  # fmt: skip
        elif isinstance(event, ReplyFinished):
            self.usage += event.usage
            self._add(number, "message.completed", text=event.text, tool_calls=event.tool_calls)
        elif isinstance(event, QuestionAsked | QuestionClosed):
            self._take_question(number, event)
        elif isinstance(event, Compressed):
            self._facts["session_id"] = shown_id(self.owner, event.session_id)
            if event.method:  # else it was left as it was
                self._add(number, "session.compressed", session_id=self._facts["session_id"])
        elif isinstance(event, Noticed):
            self._add(number, "notice", text=event.text)
        elif isinstance(event, TurnFinished):
            self._end_number = number
            self.turn_ended.set()

    def _take_question(self, number: int, event: QuestionAsked | QuestionClosed) -> None:
        if isinstance(event, QuestionAsked):
            if event.kind == "approval":
                self.status = "waiting_for_approval"
                self._asked.add(event.request_id)
                self._add(
                    number, "approval.request", approval_id=event.request_id,
                    command=event.subject, description=event.text, choices=event.choices,
                    expires_at=event.expires_at,
                )  # fmt: skip
        elif event.request_id in self._asked:
            self._asked.remove(event.request_id)
            self.status = "waiting_for_approval" if self._asked else "running"
            self._add(
                number, "approval.responded", approval_id=event.request_id, choice=event.choice,
                resolved=1,
            )  # fmt: skip

    def notice(self, text: str) -> None:
        """Something to know before its turn begins; it has no place among the turn's events."""
        self._add(0, "notice", text=text)

    def restart(self, number: int, reason: str) -> None:
        """What was streamed up to an event is void, and comes again."""
        self._add(number, "message.restarted", reason=reason)

    def go_on_after(self, number: int) -> None:
        """What comes now has higher numbers than an event that the client has seen."""
        self._number = max(self._number, number)

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
        if self._stop is not None:
            self._stop()
        self._facts |= facts
        self.status = status
        self._add(max(self._end_number, self._number + 1), name, **facts)
        with self._lock:
            for outlet in self._watchers:
                outlet.close()
            self._watchers.clear()

    def _add(self, number: int, name: str, **facts: Any) -> None:
        with self._lock:
            self._number = number
            self.updated_at = time.time()
            if name != "message.delta":
                self._facts["last_event"] = name
            event = {"event": name, "run_id": self.id, "timestamp": self.updated_at, **facts}
            piece = data(event, id=self._number)
            self._events.append((self._number, piece))
            for outlet in self._watchers:
                outlet.put(piece)
