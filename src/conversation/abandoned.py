"""Turns of other processes in a conversation: waited for while they run, taken over when abandoned.

A turn is abandoned when its process is gone, or silent beyond its lease. It is resumed if it is
young enough, was not tried too often, and the configuration does not say to ask first; any other is
closed in its history, visibly, and "continue" goes on from there. Either happens once, whichever
process comes first. Before a front end begins a turn of its own it waits for one that runs
elsewhere and ends one that is abandoned: what was asked first is answered first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.config.schema import AgentSettings
    from hermes_state import SessionDB, TakenTurn

log = logging.getLogger(__name__)

MAX_ATTEMPTS_WITHOUT_PROGRESS = 3
"""Processes that may work on one turn and get nowhere: what ends them may be the turn itself."""

MAX_ATTEMPTS = 20
"""Processes that may work on one turn at all."""


CUT_OFF = (
    "⚠️ I was stopped in the middle of my answer to your last message. What I had done is kept;"
    ' say "continue" and I go on from there.'
)
GOING_ON = "The last answer was cut off; going on with it."
TAKEN_AWAY = "This turn was taken over by another process, which answers it."


def has_abandoned_turn(db: SessionDB, session_id: str) -> bool:
    """Whether the conversation of a session is in a turn that nobody runs any more."""
    turn = open_turn(db, session_id)
    return turn is not None and _is_abandoned(turn)


def runs_elsewhere(db: SessionDB, session_id: str) -> bool:
    """Whether somebody runs a turn in the conversation; asked by those who do not."""
    turn = open_turn(db, session_id)
    return turn is not None and not _is_abandoned(turn)


def open_turn(db: SessionDB, session_id: str) -> dict[str, Any] | None:
    """The turn that has not ended in the conversation of a session, whoever has it."""
    from hermes_state import TURN_RUNNING

    session = db.get_session(session_id)
    turn = None if session is None else db.get_turn(session["conversation_id"])
    return turn if turn is not None and turn["state"] == TURN_RUNNING else None


def _is_abandoned(turn: Mapping[str, Any]) -> bool:
    from hermes_state import is_abandoned  # not at the top: windows need only the words above

    return is_abandoned(turn, time.time())


def find_abandoned_turn(db: SessionDB, session_id: str) -> dict[str, Any] | None:
    """The abandoned turn of a conversation, as `list_abandoned_turns` has it."""
    turn = open_turn(db, session_id)
    if turn is None or not _is_abandoned(turn):
        return None
    return next(iter(db.list_abandoned_turns(turn["conversation_id"])), None)


def take_over_turn(
    db: SessionDB, turn: Mapping[str, Any], settings: AgentSettings
) -> TakenTurn | None:
    """Take over a turn of `list_abandoned_turns`, or close it; None if it is not resumed here.

    When it is closed, the chat that waits for its answer is told.
    """
    conversation_id, fence = str(turn["conversation_id"]), int(turn["fence"])
    is_old = time.time() - turn["started_at"] > settings.gateway_auto_continue_freshness
    ask_first = settings.cut_off_turns == "ask"
    attempts, without_progress = turn["attempts"], turn["fruitless"] + 1
    is_hopeless = attempts >= MAX_ATTEMPTS or without_progress >= MAX_ATTEMPTS_WITHOUT_PROGRESS
    if is_old or ask_first or is_hopeless:
        if db.close_abandoned_turn(conversation_id, fence, CUT_OFF):
            log.info("The abandoned turn in %s was closed", conversation_id)
        return None
    taken = db.take_over_turn(conversation_id, fence)
    if taken is not None:
        log.info("Resuming the turn in %s, attempt %d", conversation_id, taken.attempts)
    return taken
