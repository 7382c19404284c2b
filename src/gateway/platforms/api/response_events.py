"""A turn as the events of a streamed response: one item of output per reply that has text."""

from __future__ import annotations

import os
from typing import Any

from agent.events import Event, ReplyFinished, StreamRestarted, TextStreamed

from .chat_completions import tool_remark
from .errors import ApiError
from .response_objects import response_object, text_item
from .sse import comment, data


class ResponseEvents:
    """Builds the events of one response, in order."""

    def __init__(self, model: str, asked: dict[str, Any]) -> None:
        self.model = model
        self.asked = asked
        self.id = ""
        self._number = 0
        self._index = 0
        self._item: str | None = None
        self._text: list[str] = []

    def begin(self, id: str) -> bytes:
        """The message is stored, and the response has its id."""
        self.id = id
        response = response_object(id, self.model, "in_progress", [], asked=self.asked)
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def of(self, event: Event) -> tuple[bytes, bool]:
        """What an event adds, and whether that is a mere remark."""
        if isinstance(event, TextStreamed):
            begun = b"" if self._item else self._begin_item()
            self._text.append(event.text)
            return begun + self._event(
                "response.output_text.delta", **self._place(), delta=event.text, logprobs=[]
            ), False
        if isinstance(event, ReplyFinished):
            return self._end_item(), False
        if isinstance(event, StreamRestarted):
            remark = comment("hermes.restarted", {"reason": event.reason})
            return self._end_item("incomplete") + remark, False
        return tool_remark(event), True

    def end(self, response: dict[str, Any]) -> bytes:
        """The response is complete, or as complete as it gets."""
        said = b""
        if not self._index:  # it was answered before; what is left is to say it again
            for item in response["output"]:
                said += self._begin_item()
                self._text = [item["content"][0]["text"]]
                said += self._end_item()
        status = response["status"]
        return said + self._event(f"response.{status}", response=response)

    def fail(self, error: ApiError) -> bytes:
        """There is no answer."""
        ended = self._end_item("incomplete")
        response = response_object(self.id, self.model, "failed", [], error=error, asked=self.asked)
        return ended + self._event("response.failed", response=response)

    def _begin_item(self) -> bytes:
        self._item, self._text = f"msg_{os.urandom(12).hex()}", []
        item = text_item("", self._item, "in_progress")
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return self._event(
            "response.output_item.added", output_index=self._index, item=item
        ) + self._event("response.content_part.added", **self._place(), part=part)

    def _end_item(self, status: str = "completed") -> bytes:
        if self._item is None:
            return b""
        text = "".join(self._text)
        item = text_item(text, self._item, status)
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        ended = (
            self._event("response.output_text.done", **self._place(), text=text, logprobs=[])
            + self._event("response.content_part.done", **self._place(), part=part)
            + self._event("response.output_item.done", output_index=self._index, item=item)
        )
        self._item, self._index = None, self._index + 1
        return ended

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item, "output_index": self._index, "content_index": 0}

    def _event(self, kind: str, **facts: Any) -> bytes:
        self._number += 1
        return data({"type": kind, "sequence_number": self._number - 1, **facts}, event=kind)
