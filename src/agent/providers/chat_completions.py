"""Any endpoint that speaks OpenAI's chat completions, which is nearly all of them.

The reply is whole once a `finish_reason` has come; a body that ends without one was cut, whatever
its HTTP framing says.
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
    Usage,
)
from agent.providers.base import HttpModel, IncompleteReply, ReportedFailure
from agent.providers.known import KNOWN, KnownProvider
from agent.providers.stored_messages import (
    EMPTY,
    Image,
    Text,
    calls_of,
    own_reasoning,
    parts_of,
    short_id,
    text_of,
    with_origin,
)
from agent.providers.tool_call_merge import ToolCallMerge

_FINISH = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
}
_CALL_EXTRA = "tool_call.extra_content"
"""The type under which what a provider attaches to a tool call is kept until it is sent back."""
_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Google takes for a tool call that another provider's model made."""


class ChatCompletionsModel(HttpModel):
    """A model behind an OpenAI-compatible `/chat/completions`."""

    def _path(self) -> str:
        return "/chat/completions"

    def _reader(self) -> _ChatReader:
        return _ChatReader(self.provider)

    def _payload(self, request: ModelRequest) -> dict[str, Any]:
        known = KNOWN.get(self.provider, KNOWN["custom"])
        official = self.provider == "openai" and self.base_url == known.base_url
        messages = [{"role": "system", "content": request.system}] if request.system else []
        messages += self._messages(request.messages, known)
        payload: dict[str, Any] = {"model": self.name, "messages": messages, "stream": True}
        if not known.usage_unasked:
            payload["stream_options"] = {"include_usage": True}
        if request.tools:
            payload["tools"] = request.tools
        if request.max_tokens is not None:
            payload["max_completion_tokens" if official else "max_tokens"] = request.max_tokens
        if request.temperature is not None and not (official and self._reasoning):
            payload["temperature"] = request.temperature
        if request.reasoning_effort:
            if self.provider == "openrouter":
                payload["reasoning"] = {"effort": request.reasoning_effort}
            else:
                payload["reasoning_effort"] = request.reasoning_effort
        if official and request.session_id:
            payload["prompt_cache_key"] = request.session_id
        if self.provider == "openrouter" and self.name.startswith("anthropic/"):
            payload["cache_control"] = {"type": "ephemeral"}
        return payload

    def _messages(self, history: list[Message], known: KnownProvider) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = []
        # A tool message may only hold text, so its pictures follow in a user message.
        pictures: list[dict[str, Any]] = []
        for message in history:
            role = message.get("role")
            if role == "tool":
                parts = parts_of(message.get("content"), vision=self._vision)
                pictures += [_image(part) for part in parts if isinstance(part, Image)]
                call_id = self._call_id(str(message.get("tool_call_id") or ""))
                text = "\n".join(part.text for part in parts if isinstance(part, Text))
                result.append({"role": "tool", "tool_call_id": call_id, "content": text})
                continue
            if role == "assistant":
                if pictures:
                    result.append({"role": "user", "content": pictures})
                    pictures = []
                result.append(self._assistant(message, known))
                continue
            content = self._user_content(message.get("content"), pictures)
            pictures = []
            result.append({"role": "system" if role == "system" else "user", "content": content})
        if pictures:
            result.append({"role": "user", "content": pictures})
        return result

    def _user_content(self, content: Any, before: list[dict[str, Any]]) -> str | list[Any]:
        if not before and isinstance(content, str):
            return content or EMPTY
        parts = parts_of(content, vision=self._vision)
        if not before and not any(isinstance(part, Image) for part in parts):
            return text_of(content) or EMPTY
        return before + [
            _image(part) if isinstance(part, Image) else {"type": "text", "text": part.text}
            for part in parts
        ]

    def _assistant(self, message: Message, known: KnownProvider) -> dict[str, Any]:
        calls = calls_of(message)
        own = own_reasoning(message, self.provider)
        text = text_of(message.get("content"))
        result: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            extras = {item.get("id"): item for item in own if item.get("type") == _CALL_EXTRA}
            result["tool_calls"] = [
                {
                    "id": self._call_id(call.id),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                    **(
                        {"extra_content": extras[call.id].get("extra_content")}
                        if call.id in extras
                        else {}
                    ),
                }
                for call in calls
            ]
            if self.provider == "google" and not extras:
                result["tool_calls"][0]["extra_content"] = _NO_SIGNATURE
            if known.echo_reasoning:
                reasoning = message.get("reasoning") or message.get("reasoning_content")
                result["reasoning_content"] = reasoning or ""
        elif not text:
            result["content"] = EMPTY
        details = [
            {key: value for key, value in item.items() if key != "provider"}
            for item in own
            if item.get("type") != _CALL_EXTRA
        ]
        if details:
            result["reasoning_details"] = details
        return result

    def _call_id(self, call_id: str) -> str:
        if self.provider == "mistral":
            return short_id(call_id, pattern="[a-zA-Z0-9]{9}", limit=9).rjust(9, "0")
        return short_id(call_id, pattern=r"[!-~]")


