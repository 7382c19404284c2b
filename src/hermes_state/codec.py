"""How Python values become column values and back, without loss.

Plain text is stored as it is. Everything else that may stand in a text column (lists of parts, lone
surrogates, text that looks like our own marker) is stored as the marker followed by JSON, so that
what was appended is what is loaded. (Two surrogates that make a pair come back as the one character
they stand for.) Old databases use the same marker.
"""

from __future__ import annotations

import json
from typing import Any

from .errors import InvalidMessageError

JSON_MARK = "\x00json:"

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def is_storable(text: str) -> bool:
    """Whether `text` is valid Unicode, that is, free of lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def without_surrogates(text: str) -> str:
    """The text with U+FFFD in the place of each lone surrogate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json(value: Any, field: str) -> str:
    """JSON for a column; anything JSON cannot hold is refused by name."""
    try:
        text = _compact(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessageError(f"{field} cannot be stored as JSON: {error}") from error
    return text if is_storable(text) else _ascii(value)


def encode_content(value: Any, field: str = "content") -> str | None:
    """Column value for message text: a string, a list of parts, a dict, or None."""
    if value is None:
        return None
    if isinstance(value, str):
        if is_storable(value) and not value.startswith(JSON_MARK):
            return value
        return JSON_MARK + _ascii(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise InvalidMessageError(
            f"{field} is bytes; decode it to text, or pass an image part with a data: URL"
        )
    return JSON_MARK + to_json(value, field)


def decode_content(raw: str | None) -> Any:
    """The value that `encode_content` stored. A damaged JSON text comes back as the text it is."""
    if raw is None or not raw.startswith(JSON_MARK):
        return raw
    try:
        return json.loads(raw[len(JSON_MARK) :])
    except ValueError:
        return raw


def encode_json(value: Any, field: str) -> str | None:
    """Column value for a JSON column; a string is taken as JSON that is already encoded."""
    if value is None:
        return None
    if isinstance(value, str):
        return value if is_storable(value) else _ascii(value)
    return to_json(value, field)


def decode_json(raw: str | None) -> Any:
    """The value in a JSON column; text that is not JSON comes back as it is."""
    if raw is None:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def encode_text(value: Any, field: str) -> str | None:
    """Column value for a name, id or other short text: a string (or number), or None."""
    if value is None:
        return None
    if isinstance(value, str):
        return value if is_storable(value) else without_surrogates(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise InvalidMessageError(f"{field} must be text, not {type(value).__name__}")


def plain_text(content: Any) -> str:
    """The text a person would read in decoded message content; images become "[image]"."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        pieces = []
        for part in content:
            if isinstance(part, str):
                pieces.append(part)
            elif isinstance(part, dict):
                text = part.get("text")
                if isinstance(text, str):
                    pieces.append(text)
                elif "image" in str(part.get("type", "")):
                    pieces.append("[image]")
        return " ".join(pieces)
    return to_json(content, "content")
