"""OpenAI's Responses: typed events, and reasoning that survives from call to call.

Nothing is stored at the provider (`store` is false); the model's reasoning comes back encrypted and
is sent again with the messages it led to. The reply is whole once `response.completed` (or
`response.incomplete`) has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.model import (
    Chunk,
    Finished,
    Message,
    ModelRequest,
    ReasoningDelta,
    ReasoningDetails,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from agent.providers.base import HttpModel, IncompleteReply, ReportedFailure
from agent.providers.stored_messages import (
    EMPTY,
    Image,
    calls_of,
    interleave,
    own_reasoning,
    parts_of,
    short_id,
    text_of,
    with_origin,
)

_LEAST_OUTPUT_TOKENS = 16


class ResponsesModel(HttpModel):
    """A model behind OpenAI's `/responses`."""

    def _path(self) -> str:
        return "/responses"

    def _reader(self) -> _ResponsesReader:
        return _ResponsesReader(self.provider)

    def _payload(self, request: ModelRequest) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        for message in request.messages:
            items += self._items(message)
        payload: dict[str, Any] = {
            "model": self.name,
            "input": items,
            "stream": True,
            "store": False,
        }
        if request.system:
            payload["instructions"] = request.system
        if request.tools:
            payload["tools"] = [_tool(tool) for tool in request.tools]
        if request.max_tokens is not None:
            payload["max_output_tokens"] = max(request.max_tokens, _LEAST_OUTPUT_TOKENS)
        if self._reasoning:
            payload["include"] = ["reasoning.encrypted_content"]
        elif request.temperature is not None:
            payload["temperature"] = request.temperature
        if request.reasoning_effort:
            payload["reasoning"] = {"effort": request.reasoning_effort, "summary": "auto"}
        if request.session_id:
            payload["prompt_cache_key"] = request.session_id
        return payload

    def _items(self, message: Message) -> list[dict[str, Any]]:
        role = message.get("role")
        if role == "assistant":
            return self._assistant_items(message)
        parts = self._parts(message.get("content"))
        if role == "tool":
            # Plain text is what every server of this protocol takes; pictures need the list.
            plain = all(part["type"] == "input_text" for part in parts)
            return [
                {
                    "type": "function_call_output",
                    "call_id": short_id(str(message.get("tool_call_id") or "")),
                    "output": text_of(message.get("content")) if plain else parts,
                }
            ]
        return [
            {
                "type": "message",
                "role": "system" if role == "system" else "user",
                "content": parts or [{"type": "input_text", "text": EMPTY}],
            }
        ]

    def _assistant_items(self, message: Message) -> list[dict[str, Any]]:
        text = text_of(message.get("content"))
        calls = calls_of(message)
        items: list[dict[str, Any]] = []
        if text or not calls:
            items.append(
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": text or EMPTY}],
                }
            )
        for call in calls:
            items.append(
                {
                    "type": "function_call",
                    "call_id": short_id(call.id),
                    "name": call.name,
                    "arguments": call.arguments,
                }
            )
        reasoning = [
            (item.get("position") or 0, _replayed(item))
            for item in own_reasoning(message, self.provider)
            if item.get("type") == "reasoning" and item.get("encrypted_content")
        ]
        return interleave(items, reasoning)

    def _parts(self, content: Any) -> list[dict[str, Any]]:
        return [
            {"type": "input_image", "image_url": part.url, "detail": part.detail or "auto"}
            if isinstance(part, Image)
            else {"type": "input_text", "text": part.text}
            for part in parts_of(content, vision=self._vision)
        ]


class _ResponsesReader:
    """Reads one reply."""

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._calls: dict[str, int] = {}
        """Item id of each function call, to its index in the reply."""
        self._with_arguments: set[int] = set()
        self._reasoning: list[dict[str, Any]] = []
        self._has_text = False
        self._response: dict[str, Any] | None = None
        self._summarised = False

    def feed(self, event: dict[str, Any]) -> Sequence[Chunk]:
        kind = event.get("type")
        if kind == "response.output_text.delta" or kind == "response.refusal.delta":
            self._has_text = True
            return (TextDelta(event["delta"]),)
        if kind == "response.function_call_arguments.delta":
            index = self._calls[event["item_id"]]
            self._with_arguments.add(index)
            return (ToolCallDelta(index, "", "", event["delta"]),)
        if (
            kind == "response.reasoning_summary_text.delta"
            or kind == "response.reasoning_text.delta"
        ):
            self._summarised = True
            return (ReasoningDelta(event["delta"]),)
        if kind == "response.reasoning_summary_part.added":
            return (ReasoningDelta("\n\n"),) if self._summarised else ()
        if kind == "response.output_item.added":
            return self._item_added(event["item"])
        if kind == "response.output_item.done":
            return self._item_done(event["item"])
        if kind in ("response.completed", "response.incomplete"):
            self._response = event["response"]
            self.done = True
        elif kind in ("response.failed", "error") or event.get("error"):
            raise ReportedFailure(event)
        return ()

    def _item_added(self, item: dict[str, Any]) -> list[Chunk]:
        if item.get("type") != "function_call":
            return []
        index = len(self._calls)
        self._calls[item.get("id") or item["call_id"]] = index
        arguments = item.get("arguments") or ""
        if arguments:
            self._with_arguments.add(index)
        return [ToolCallDelta(index, item["call_id"], item["name"], arguments)]

    def _item_done(self, item: dict[str, Any]) -> list[Chunk]:
        if item.get("type") == "reasoning":
            # Counted in the blocks the stored message will have: its text, then its calls.
            position = int(self._has_text) + len(self._calls)
            self._reasoning.append({**item, "position": position})
        if item.get("type") != "function_call":
            return []
        item_id = item.get("id") or item["call_id"]
        if item_id not in self._calls:
            return self._item_added(item)
        index = self._calls[item_id]
        if index in self._with_arguments or not item.get("arguments"):
            return []
        return [ToolCallDelta(index, "", "", item["arguments"])]

    def finish(self) -> Sequence[Chunk]:
        response = self._response
        if response is None:
            raise IncompleteReply("it ended before it was completed")
        reason = "tool_calls" if self._calls else "stop"
        if response.get("status") == "incomplete":
            why = (response.get("incomplete_details") or {}).get("reason")
            reason = "content_filter" if why == "content_filter" else "length"
        finished = Finished(
            reason, _usage(response.get("usage") or {}), response.get("model") or ""
        )
        if self._reasoning:
            return (ReasoningDetails(with_origin(self._reasoning, self._provider)), finished)
        return (finished,)


def _replayed(item: dict[str, Any]) -> dict[str, Any]:
    """A reasoning item as it may be sent: plain reasoning text is for reading only."""
    return {
        "type": "reasoning",
        **({"id": item["id"]} if item.get("id") else {}),
        "summary": item.get("summary") or [],
        "encrypted_content": item["encrypted_content"],
    }


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function") or {}
    return {
        "type": "function",
        "name": function.get("name"),
        "description": function.get("description") or "",
        "parameters": function.get("parameters") or {"type": "object", "properties": {}},
        "strict": bool(function.get("strict", False)),
    }


def _usage(usage: dict[str, Any]) -> Usage:
    cached = usage.get("input_tokens_details") or {}
    spent = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read_tokens=cached.get("cached_tokens") or 0,
        cache_write_tokens=cached.get("cache_write_tokens") or 0,
        reasoning_tokens=spent.get("reasoning_tokens") or 0,
    )