class _ChatReader:
    """Reads one reply."""

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._calls = ToolCallMerge()
        self._details: list[dict[str, Any]] = []
        self._finish_reason = ""
        self._usage: dict[str, Any] = {}
        self._model = ""

    def feed(self, event: dict[str, Any]) -> Sequence[Chunk]:
        if event.get("error"):
            raise ReportedFailure(event)
        self._model = self._model or event.get("model") or ""
        self._usage = event.get("usage") or self._usage
        choices = event.get("choices")
        if not choices:
            return ()
        choice = choices[0]
        if choice.get("finish_reason"):
            self._finish_reason = choice["finish_reason"]
            self._usage = choice.get("usage") or self._usage
        delta = choice.get("delta")
        if not delta:
            return ()
        content = delta.get("content")
        if content and len(delta) == 1 and isinstance(content, str):
            return (TextDelta(content),)
        return self._rich_delta(delta, content)

    def _rich_delta(self, delta: dict[str, Any], content: Any) -> Sequence[Chunk]:
        chunks: list[Chunk] = []
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning and isinstance(reasoning, str):
            chunks.append(ReasoningDelta(reasoning))
        for item in delta.get("reasoning_details") or ():
            _merge_detail(self._details, item)
        if isinstance(content, list):
            chunks += _content_parts(content)
        elif content:
            chunks.append(TextDelta(str(content)))
        if delta.get("refusal"):
            chunks.append(TextDelta(str(delta["refusal"])))
        for item in delta.get("tool_calls") or ():
            piece, call_id = self._calls.feed(item)
            if piece is not None:
                chunks.append(piece)
            if call_id and item.get("extra_content"):
                extra = {"id": call_id, "extra_content": item["extra_content"]}
                self._details.append({"type": _CALL_EXTRA, **extra})
        return chunks

    def finish(self) -> Sequence[Chunk]:
        if not self._finish_reason:
            raise IncompleteReply("it ended without a finish reason")
        if self._finish_reason == "error":
            raise IncompleteReply("the provider gave up in the middle")
        self._calls.check()
        reason = _FINISH.get(str(self._finish_reason).lower(), "stop")
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if len(self._calls) else "stop"
        finished = Finished(reason, _usage(self._usage), self._model)
        if self._details:
            return (ReasoningDetails(with_origin(self._details, self._provider)), finished)
        return (finished,)


def _image(image: Image) -> dict[str, Any]:
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def _content_parts(parts: list[dict[str, Any]]) -> list[Chunk]:
    """Content as a list of parts, where thinking is a list of parts again."""
    chunks: list[Chunk] = []
    for part in parts:
        if part.get("type") == "thinking":
            chunks += [ReasoningDelta(piece.get("text") or "") for piece in part["thinking"]]
        elif part.get("text"):
            chunks.append(TextDelta(part["text"]))
    return chunks


def _merge_detail(details: list[dict[str, Any]], item: dict[str, Any]) -> None:
    """Add a streamed piece of a reasoning item to the item it continues."""
    last = details[-1] if details else None
    same = ("type", "index", "id")
    if last is None or any(last.get(key) != item.get(key, last.get(key)) for key in same):
        details.append(dict(item))
        return
    for key, value in item.items():
        if key in ("text", "summary", "data") and isinstance(last.get(key), str):
            last[key] += value or ""
        elif value is not None:
            last[key] = value


def _usage(usage: dict[str, Any]) -> Usage:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    cached = (
        prompt.get("cached_tokens")
        or usage.get("prompt_cache_hit_tokens")
        or usage.get("cached_tokens")
        or 0
    )
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        cache_read_tokens=cached,
        cache_write_tokens=prompt.get("cache_write_tokens") or 0,
        reasoning_tokens=completion.get("reasoning_tokens") or 0,
    )
