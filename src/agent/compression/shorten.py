"""Making messages smaller without a model: every cut is visible and says where the whole is.

Messages are never changed in place; what needs no cut is the same dict. Whatever goes in, what
comes out has the same role, the same tool calls with the same ids, and valid JSON for arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from agent.model import Message

from .summary import row_of
from .tokens import (
    PER_CALL,
    PER_MESSAGE,
    REASONING_FIELDS,
    as_text,
    is_image,
    message_tokens,
    part_text,
    text_tokens,
)

OLD_TOOL_OUTPUT = 90
"""Tokens that are left of a tool's output when it is old."""
OLD_ARGUMENT = 60
"""Tokens that are left of one long argument of an old tool call."""

_IN_FULL = re.compile(r"in full: message #(\d+)")


def cut(text: str, tokens: int, row: int | None = None) -> str:
    """`text` within about so many tokens: its beginning and its end, and what is missing between.

    `row` is the message that holds the whole; a text that was cut before keeps its older pointer.
    """
    size = text_tokens(text)
    if size <= tokens:
        return text
    earlier = _IN_FULL.search(text)
    pointer = earlier[1] if earlier else row
    where = f"; in full: message #{pointer}" if pointer else ""
    room = max(0, tokens - text_tokens(marker(len(text), where)))
    length = len(text) * room // size
    for _ in range(12):
        short = _ends(text, length, where)
        if text_tokens(short) <= tokens:
            return short
        length = length * 4 // 5
    return _ends(text, 0, where)


def _ends(text: str, length: int, where: str) -> str:
    first = text[: length * 2 // 3]
    last = text[len(text) - (length - len(first)) :] if length > len(first) else ""
    return f"{first}{marker(len(text) - length, where)}{last}"


def marker(characters: int, where: str = "") -> str:
    """What stands in the place of what was cut."""
    return f" [… {characters} characters left out{where} …] "


def text_of(content: Any) -> str:
    """A message's content as text, with a note for each picture; never raises."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return as_text(content)
    return "\n".join("[image]" if is_image(part) else part_text(part) for part in content)


def without_reasoning(message: Message) -> Message:
    """The message without what the model thought."""
    if not any(field in message for field in REASONING_FIELDS):
        return message
    return {name: value for name, value in message.items() if name not in REASONING_FIELDS}


def count_images(messages: Iterable[Message]) -> int:
    """How many pictures some messages hold."""
    return sum(
        sum(map(is_image, message["content"]))
        for message in messages
        if isinstance(message.get("content"), list)
    )


def without_images(message: Message) -> Message:
    """The message with a note in the place of each picture."""
    content = message.get("content")
    if not isinstance(content, list) or not any(map(is_image, content)):
        return message
    row = row_of(message)
    note = f"[image left out; see message #{row}]" if row else "[image left out]"
    parts = [{"type": "text", "text": note} if is_image(part) else part for part in content]
    return {**without_sent(message), "content": parts}


def without_sent(message: Message) -> Message:
    """The message without the exact text that was sent, which no longer stands for it."""
    return {name: value for name, value in message.items() if name != "api_content"}


def lighten(message: Message) -> Message:
    """An old message: no reasoning, no pictures, tool outputs and arguments shortened."""
    message = without_images(without_reasoning(message))
    if message.get("role") == "tool":
        return with_content(message, OLD_TOOL_OUTPUT)
    return with_arguments(message, OLD_ARGUMENT) if message.get("tool_calls") else message


def with_content(message: Message, tokens: int) -> Message:
    """The message with its content cut to about so many tokens; a list of parts becomes text."""
    content = message.get("content")
    if content is None:
        return message
    if isinstance(content, list):
        text = "\n".join(map(part_text, without_images(message)["content"]))
    else:
        text = as_text(content)
    if isinstance(content, str) and text_tokens(text) <= tokens and not message.get("api_content"):
        return message
    return {**without_sent(message), "content": cut(text, tokens, row_of(message))}


def with_arguments(message: Message, tokens: int) -> Message:
    """The message with long arguments of its tool calls shortened; they stay JSON objects."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    shorter = [_shorter_call(call, tokens, row_of(message)) for call in calls]
    if all(new is old for new, old in zip(shorter, calls, strict=True)):
        return message
    return {**message, "tool_calls": shorter}


def _shorter_call(call: Any, tokens: int, row: int | None) -> Any:
    if not isinstance(call, dict):
        return call
    function = call.get("function")
    holder = function if isinstance(function, dict) else call
    given = holder.get("arguments")
    if given is None or text_tokens(as_text(given)) <= tokens:
        return call
    try:
        parsed = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        parsed = None
    share = tokens
    if isinstance(parsed, dict) and len(parsed) <= 20:
        share = tokens // max(1, len(parsed))
        parsed = {
            str(name)[:80]: cut(as_text(value), share, row)
            if text_tokens(as_text(value)) > share
            else value
            for name, value in parsed.items()
        }
    else:
        parsed = {"shortened": cut(as_text(given), share, row)}
    arguments = json.dumps(parsed, ensure_ascii=False, default=str)
    shorter = {**holder, "arguments": arguments if isinstance(given, str) else parsed}
    return {**call, "function": shorter} if holder is function else shorter


def fit_message(message: Message, tokens: int) -> Message:
    """The message within about so many tokens, as far as its tool calls allow."""
    if message_tokens(message) <= tokens:
        return message
    message = without_reasoning(message)
    if message_tokens(message) <= tokens:
        return message
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        room = max(0, tokens // 2 - PER_MESSAGE - PER_CALL * len(calls))
        message = with_arguments(message, room // len(calls))
    message = without_images(message)
    rest = message_tokens({**message, "content": None, "api_content": None})
    return (
        with_content(message, max(0, tokens - rest))
        if message_tokens(message) > tokens
        else message
    )


def fit_group(group: list[Message], tokens: int) -> list[Message]:
    """A message and the results of its tool calls within about so many tokens.

    Room is shared out from the smallest message upwards, so that only the large ones are cut.
    """
    sizes = [message_tokens(message) for message in group]
    if sum(sizes) <= tokens:
        return group
    limits: dict[int, int] = {}
    room = tokens
    for done, index in enumerate(sorted(range(len(group)), key=sizes.__getitem__)):
        limits[index] = min(sizes[index], room // (len(group) - done))
        room -= limits[index]
    return [fit_message(message, limits[index]) for index, message in enumerate(group)]
