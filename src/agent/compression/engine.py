"""Compression by a plugin's context engine, where `context.engine` names one.

What it returns is checked like everything else that comes from outside: if it is no conversation,
lost the newest request, or took too long, the built-in way is used instead.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from agent.model import Message
from agent.threads import in_thread
from hermes_state.history import repair_message_sequence
from hermes_state.turn_log import ROW_ID

from .compress import Compressed
from .plan import Count

log = logging.getLogger(__name__)

_ROLES = ("user", "assistant", "tool")


async def compress_by(
    engine: Any,
    messages: list[Message],
    *,
    count: Count,
    focus: str | None,
    force: bool,
    memory_context: str,
    seconds: float,
) -> Compressed | None:
    """What the engine makes of `messages`; None if that cannot be used."""
    before = count(messages)
    given = [dict(message) for message in messages]

    def work() -> Any:
        return engine.compress(
            given,
            current_tokens=before,
            focus_topic=focus,
            force=force,
            memory_context=memory_context,
        )

    try:
        async with asyncio.timeout(seconds):
            made = await in_thread(work)
        smaller = _checked(made, messages)
    except TimeoutError:
        log.warning("The context engine took longer than %g s; it is passed over", seconds)
        return None
    except Exception:
        # A plugin's engine is not ours: what it does wrong must not cost the conversation.
        log.exception("The context engine failed; it is passed over")
        return None
    rows = [row for message in messages if (row := message.get(ROW_ID)) is not None]
    newest = max(rows, default=None)
    return Compressed(smaller, None, "engine", before, count(smaller), newest, None)


def _checked(made: Any, messages: list[Message]) -> list[Message]:
    if not isinstance(made, list) or not all(isinstance(one, dict) for one in made):
        raise TypeError("a context engine must return a list of messages")
    kept = [one for one in made if one.get("role") != "system"]
    if not kept or any(one.get("role") not in _ROLES for one in kept):
        raise ValueError("a context engine returned something that is no message")
    request = next((one for one in reversed(messages) if one["role"] == "user"), None)
    if request is not None and not any(_same(one, request) for one in kept):
        raise ValueError("a context engine left the newest request out")
    plain = [{key: value for key, value in one.items() if key != ROW_ID} for one in kept]
    return repair_message_sequence(plain)


def _same(one: Message, other: Message) -> bool:
    return bool(one.get("role") == other["role"] and one.get("content") == other["content"])
