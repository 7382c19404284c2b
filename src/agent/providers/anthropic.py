"""Anthropic's Messages: content blocks, thinking with signatures, and prompt caching by markers.

The reply is whole once `message_stop` has come. Cache markers sit at the end of the tools, of the
system prompt and of the last two user messages: each call finds the prefix that the call before it
wrote, and writes one for the next.
"""

from __future__ import annotations

import json
import re
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
    IMAGE_LEFT_OUT,
    Image,
    Text,
    calls_of,
    interleave,
    own_reasoning,
    parts_of,
    short_id,
    split_data_url,
    text_of,
    with_origin,
)

_VERSION = "2023-06-01"
_MARKER = {"type": "ephemeral"}
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MOST_OUTPUT_TOKENS = 32_000
"""What is reserved for an answer nobody limited: more would be taken from the input's room."""
_LEAST_THINKING_TOKENS = 1024
_THINKING_TOKENS = {"low": 4_000, "medium": 10_000, "high": 24_000}
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_BUDGETED = re.compile(r"claude-(?:[123]|[a-z]+-4(?:-[0-5])?(?:-\d{6,}|-latest|$))")
"""Claude models that think by a budget of tokens; later ones decide for themselves, and refuse both
a budget and a temperature."""


class AnthropicModel(HttpModel):
    """A model behind Anthropic's `/v1/messages`."""

    def _authorization(self, api_key: str) -> dict[str, str]:
        return {"anthropic-version": _VERSION, **({"x-api-key": api_key} if api_key else {})}

    def _path(self) -> str:
        return "/messages" if self.base_url.endswith("/v1") else "/v1/messages"

    def _reader(self) -> _MessagesReader:
        return _MessagesReader(self.provider)

    def _payload(self, request: ModelRequest) -> dict[str, Any]:
        messages = self._messages(request.messages)
        payload: dict[str, Any] = {
            "model": self.name,
            "messages": messages,
            "max_tokens": request.max_tokens or self._room_for_answer(),
            "stream": True,
        }
        if request.system.strip():
            payload["system"] = [_marked({"type": "text", "text": request.system})]
        if request.tools:
            payload["tools"] = [_tool(tool) for tool in request.tools]
            payload["tools"][-1] = _marked(payload["tools"][-1])
        payload.update(self._thinking(request.reasoning_effort, payload["max_tokens"], messages))
        if request.temperature is not None and self._budgeted() and "thinking" not in payload:
            payload["temperature"] = request.temperature
        last_user = [message for message in messages if message["role"] == "user"][-2:]
        for message in last_user:
            message["content"][-1] = _marked(message["content"][-1])
        return payload

    def _thinking(
        self, effort: str | None, max_tokens: int, messages: list[dict[str, Any]]
    ) -> dict[str, Any]:
        if not effort:
            return {}
        if not self._budgeted():
            thinking = {"type": "adaptive", "display": "summarized"}
            return {"thinking": thinking, "output_config": {"effort": effort}}
        budget = min(_THINKING_TOKENS.get(effort, 10_000), max_tokens - _LEAST_THINKING_TOKENS)
        if budget < _LEAST_THINKING_TOKENS or _mid_turn_without_thinking(messages):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}

    def _room_for_answer(self) -> int:
        most = min(self._max_output_tokens or _MOST_OUTPUT_TOKENS, _MOST_OUTPUT_TOKENS)
        return max(_LEAST_THINKING_TOKENS, min(most, self.context_length // 4))

    def _budgeted(self) -> bool:
        """Whether it thinks by a budget: older models of Anthropic, and everyone else's."""
        name = self.name.replace(".", "-")
        return "claude" not in name or _BUDGETED.search(name) is not None

    def _messages(self, history: list[Message]) -> list[dict[str, Any]]:
        """The history with neighbours of one role joined, which parallel tool results need."""
        result: list[dict[str, Any]] = []
        if history and history[0].get("role") == "assistant":
            result.append({"role": "user", "content": [_text(EMPTY)]})
        for message in history:
            if message.get("role") == "assistant":
                role, blocks = "assistant", self._assistant_blocks(message)
            elif message.get("role") == "tool":
                role, blocks = "user", [self._tool_result(message)]
            else:
                role, blocks = "user", self._blocks(message.get("content")) or [_text(EMPTY)]
            if result and result[-1]["role"] == role:
                result[-1]["content"] += blocks
            else:
                result.append({"role": role, "content": blocks})
        return result

    def _blocks(self, content: Any) -> list[dict[str, Any]]:
        blocks = []
        for part in parts_of(content, vision=self._vision):
            if isinstance(part, Image):
                blocks.append(_image(part))
            elif isinstance(part, Text) and part.text.strip():
                blocks.append(_text(part.text))
        return blocks

    def _tool_result(self, message: Message) -> dict[str, Any]:
        block = {
            "type": "tool_result",
            "tool_use_id": short_id(str(message.get("tool_call_id") or ""), limit=64),
        }
        content = self._blocks(message.get("content"))
        return {**block, "content": content} if content else block

    def _assistant_blocks(self, message: Message) -> list[dict[str, Any]]:
        text = text_of(message.get("content"))
        calls = calls_of(message)
        blocks = [_text(text)] if text.strip() else []
        blocks += [
            {
                "type": "tool_use",
                "id": short_id(call.id, limit=64),
                "name": call.name,
                "input": json.loads(call.arguments),
            }
            for call in calls
        ]
        thinking = [
            (item.get("position") or 0, _without_origin(item))
            for item in own_reasoning(message, self.provider)
            if item.get("type") == "redacted_thinking"
            # Anthropic itself refuses a thought that nobody signed.
            or (
                item.get("type") == "thinking"
                and (item.get("signature") or self.provider != "anthropic")
            )
        ]
        return interleave(blocks or [_text(EMPTY)], thinking)


class _MessagesReader:
    """Reads one reply."""

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._blocks: dict[int, dict[str, Any]] = {}
        self._calls: dict[int, int] = {}
        """Content block of each tool call, to its index in the reply."""
        self._has_text = False
        self._usage: dict[str, Any] = {}
        self._stop_reason = ""
        self._model = ""

    def feed(self, event: dict[str, Any]) -> Sequence[Chunk]:
        kind = event.get("type")
        if kind == "content_block_delta":
            return self._delta(event["index"], event["delta"])
        if kind == "content_block_start":
            return self._start(event["index"], event["content_block"])
        if kind == "content_block_stop":
            return self._stop(event["index"])
        if kind == "message_start":
            self._model = event["message"].get("model") or ""
            self._add_usage(event["message"].get("usage"))
        elif kind == "message_delta":
            self._stop_reason = event["delta"].get("stop_reason") or self._stop_reason
            self._add_usage(event.get("usage"))
        elif kind == "message_stop":
            self.done = True
        elif kind == "error" or event.get("error"):
            raise ReportedFailure(event)
        return ()

    def _start(self, index: int, block: dict[str, Any]) -> Sequence[Chunk]:
        kind = block["type"]
        if kind == "tool_use":
            self._calls[index] = len(self._calls)
            self._blocks[index] = {"input": block.get("input"), "streamed": False}
            return (ToolCallDelta(self._calls[index], block["id"], block["name"]),)
        if kind in ("thinking", "redacted_thinking"):
            # Counted in the blocks the stored message will have: its text, then its calls.
            position = int(self._has_text) + len(self._calls)
            self._blocks[index] = {**block, "position": position}
            if block.get("thinking"):
                return (ReasoningDelta(block["thinking"]),)
        elif kind == "text":
            self._has_text = True
            if block.get("text"):
                return (TextDelta(block["text"]),)
        return ()

    def _delta(self, index: int, delta: dict[str, Any]) -> Sequence[Chunk]:
        kind = delta["type"]
        if kind == "text_delta":
            return (TextDelta(delta["text"]),)
        if kind == "input_json_delta":
            if not delta["partial_json"]:
                return ()
            self._blocks[index]["streamed"] = True
            return (ToolCallDelta(self._calls[index], "", "", delta["partial_json"]),)
        if kind == "thinking_delta":
            block = self._blocks[index]
            block["thinking"] = (block.get("thinking") or "") + delta["thinking"]
            return (ReasoningDelta(delta["thinking"]),)
        if kind == "signature_delta":
            block = self._blocks[index]
            block["signature"] = (block.get("signature") or "") + delta["signature"]
        return ()

    def _stop(self, index: int) -> Sequence[Chunk]:
        if index not in self._calls or self._blocks[index]["streamed"]:
            return ()
        arguments = json.dumps(self._blocks[index]["input"] or {}, ensure_ascii=False)
        return (ToolCallDelta(self._calls[index], "", "", arguments),)

    def _add_usage(self, usage: dict[str, Any] | None) -> None:
        # Later counts are totals; a zero is a server that only counts in one of the two places.
        self._usage.update({key: value for key, value in (usage or {}).items() if value})

    def finish(self) -> Sequence[Chunk]:
        if not self.done or not self._stop_reason:
            raise IncompleteReply("it ended before the message was complete")
        reason = _FINISH.get(self._stop_reason, "stop")
        finished = Finished(reason, _usage(self._usage), self._model)
        thinking = [block for block in self._blocks.values() if "position" in block]
        if thinking:
            return (ReasoningDetails(with_origin(thinking, self._provider)), finished)
        return (finished,)


def _mid_turn_without_thinking(messages: list[dict[str, Any]]) -> bool:
    """Whether tool results are due an answer and the calls were made without thinking.

    Thinking cannot be switched on in the middle of a turn, as after another model's calls.
    """
    if len(messages) < 2 or messages[-1]["content"][0]["type"] != "tool_result":
        return False
    return messages[-2]["content"][0]["type"] not in ("thinking", "redacted_thinking")


def _marked(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "cache_control": _MARKER}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _without_origin(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("provider", "position")}


def _image(image: Image) -> dict[str, Any]:
    data = split_data_url(image.url)
    if data is not None and data[0] in _IMAGE_TYPES:
        source = {"type": "base64", "media_type": data[0], "data": data[1]}
        return {"type": "image", "source": source}
    if data is None and image.url.startswith(("http://", "https://")):
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return _text(IMAGE_LEFT_OUT)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function") or {}
    return {
        "name": function.get("name"),
        "description": function.get("description") or "",
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _usage(usage: dict[str, Any]) -> Usage:
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    return Usage(
        input_tokens=(usage.get("input_tokens") or 0) + read + written,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=(usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
    )
