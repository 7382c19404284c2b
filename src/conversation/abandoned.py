"""Turns of other processes in a conversation: waited for while they run, taken over when abandoned.

A turn is abandoned when its process is gone, or silent beyond its lease. It is resumed if it is
young enough, was not tried too often, and the configuration does not say to ask first; any other is
closed in its history, visibly, and "continue" goes on from there. Either happens once, whichever
process comes first. Before a front end begins a turn of its own it waits for one that runs
elsewhere and ends one that is abandoned: what was asked first is answered first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes_base.process import is_of_this_machine, this_process

if TYPE_CHECKING:
    from agent.config.schema import AgentSettings
    from hermes_state import Lease, SessionDB, TakenTurn

log = logging.getLogger(__name__)

MAX_ATTEMPTS_WITHOUT_PROGRESS = 3
"""Processes that may work on one turn and get nowhere: what ends them may be the turn itself."""

MAX_ATTEMPTS = 20
"""Processes that may work on one turn at all."""


CUT_OFF = (
    "⚠️ I was stopped in the middle of my answer to your last message. What I had done is kept;"
    ' say "continue" and I go on from there.'
)
LEFT_BEHIND = (
    "⚠️ The machine that worked on your last message is gone, in the middle of it. What I had done"
    ' is kept, but the files I worked on may not be here; say "continue" and I go on from there.'
)
LOCAL_TOOLS = frozenset({
    "read_file", "write_file", "patch", "search_files", "terminal", "process", "execute_code",
})  # fmt: skip
"""Tools that work on the files and processes of one machine."""
GOING_ON = "The last answer was cut off; going on with it."
TAKEN_AWAY = "This turn was taken over by another process, which answers it."


def has_abandoned_turn(db: SessionDB, session_id: str) -> bool:
    """Whether the conversation of a session has an abandoned turn."""
    turn = open_turn(db, session_id)
    return turn is not None and _is_abandoned(db, turn)


def runs_elsewhere(db: SessionDB, session_id: str) -> bool:
    """Whether another process runs a turn in the conversation."""
    return other_turn(db, session_id) is not None


def other_turn(db: SessionDB, session_id: str) -> dict[str, Any] | None:
    """The turn that somebody runs in the conversation; asked by those who do not."""
    turn = open_turn(db, session_id)
    return None if turn is None or _is_abandoned(db, turn) else turn


def open_turn(db: SessionDB, session_id: str) -> dict[str, Any] | None:
    """The turn that has not ended in the conversation of a session, whichever process holds it."""
    from hermes_state import TURN_RUNNING

    session = db.get_session(session_id)
    turn = None if session is None else db.get_turn(session["conversation_id"])
    return turn if turn is not None and turn["state"] == TURN_RUNNING else None


def _is_abandoned(db: SessionDB, turn: Mapping[str, Any]) -> bool:
    from hermes_state import is_abandoned  # not at the top: windows need only the words above

    return is_abandoned(turn, db.now())


def find_abandoned_turn(db: SessionDB, session_id: str) -> dict[str, Any] | None:
    """The abandoned turn of a conversation, as `list_abandoned_turns` has it."""
    turn = open_turn(db, session_id)
    if turn is None or not _is_abandoned(db, turn):
        return None
    return next(iter(db.list_abandoned_turns(turn["conversation_id"])), None)


def list_to_resume(db: SessionDB) -> list[dict[str, Any]]:
    """The abandoned turns that front ends should take over or close, oldest first.

    A sub-agent's work is its parent's to repeat: it is closed, unless it is this process's, which
    may only have been asleep.
    """
    from hermes_state import SUB_AGENT

    turns = []
    for turn in db.list_abandoned_turns():
        if turn["source"] != SUB_AGENT:
            turns.append(turn)
        elif turn["owner"] != this_process():
            close_turn(db, turn)
    return turns


def close_turn(db: SessionDB, turn: Mapping[str, Any]) -> None:
    """Close an abandoned turn in its history without a notice to its chat."""
    if db.close_abandoned_turn(str(turn["conversation_id"]), int(turn["fence"])):
        log.info("The abandoned turn in %s was closed", turn["conversation_id"])


def used_files_elsewhere(turn: Mapping[str, Any], workspace: str) -> bool:
    """Whether an abandoned turn has worked on files of a machine that is not this one.

    Where the `workspace` is "shared" by all machines, none has.
    """
    if workspace == "shared" or LOCAL_TOOLS.isdisjoint(turn["tools"]):
        return False
    return not is_of_this_machine(str(turn["owner"]))


def is_resumed(turn: Mapping[str, Any], settings: AgentSettings, workspace: str = "local") -> bool:
    """Whether an abandoned turn is resumed without asking; any other is closed."""
    if used_files_elsewhere(turn, workspace):
        return False
    if settings.cut_off_turns == "ask":
        return False
    if turn["age"] > settings.gateway_auto_continue_freshness:
        return False
    without_progress = turn["attempts_without_progress"] + 1
    return turn["attempts"] < MAX_ATTEMPTS and without_progress < MAX_ATTEMPTS_WITHOUT_PROGRESS


_unsure: set[Lease] = set()
"""Leases of take-overs whose outcome is unknown: this process may hold them."""


def is_unsure(lease: Lease) -> bool:
    """Whether a lease of this process is of a take-over with unknown outcome: nothing runs."""
    return lease in _unsure


def take_over_turn(
    db: SessionDB, turn: Mapping[str, Any], settings: AgentSettings, workspace: str = "local"
) -> TakenTurn | None:
    """Take over a turn of `list_abandoned_turns`, or close it; None if it is not resumed here.

    `workspace` is `replicas.workspace`: whether machines share the files that tools work on.

    When it is closed, the chat that waits for its answer is told. May be called again after a
    StoreOutcomeUnknownError: a turn that was taken over then is found to be.
    """
    from hermes_state import Lease, StoreOutcomeUnknownError

    conversation_id, fence = str(turn["conversation_id"]), int(turn["fence"])
    if not is_resumed(turn, settings, workspace):
        notice = LEFT_BEHIND if used_files_elsewhere(turn, workspace) else CUT_OFF
        if db.close_abandoned_turn(conversation_id, fence, notice):
            log.info("The abandoned turn in %s was closed", conversation_id)
        return None
    tried = Lease(conversation_id, fence + 1, this_process())
    try:
        taken = db.take_over_turn(conversation_id, fence, tried in _unsure)
    except StoreOutcomeUnknownError:
        _unsure.add(tried)
        raise
    _unsure.discard(tried)
    if taken is not None:
        log.info("Resuming the turn in %s, attempt %d", conversation_id, taken.attempts)
    return taken
