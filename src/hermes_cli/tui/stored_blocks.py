"""Stored messages as the blocks of a transcript."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from textual.widget import Widget

from .answer import Answer
from .blocks import UserMessage
from .reasoning import Reasoning
from .texts import plain
from .tool_card import ToolCard

_HEADLINES = ("command", "path", "pattern", "query", "url", "goal", "name", "action")


def blocks_of(messages: Iterable[Any], *, show_reasoning: bool = False) -> list[Widget]:
    """The blocks that show these messages, as the server tells them (WireMessage)."""
    blocks: list[Widget] = []
    cards: dict[str, ToolCard] = {}
    for message in messages:
        role = message.get("role")
        text = plain(message.get("content"))
        if role == "user":
            blocks.append(UserMessage(text, message.get("timestamp")))
        elif role == "assistant":
            if message.get("reasoning"):
                thought = str(message["reasoning"])
                blocks.append(Reasoning(thought, is_open=show_reasoning, is_over=True))
            if text.strip():
                answer = Answer(text)
                answer.timestamp = message.get("timestamp")
                blocks.append(answer)
            for call in message.get("tool_calls") or ():
                card = _card(call)
                cards[card.tool_id] = card
                blocks.append(card)
        elif role == "tool":
            earlier_card = cards.get(str(message.get("tool_call_id")))
            if earlier_card is not None and message.get("outcome") == "unknown":
                earlier_card.leave_unknown(text)
            elif earlier_card is not None:
                earlier_card.finish(text, is_error=_looks_failed(text))
                earlier_card.fold(False)  # what was done before is only interesting on request
    return blocks


def _card(call: dict[str, Any]) -> ToolCard:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {"arguments": arguments}
    if not isinstance(arguments, dict):
        arguments = {}
    context = next(
        (str(arguments[name]) for name in _HEADLINES if isinstance(arguments.get(name), str)), ""
    )
    return ToolCard(str(call.get("id")), str(function.get("name") or "tool"), context, arguments)


def _looks_failed(result: str) -> bool:
    return result.startswith(("Error", "[Error", "[outcome unknown]"))
