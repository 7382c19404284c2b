"""What of a message can be found: its text, its tool name, the names and arguments of its calls.

Reasoning is not searched, and neither is embedded binary data. The index and the snippets read a
message through the same functions, so what was found can be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .codec import JSON_MARK, decode_content, decode_json

_EMBEDDED = re.compile(r"data:[\w.+/-]*(?:;[\w.=+-]*)*;base64,[A-Za-z0-9+/=_-]*")
_RAW_TEXT_PART = re.compile(r'"text":\s*"((?:[^"\\]|\\.)*)')


def as_text(value: bytes | None) -> str | None:
    """A column read as bytes; old files may hold text that is not valid UTF-8."""
    return None if value is None else value.decode(errors="replace")


def without_embedded_data(text: str) -> str:
    """`text` with base64 data: URLs taken out."""
    return _EMBEDDED.sub(" ", text) if ";base64," in text else text


def content_text(raw: str | None) -> str:
    """The text in a `messages.content` value; parts of a list are separated by line breaks."""
    if raw is None or not raw.startswith(JSON_MARK):
        return without_embedded_data(raw or "")
    try:
        text = "\n".join(_texts(decode_content(raw)))
    except RecursionError:  # nested deeper than Python follows; its letters can still be found
        text = raw or ""
    return without_embedded_data(text)


def _texts(value: Any) -> Iterator[str]:
    """The text parts of decoded content, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        for key in ("text", "content"):
            yield from _texts(value.get(key))


def cut_content_text(raw: str) -> str:
    """The text in the beginning of a `messages.content` value that was cut off somewhere."""
    if not raw.startswith(JSON_MARK):
        return without_embedded_data(raw)
    texts = []
    for match in _RAW_TEXT_PART.finditer(raw):
        escaped = match.group(1)
        try:
            texts.append(json.loads(f'"{escaped}"'))
        except ValueError:
            texts.append(escaped)
    return without_embedded_data("\n".join(texts))


def calls_text(tool_name: str | None, tool_calls: str | None) -> str:
    """The tool's name, and names and arguments of the calls in a `messages.tool_calls` value."""
    pieces = [tool_name] if tool_name else []
    if tool_calls:
        try:
            calls = decode_json(tool_calls)
            for call in calls if isinstance(calls, list) else [calls]:
                pieces += _call(call)
        except RecursionError:
            pieces.append(tool_calls)
    return without_embedded_data("\n".join(pieces))


def _call(call: Any) -> Iterator[str]:
    if not isinstance(call, dict):
        yield from _leaves(call)
        return
    function = call.get("function")
    part = function if isinstance(function, dict) else call
    name, arguments = part.get("name"), part.get("arguments", part.get("input"))
    if isinstance(name, str):
        yield name
    yield from _leaves(decode_json(arguments) if isinstance(arguments, str) else arguments)


def _leaves(value: Any) -> Iterator[str]:
    """Keys and values of decoded JSON, in order."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
