"""Notes: messages to a conversation that no person wrote, as one agent sees them.

A note is stored before its sender continues (`hermes_state.notes`). The running turn takes it
between two steps; a front end whose conversation is idle runs a `WaitingNotes` request; else it
comes with the next message.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from hermes_state import at_hand
from hermes_state.notes import QUIET, STEERED, WAKING

from .events import NoteStored

if TYPE_CHECKING:
    from .agent import AIAgent

_numbers = itertools.count(1)
_newest = 0
"""Counts the notes that this process has stored: while it is unchanged, no turn asks the store."""


def count_stored() -> None:
    """Count a stored note."""
    global _newest
    _newest = next(_numbers)


class Notes:
    """The notes of one agent's conversation."""

    def __init__(self, agent: AIAgent) -> None:
        self._agent = agent
        self._seen = -1

    def notify(self, text: str, name: str, quiet: bool = False) -> None:
        """Store a note for the conversation under `name`, once; raises StoreError.

        A quiet note begins no turn of its own. This is what tools get as `services.notify`.
        """
        self._add(text, name, QUIET if quiet else WAKING)

    def steer(self, text: str) -> None:
        """Add a message to the running turn, or if that ends first, to the conversation."""
        self._add(text, f"steered:{os.urandom(8).hex()}", STEERED)

    def _add(self, text: str, name: str, source: str) -> None:
        agent = self._agent
        if agent.db is None:  # without a store it lives as long as the process
            agent._busy.steer({"role": "user", "content": text})
            return
        is_new = agent.db.add_note(name, agent.session_id, text, source, agent.user_id)
        if is_new and source != QUIET:
            count_stored()
            agent.announce(NoteStored(agent.session_id))

    async def has_news(self) -> bool:
        """Whether notes wait for the running turn."""
        db = self._agent.db
        if db is None or self._seen == _newest:
            return False
        newest = _newest
        if await at_hand(db, db.has_notes, self._agent.session_id):
            return True
        self._seen = newest
        return False
