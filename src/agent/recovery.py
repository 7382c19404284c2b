"""Turns whose process is gone: which are gone on with, and how that is told.

A turn is gone on with if it is young enough, was not tried too often, and the configuration does
not say to ask first. Any other is closed in its history, visibly; "continue" goes on from there.
Either happens once, whichever process comes first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from hermes_state import SessionDB, TakenTurn

from .config.schema import AgentSettings
from .model import Message

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 3
"""Processes that may work on one turn and get nowhere: what ends them may be the turn itself."""

MOST_LIVES = 20
"""Processes that may work on one turn at all."""

CUT_OFF = (
    "⚠️ I was stopped in the middle of my answer to your last message. What I had done is kept;"
    ' say "continue" and I go on from there.'
)


def take_over(db: SessionDB, turn: Mapping[str, Any], settings: AgentSettings) -> TakenTurn | None:
    """Take over a turn of `list_abandoned_turns`, or close it; None if there is nothing to go on.

    One that is not gone on with is closed, and the chat that waits for its answer is told.
    """
    conversation_id, fence = str(turn["conversation_id"]), int(turn["fence"])
    old = time.time() - turn["started_at"] > settings.gateway_auto_continue_freshness
    ask_first = settings.cut_off_turns == "ask"
    hopeless = turn["fruitless"] + 1 >= MOST_ATTEMPTS or turn["attempts"] >= MOST_LIVES
    if old or ask_first or hopeless:
        if db.close_abandoned_turn(conversation_id, fence, CUT_OFF):
            log.info("The turn in %s was cut off and is not gone on with", conversation_id)
        return None
    taken = db.take_over_turn(conversation_id, fence)
    if taken is not None:
        log.info("The turn in %s is gone on with, attempt %d", conversation_id, taken.attempts)
    return taken


def unknown_outcome(tools: Iterable[str]) -> str:
    """What a person is told of tools that may or may not have taken effect."""
    names = ", ".join(dict.fromkeys(tools))
    return (
        f"⚠️ I was stopped while this ran: {names}. It may or may not have taken effect, and is not"
        " run again by itself."
    )


def has_answer(messages: list[Message]) -> bool:
    """Whether a conversation ends with an answer, and not with something to do."""
    last = messages[-1] if messages else {"role": "user"}
    return last["role"] == "assistant" and not last.get("tool_calls")
