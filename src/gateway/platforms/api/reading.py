"""What a request says: its body within limits, its messages, its headers."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request

from conversation.busy import BusyMode
from tools.base import Mode

from .errors import ApiError

MAX_BODY = 32 * 1024 * 1024
BODY_SECONDS = 60.0
DISCARDED = 4
"""Times the limit that is read and thrown away, so that the client is there to be told."""
MAX_MESSAGES = 10_000
SESSION_HEADER = "X-Hermes-Session-Id"
KEY_HEADER = "X-Hermes-Session-Key"
IDEMPOTENCY_HEADER = "Idempotency-Key"
BUSY_HEADER = "X-Hermes-Busy"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:@~=+-]{0,126}[A-Za-z0-9_~=+-])?")
_PRINTABLE = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,254}")
_PARTS = {"text": "text", "input_text": "text", "output_text": "text"}


class Said(NamedTuple):
    """What a client's messages come to."""

    content: Any
    """The last message of the user: text, or parts."""
    history: list[dict[str, Any]]
    instructions: str


async def read_json(request: Request, limit: int = MAX_BODY) -> dict[str, Any]:
    """The body as an object; raises ApiError if it is too large, too slow or not one."""
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= limit:
                    chunks.append(chunk)
                elif size > DISCARDED * limit:
                    break  # who sends that much does not wait for an answer
    except TimeoutError:
        raise ApiError(408, "The body did not arrive in time.", code="body_timeout") from None
    except ClientDisconnect:
        raise ApiError(400, "The body ended too soon.", code="body_cut") from None
    if size > limit:
        raise _too_large(limit)
    if not size:
        return {}
    try:
        parsed = json.loads(b"".join(chunks))
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(parsed, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_json")
    return parsed


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413,
        f"The body is larger than {limit // 1024} KiB.",
        code="body_too_large",
        headers={"Connection": "close"},
    )


def session_name(text: str, param: str = SESSION_HEADER) -> str:
    """A session id from a client; raises ApiError unless it is a plain name."""
    if not _NAME.fullmatch(text) or ".." in text:
        raise ApiError(
            400,
            f"{param} must be 1 to 128 letters, digits or _.:@~=+- and begin with a letter or"
            " digit.",
            code="invalid_session_id",
            param=param,
        )
    return text


def header(request: Request, name: str) -> str | None:
    """A header of ours, if it is there; raises ApiError if it cannot be a name."""
    text = request.headers.get(name, "").strip()
    if not text:
        return None
    if not _PRINTABLE.fullmatch(text):
        raise ApiError(400, f"{name} must be at most 255 printable ASCII characters.", param=name)
    return text


def chat_messages(messages: Any) -> Said:
    """The prompt, what was said before it, and the system's words, of a list of messages."""
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "messages must be a list that is not empty.", param="messages")
    if len(messages) > MAX_MESSAGES:
        raise ApiError(400, f"More than {MAX_MESSAGES} messages.", param="messages")
    system: list[str] = []
    talk: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError(400, f"{where} must be an object with a role.", param=where)
        role = message["role"]
        if role in ("system", "developer"):
            system.append(plain(content_of(message.get("content"), where)))
        elif role in ("user", "assistant", "tool"):
            talk.append(_message(message, role, where))
        elif role != "function":
            raise ApiError(400, f"{where}.role is not known: {role!r}.", param=f"{where}.role")
    last = next((n for n in reversed(range(len(talk))) if talk[n]["role"] == "user"), None)
    if last is None or is_blank(talk[last]["content"]):
        raise ApiError(400, "There is no message of the user to answer.", param="messages")
    return Said(talk[last]["content"], talk[:last], "\n\n".join(filter(None, system)))


def _message(message: dict[str, Any], role: str, where: str) -> dict[str, Any]:
    kept: dict[str, Any] = {"role": role, "content": content_of(message.get("content"), where)}
    calls = message.get("tool_calls")
    if role == "assistant" and calls:
        if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
            raise ApiError(400, f"{where}.tool_calls cannot be read.", param=f"{where}.tool_calls")
        kept["tool_calls"] = calls
    if role == "tool":
        kept["tool_call_id"] = str(message.get("tool_call_id") or "")
    return kept


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(function, dict)
        and isinstance(call.get("id"), str)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments", ""), str)
    )


def content_of(content: Any, where: str) -> Any:
    """A message's content as models are sent it: text, or parts with text and images."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ApiError(400, f"{where}.content must be text or a list of parts.", param=where)
    parts = [_part(part, where) for part in content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(part: Any, where: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _PARTS and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind in ("image_url", "input_image"):
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if isinstance(url, str) and url.startswith(("data:image/", "https://", "http://")):
            return {"type": "image_url", "image_url": {"url": url}}
    raise ApiError(
        400,
        f"{where}.content has a part of type {kind!r} that cannot be used here; text and image_url"
        " can.",
        code="unsupported_content",
        param=where,
    )


def plain(content: Any) -> str:
    """The text of a content."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def is_blank(content: Any) -> bool:
    """Whether a content says nothing."""
    return not content.strip() if isinstance(content, str) else not content


def flag(value: Any) -> bool:
    """A yes or no, as JSON or a query string says it."""
    return value if isinstance(value, bool) else str(value).lower() in ("1", "true", "yes", "on")


def busy_mode(given: str | None) -> BusyMode:
    """What a message does that comes while a turn runs, as the header says; it waits if absent."""
    modes: dict[str | None, BusyMode] = {
        None: "queue", "queue": "queue", "steer": "steer", "interrupt": "interrupt",
    }  # fmt: skip
    if given in modes:
        return modes[given]
    raise ApiError(
        400,
        f"{BUSY_HEADER} must be queue, steer or interrupt.",
        code="invalid_busy_mode",
        param=BUSY_HEADER,
    )


def mode_in(body: dict[str, Any]) -> Mode | None:
    """The mode that a request wants for its conversation; None if it says nothing of it."""
    given = body.get("mode")
    if given is None or given == "plan" or given == "guarded":
        return given
    if given == "full":
        raise ApiError(
            403,
            "The mode full, without wall and questions, cannot be chosen over the API. Whoever runs"
            " Hermes may configure it: terminal.mode.",
            code="mode_not_allowed",
            param="mode",
        )
    raise ApiError(400, "mode must be plan or guarded.", code="invalid_mode", param="mode")


def number(request: Request, name: str, default: int, most: int) -> int:
    """A number of the query string within bounds; raises ApiError if it is none."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit():
        raise ApiError(400, f"{name} must be a whole number.", param=name)
    return min(int(text[:9]), most)
