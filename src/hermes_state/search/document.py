"""What of a message can be found: its text, its tool name, the names and arguments of its calls.

Reasoning is not searched, and neither is embedded binary data. The index and the snippets read a
message through the same functions, so what was found can be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ..codec import JSON_MARK, decode_content, decode_json

# All repetitions are possessive: what was read once is never read again, however it goes on.
_EMBEDDED = re.compile(r"data:[\w.+/-]*+(?:;(?!base64,)[\w.=+-]*+)*+;base64,[A-Za-z0-9+/=_-]*+")
_RAW_STRING = re.compile(r'"((?:[^"\\]++|\\.)*+)"?+(\s*+:)?+')
_ESCAPE = re.compile(r"\\++(u[0-9a-fA-F]{4}|[bfnrt])?+")


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
    ahead = [value]
    while ahead:
        part = ahead.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            ahead.extend(reversed(part))
        elif isinstance(part, dict):
            ahead += part.get("content"), part.get("text")


def cut_content_text(raw: str) -> str:
    """The text in the beginning of a `messages.content` value that was cut off somewhere.

    Also for values that are too long to be decoded: it takes no more memory than they do.
    """
    if not raw.startswith(JSON_MARK):
        return without_embedded_data(raw)
    texts = []
    key = ""
    for match in _RAW_STRING.finditer(raw, len(JSON_MARK)):
        string, colon = match.groups()
        if colon:
            key = string
        elif string and key in ("", "text", "content"):
            texts.append(_unescaped(string))
    return without_embedded_data("\n".join(texts))


def _unescaped(string: str) -> str:
    try:
        return str(json.loads(f'"{string}"'))
    except ValueError:
        return string


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


def cut_calls_text(tool_name: str | None, raw: str) -> str:
    """The same of a `messages.tool_calls` value that was cut off, or is too long to be decoded."""
    text = _ESCAPE.sub(_character, raw)  # arguments are JSON within JSON, so any number of \\
    return without_embedded_data(f"{tool_name or ''}\n{text}")


def _character(escape: re.Match[str]) -> str:
    code = escape.group(1)
    return chr(int(code[1:], 16)) if code and code[0] == "u" else " "


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
    ahead = [value]
    while ahead:
        part = ahead.pop()
        if isinstance(part, dict):
            for key, inner in reversed(part.items()):
                ahead += inner, str(key)
        elif isinstance(part, list):
            ahead.extend(reversed(part))
        elif part is not None and not isinstance(part, bool):
            yield str(part)
