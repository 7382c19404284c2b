"""Signals to turns of other processes, through the store: stop, steer, make way, answer a question.

A process that runs turns gets a notification and polls every few seconds besides, so an answer may
take that long. A message for such a turn stays in the inbox until the turn has read it; a stop that
was not taken in time is withdrawn, and the caller gets NotHeardError.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes_state import SIGNALS

if TYPE_CHECKING:
    from hermes_state import SessionDB

STOP, STEER, ANSWER, MAKE_WAY = "stop", "steer", "answer", "make-way"
"""Kinds of signals."""
UNANSWERED = (STEER, MAKE_WAY)
"""Those that nobody waits for an answer to."""

TAKEN, ENDED, UNKNOWN = "taken", "ended", "unknown"
"""Outcomes of a signal: the turn got it, the turn had ended by then, its process does not know the
kind (it has another version)."""

ANSWER_SECONDS = 6.0
"""Time for the running process to take a signal; it polls three times within it."""

LOOK_SECONDS = 0.5
"""Poll interval for the answer, should its notification be lost."""


class NotHeardError(Exception):
    """The process that runs the turn did not take the signal in time; it never will."""

    def __init__(self) -> None:
        super().__init__(
            "Another process runs this turn and has not answered: it is busy, or cannot reach the "
            "store. Try again."
        )


def stop_elsewhere(db: SessionDB, session_id: str, started_at: float | None = None) -> bool:
    """Stop the turn that another process runs in a conversation; False if none runs any more.

    `started_at` is when the turn began that is meant: a later one is not stopped. Waits for that
    process's answer. Raises NotHeardError.
    """
    return _signal(db, session_id, STOP, None, started_at) == TAKEN


def steer_elsewhere(
    db: SessionDB, session_id: str, text: str, inbox_id: str, started_at: float | None = None
) -> bool:
    """Have the turn of another process read a message of the inbox; False if none runs.

    `started_at` as for a stop. Does not wait: a message that is not read in that turn is answered
    after it.
    """
    payload = {"text": text, "inbox_id": inbox_id}
    return db.send_signal(session_id, STEER, payload, started_at) is not None


def make_way_elsewhere(
    db: SessionDB, session_id: str, inbox_id: str, started_at: float | None = None
) -> bool:
    """Have the turn of another process make way for a message of the inbox that came while it ran;
    False if none runs, or it began after the message had come.

    `started_at` as for a stop. Does not wait: where it is not heard, the message is answered after
    the turn.
    """
    return db.send_signal(session_id, MAKE_WAY, None, started_at, inbox_id) is not None


def answer_elsewhere(db: SessionDB, session_id: str, request_id: str | None, answer: str) -> bool:
    """Answer a question (not an approval) that the turn of another process asks, the oldest one if
    none is named; False if it is not open any more, or somebody was first.

    Waits for that process's answer. Raises NotHeardError.
    """
    payload = {"request_id": request_id, "answer": answer}
    return _signal(db, session_id, ANSWER, payload) == TAKEN


def _signal(
    db: SessionDB,
    session_id: str,
    kind: str,
    payload: Mapping[str, Any] | None = None,
    started_at: float | None = None,
) -> str | None:
    signal_id = db.send_signal(session_id, kind, payload, started_at)
    if signal_id is None:
        return None
    # A file does not tell one change from another.
    changes = db.wake.topic(SIGNALS) if db.is_on_server else db.wake
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        seen = changes.number
        outcome = db.get_signal_outcome(signal_id)
        left = deadline - time.monotonic()
        if outcome is not None or left <= 0:
            break
        changes.wait(seen, min(LOOK_SECONDS, left))
    was_taken = db.withdraw_signal(signal_id)
    if outcome is None and not was_taken:
        raise NotHeardError
    return outcome or TAKEN
