"""The turn that another process runs in a conversation, or left in it.

Before a front end begins a turn of its own it waits for one that runs elsewhere, and brings one to
its end whose process is gone: what was asked first is answered first. Looking is one short read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.config.schema import AgentSettings
    from hermes_state import SessionDB, TakenTurn

LOOK_SECONDS = 0.5
"""After which it is looked whether another process is gone; the end of its turn is a write."""

GOING_ON = "The last answer was cut off; going on with it."
TAKEN_AWAY = "This turn was taken over by another process, which answers it."


def is_cut_off(db: SessionDB, session_id: str) -> bool:
    """Whether the conversation is in a turn that nobody runs any more."""
    turn = _open_turn(db, session_id)
    return turn is not None and _is_abandoned(turn)


def runs_elsewhere(db: SessionDB, session_id: str) -> bool:
    """Whether somebody runs a turn in the conversation; asked by those who do not."""
    turn = _open_turn(db, session_id)
    return turn is not None and not _is_abandoned(turn)


def take_over(db: SessionDB, session_id: str, settings: AgentSettings) -> TakenTurn | None:
    """Take over the turn of a conversation that was cut off, or close it if it is not gone on with.

    None also if another process was first.
    """
    turn = _open_turn(db, session_id)
    if turn is None or not _is_abandoned(turn):
        return None
    from agent import recovery

    return recovery.take_over(db, turn, settings)


def _open_turn(db: SessionDB, session_id: str) -> dict[str, Any] | None:
    """The turn that has not ended in the conversation of a session, whoever has it."""
    session = db.get_session(session_id)
    turn = None if session is None else db.get_turn(session["conversation_id"])
    return turn if turn is not None and turn["state"] == "running" else None


def _is_abandoned(turn: dict[str, Any]) -> bool:
    from hermes_state import is_abandoned

    return is_abandoned(turn, time.time())


def await_end(
    db: SessionDB,
    session_id: str,
    tell: Callable[[str], object],
    is_stopped: Callable[[], bool] = lambda: False,
) -> bool:
    """Wait until nobody else runs a turn in the conversation; False if the wait was stopped.

    `tell` gets a line for the person if there is something to wait for.
    """
    if not runs_elsewhere(db, session_id):
        return True
    from agent.running import WAITING

    tell(WAITING)
    while True:
        seen = db.wake.number
        if not runs_elsewhere(db, session_id):
            return True
        if is_stopped():
            return False
        db.wake.wait(seen, LOOK_SECONDS)
