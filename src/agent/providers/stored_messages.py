"""Stored messages, taken apart the same way for every provider.

Whatever a valid history holds must be sendable to any model: text or lists of parts or nothing,
images by data URL or address, arguments that are not JSON, call ids made by another provider,
reasoning that only its author can read. Each function here is total and deterministic, so that the
same history always becomes the same bytes and prompt caches stay warm.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from agent.model import Message

EMPTY = "(empty)"
"""Stands for a message without content, which most providers refuse."""
IMAGE_LEFT_OUT = "[image: this model cannot see it]"

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[^,;]*)*),(.*)", re.DOTALL)


class Text(NamedTuple):
    """A piece of text."""

    text: str


class Image(NamedTuple):
    """A picture, by `data:` URL or by address."""

    url: str
    detail: str = ""


class Call(NamedTuple):
    """One tool call of an assistant message."""

    id: str
    name: str
    arguments: str
    """Always a JSON object."""


def parts_of(content: Any, *, vision: bool = True) -> list[Text | Image]:
    """A message's content as parts; without `vision`, a note takes the place of a picture."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content)]
    parts = (_part(item) for item in (content if isinstance(content, list) else [content]))
    return [
        Text(IMAGE_LEFT_OUT) if isinstance(part, Image) and not vision else part
        for part in parts
        if part != Text("")
    ]


def text_of(content: Any) -> str:
    """A message's content as text, pictures noted."""
    if isinstance(content, str):
        return content
    return "\n".join(
        part.text for part in parts_of(content, vision=False) if isinstance(part, Text)
    )


def calls_of(message: Message) -> list[Call]:
    """The tool calls of an assistant message."""
    calls = []
    for position, item in enumerate(message.get("tool_calls") or ()):
        function = item.get("function") or item
        name = str(function.get("name") or "unknown")
        arguments = _arguments(function.get("arguments"))
        calls.append(Call(str(item.get("id") or f"call_{position}"), name, arguments))
    return calls


def short_id(call_id: str, *, pattern: str = r"[a-zA-Z0-9_-]", limit: int = 40) -> str:
    """`call_id` itself where the provider takes it, else a stand-in that is always the same."""
    if len(call_id) <= limit and re.fullmatch(f"{pattern}+", call_id):
        return call_id
    kept = "".join(re.findall(pattern, call_id))[: limit - 8]
    return f"{kept}{zlib.crc32(call_id.encode('utf-8', 'replace')):08x}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 data of a `data:` URL; None for any other address."""
    match = _DATA_URL.fullmatch(url)
    if match is None:
        return None
    media_type, options, data = match.groups()
    if ";base64" not in options:
        data = base64.b64encode(unquote_to_bytes(data)).decode("ascii")
    return media_type or "text/plain", data.strip()


def with_origin(items: Iterable[dict[str, Any]], provider: str) -> list[dict[str, Any]]:
    """Reasoning items as they are stored: each says which provider it comes from."""
    return [{**item, "provider": provider} for item in items]


def own_reasoning(message: Message, provider: str) -> list[dict[str, Any]]:
    """The reasoning items of a message that came from `provider`.

    Another provider could not read them, and would refuse the whole request over a signature it
    did not make.
    """
    items = message.get("reasoning_details")
    if not items:
        return []
    return [item for item in items if isinstance(item, dict) and item.get("provider") == provider]


def interleave(
    blocks: list[dict[str, Any]], reasoning: Iterable[tuple[int, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """`blocks` with each reasoning block before the one it led to.

    Each pair is (number of blocks before it, reasoning block). Reasoning that leads to nothing is
    left out: providers refuse it.
    """
    waiting = sorted(reasoning, key=lambda pair: pair[0])
    result = []
    for position, block in enumerate(blocks):
        while waiting and waiting[0][0] <= position:
            result.append(waiting.pop(0)[1])
        result.append(block)
    return result


def _part(item: Any) -> Text | Image:
    if not isinstance(item, dict):
        return Text(str(item))
    image = item.get("image_url")
    if image:
        image = image if isinstance(image, dict) else {"url": image}
        return Image(str(image.get("url") or ""), str(image.get("detail") or ""))
    text = item.get("text", item.get("content"))
    return Text(text if isinstance(text, str) else json.dumps(item, ensure_ascii=False))


def _arguments(raw: Any) -> str:
    if raw is None or raw == "":
        return "{}"
    if isinstance(raw, dict):
        return json.dumps(raw, ensure_ascii=False)
    text = raw if isinstance(raw, str) else str(raw)
    try:
        valid = isinstance(json.loads(text, parse_constant=_no_constant), dict)
    except (ValueError, RecursionError):
        valid = False
    # Servers that render the history with a template parse the arguments, and fail if they cannot.
    return text if valid else json.dumps({"invalid_arguments": text}, ensure_ascii=False)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
