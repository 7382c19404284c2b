"""One model call's answer, put together from its chunks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from .errors import BrokenReplyError
from .events import Event, ReasoningStreamed, StreamRestarted, TextStreamed
from .model import (
    Chunk,
    Finished,
    Message,
    ReasoningDelta,
    ReasoningDetails,
    Restarted,
    TextDelta,
    ToolCallDelta,
    Usage,
)


class Reply:
    """What the model has said so far; complete once `finish_reason` is set."""

    __slots__ = (
        "_arguments",
        "_calls",
        "_ended",
        "_first",
        "_reasoning",
        "_sent",
        "_text",
        "details",
        "finish_reason",
        "model",
        "usage",
    )

    def __init__(self) -> None:
        self._sent = self._ended = 0.0
        self._start_over()

    def note_sent(self) -> None:
        """The request is sent now: how long the reply takes counts from here."""
        self._sent = time.perf_counter()

    @property
    def seconds(self) -> float | None:
        """How long it took, or has taken so far; None if nothing was sent."""
        if not self._sent:
            return None
        return (self._ended or time.perf_counter()) - self._sent

    @property
    def first_token_seconds(self) -> float | None:
        """How long it took until the model said or thought anything; None if it did not."""
        return self._first - self._sent if self._sent and self._first else None

    def _start_over(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, list[str]] = {}
        """The id and name of each tool call."""
        self._arguments: dict[int, list[str]] = {}
        """Its arguments in pieces, which are joined once: adding to a long text copies it."""
        self.details: list[dict[str, Any]] = []
        self.finish_reason: str | None = None
        self.usage = Usage()
        self.model = ""
        self._first = 0.0

    def add(self, chunk: Chunk, emit: Callable[[Event], None]) -> None:
        """Take a chunk in and notify the watchers."""
        kind = type(chunk)
        if not self._first and kind is not Restarted:
            self._first = time.perf_counter()
        if kind is TextDelta:
            self._text.append(chunk.text)  # type: ignore[union-attr]
            emit(TextStreamed(chunk.text))  # type: ignore[union-attr]
        elif isinstance(chunk, ReasoningDelta):
            self._reasoning.append(chunk.text)
            emit(ReasoningStreamed(chunk.text))
        elif isinstance(chunk, ToolCallDelta):
            call = self._calls.setdefault(chunk.index, ["", ""])
            call[0] = call[0] or chunk.id
            call[1] = call[1] or chunk.name
            self._arguments.setdefault(chunk.index, []).append(chunk.arguments)
        elif isinstance(chunk, ReasoningDetails):
            self.details.extend(chunk.items)
        elif isinstance(chunk, Restarted):
            self._start_over()
            emit(StreamRestarted(chunk.reason, chunk.delay, chunk.attempt))
        elif isinstance(chunk, Finished):
            self.finish_reason, self.usage, self.model = chunk
            self._ended = time.perf_counter()

    def require_finished(self) -> None:
        """Raise unless the model said that it was done; a stream may just stop."""
        if self.finish_reason is None:
            raise BrokenReplyError("The model's answer broke off before its end.")

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._text)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither text nor a tool call."""
        return not self._calls and not self.text.strip()

    def tool_calls(self) -> list[dict[str, Any]]:
        """The tool calls in order, each with an id of its own, whatever the model sent."""
        calls = []
        seen: set[str] = set()
        for index in sorted(self._calls):
            call_id, name = self._calls[index]
            arguments = "".join(self._arguments[index])
            if not call_id or call_id in seen:
                call_id = f"call_{os.urandom(8).hex()}"
            seen.add(call_id)
            function = {"name": name, "arguments": arguments or "{}"}
            calls.append({"id": call_id, "type": "function", "function": function})
        return calls

    def message(self, tool_calls: list[dict[str, Any]]) -> Message:
        """The answer as it is stored."""
        message: Message = {
            "role": "assistant",
            "content": self.text or None,
            "finish_reason": self.finish_reason,
        }
        if tool_calls:
            message["tool_calls"] = tool_calls
        if self._reasoning:
            message["reasoning"] = "".join(self._reasoning)
        if self.details:
            message["reasoning_details"] = self.details
        return message
