"""Responses as objects, and their ids: each names the stored message that asked for it.

So a response outlives a restart without a table of its own: what it says is in the conversation.
Every reply of a turn that has text is one item of output; tools run here and are no items.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from typing import Any

from .errors import ApiError

_ID = re.compile(r"resp_([0-9a-f]{1,15})_([0-9a-f]{16})")


def response_id(session_id: str, row_id: int) -> str:
    """The id of the response to a stored message."""
    return f"resp_{row_id:x}_{_tag(session_id, row_id)}"


def asked_row(given: str) -> int:
    """The message that a response's id names; ApiError if it is no such id."""
    match = _ID.fullmatch(given)
    if match is None:
        raise not_found(given)
    return int(match[1], 16)


def is_id_of(given: str, session_id: str, row_id: int) -> bool:
    """Whether an id belongs to a message of this session, or was made up."""
    return given == response_id(session_id, row_id)


def not_found(given: str) -> ApiError:
    """What is said about an id that names nothing of this owner's."""
    return ApiError(404, f"There is no response {given[:64]}.", code="response_not_found")


def text_item(text: str, item_id: str | None = None, status: str = "completed") -> dict[str, Any]:
    """A message of the assistant."""
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {
        "id": item_id or f"msg_{os.urandom(12).hex()}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content if text or status == "completed" else [],
    }


def output_of(turn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of a stored turn."""
    return [
        text_item(str(message["content"]), f"msg_{message.get('id') or message.get('_row') or 0:x}")
        for message in turn
        if message["role"] == "assistant"
        and isinstance(message.get("content"), str)
        and message["content"]
    ]


def response_object(
    id: str,
    model: str,
    status: str,
    output: list[dict[str, Any]],
    *,
    created_at: float | None = None,
    usage: dict[str, Any] | None = None,
    error: ApiError | None = None,
    partial: bool = False,
    asked: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A response, whole or on its way; `asked` is what the request said."""
    asked = asked or {}
    return {
        "id": id,
        "object": "response",
        "created_at": int(created_at or time.time()),
        "status": status,
        "error": {"code": "server_error", "message": str(error)} if error else None,
        "incomplete_details": {"reason": "max_output_tokens"} if partial else None,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": asked.get("previous_response_id"),
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": response_usage(usage) if usage else None,
    }


def response_usage(usage: dict[str, Any]) -> dict[str, Any]:
    """Tokens as responses name them."""
    asked, answered = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": usage.get("cache_read_tokens", 0)},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning_tokens", 0)},
        "total_tokens": usage.get("total_tokens", asked + answered),
    }


def _tag(session_id: str, row_id: int) -> str:
    return hashlib.sha256(f"{session_id}:{row_id}".encode()).hexdigest()[:16]
