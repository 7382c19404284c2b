"""How many tokens a request takes, estimated without a tokenizer.

Invariant: rather too many than too few. An estimate that is too high compresses a little early; one
that is too low ends in a refused request. So the pieces are those of a small vocabulary: digits one
by one, long words in parts, foreign scripts by their bytes. A text of a megabyte takes milliseconds
per hundred kilobytes and never more than that, whatever it holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from agent.model import Message

PER_MESSAGE = 6
"""Role and frame of a message."""
PER_CALL = 12
"""Frame of a tool call: its id, its name, the brackets around it."""
PER_IMAGE = 1600
"""What the dearest providers take for one picture."""

REASONING_FIELDS = (
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
)
"""Where a message keeps what the model thought; a provider sends back one of them at most."""

_SAMPLE = 200_000
"""Longer texts are judged by pieces of this length in all: counting must stay quick."""
_PIECES = re.compile(
    r"[A-Z]?[a-z]{1,4}"  # a word or a part of one; the space before it costs nothing
    r"|[A-Z]{1,2}"
    r"|[0-9]"
    r"|[!-/:-@\[-`{-~]{1,2}"  # signs, often two at a time
    r"|[ ]{2,16}|\n{1,2}|[\x00-\x09\x0b-\x1f\x7f]"
)
_DENSE = re.compile(r"[A-Za-z0-9+/=]{40,}")
"""Base64, hashes and the like: hardly two characters to a token."""
_RULE = re.compile(r"([-=_*#.~+])\1{7,}")
_HANGUL = re.compile(r"[\uac00-\ud7a3]")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")


def estimate_tokens(
    messages: Iterable[Message], system: str = "", tools: Sequence[dict[str, Any]] = ()
) -> int:
    """A cautious estimate of the tokens of a request: rather too many than too few."""
    total = sum(map(message_tokens, messages))
    if system:
        total += PER_MESSAGE + text_tokens(system)
    for tool in tools:
        total += PER_CALL + text_tokens(as_text(tool))
    return total


def message_tokens(message: Message) -> int:
    """One message with its frame, its tool calls and the reasoning that is sent back."""
    total = PER_MESSAGE + content_tokens(message.get("content"))
    if message.get("api_content"):
        # Sent instead of the content by whoever made it.
        total = max(total, PER_MESSAGE + content_tokens(message["api_content"]))
    for field in ("tool_calls", "tool_call_id", "name", "tool_name"):
        value = message.get(field)
        if value and field == "tool_calls" and isinstance(value, list):
            total += sum(PER_CALL + text_tokens(as_text(call)) for call in value)
        elif value:
            total += text_tokens(as_text(value))
    reasoning = [
        text_tokens(as_text(message[field])) for field in REASONING_FIELDS if message.get(field)
    ]
    return total + max(reasoning, default=0)


def content_tokens(content: Any) -> int:
    """A message's content: text, a list of parts, or nothing."""
    if content is None:
        return 0
    if isinstance(content, str):
        return text_tokens(content)
    if not isinstance(content, list):
        return text_tokens(as_text(content))
    return sum(
        PER_IMAGE if is_image(part) else 2 + text_tokens(part_text(part)) for part in content
    )


def is_image(part: Any) -> bool:
    """Whether a part of a message's content is a picture."""
    return isinstance(part, dict) and (
        bool(part.get("image_url")) or "image" in str(part.get("type", ""))
    )


def part_text(part: Any) -> str:
    """The text of one part of a message's content; JSON for a part of another kind."""
    if isinstance(part, dict):
        text = part.get("text", part.get("content"))
        if isinstance(text, str):
            return text
    return part if isinstance(part, str) else as_text(part)


def text_tokens(text: str) -> int:
    """A cautious estimate for a text."""
    if len(text) > _SAMPLE:
        third = _SAMPLE // 3
        middle = len(text) // 2
        sample = text[:third] + text[middle : middle + third] + text[-third:]
        return text_tokens(sample) * len(text) // len(sample) + 1
    dense = sum(map(len, _DENSE.findall(text)))
    if dense:
        text = _DENSE.sub("", text)
    tokens = dense * 17 // 20 + len(_PIECES.findall(_RULE.sub(_short_rule, text)))
    if not text.isascii():
        foreign = "".join(_FOREIGN.findall(text))
        # One for a letter of two bytes, two for a Chinese character, three for an emoji.
        tokens += len(foreign.encode("utf-8", "replace")) - len(foreign) or len(foreign)
        tokens += len(_HANGUL.findall(foreign))
    return tokens


def _short_rule(match: re.Match[str]) -> str:
    return "-" * (2 + len(match[0]) // 16)


def as_text(value: Any) -> str:
    """Any value as the text a request would hold for it."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)  # keys that JSON has not, or a value within itself
