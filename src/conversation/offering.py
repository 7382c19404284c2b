"""Messages that wait here for the end of another process's turn, offered to that turn to read.

A message stays in the inbox until the turn has stored it, which takes it there. So one that comes
too late, or is for a turn that has just ended, is answered by itself, and none is read twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.elsewhere import steer_elsewhere

if TYPE_CHECKING:
    from hermes_state import SessionDB


class Offers:
    """What one front end has offered to the turns of others in one conversation."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._turn: tuple[Any, ...] = ()
        self._offered: set[str] = set()

    async def offer(
        self, session_id: str, turn: Mapping[str, Any], text: str, inbox_id: str
    ) -> bool:
        """Have a turn of another process read a message of the inbox, once; False if that turn has
        ended. Raises StoreError.

        A turn that was taken over is offered what its first process may not have read.
        """
        named = (turn["conversation_id"], turn["started_at"], turn["fence"])
        if named != self._turn:
            self._turn, self._offered = named, set()
        if inbox_id in self._offered:
            return True
        is_sent = await asyncio.to_thread(
            steer_elsewhere, self._db, session_id, text, inbox_id, turn["started_at"]
        )
        if is_sent:
            self._offered.add(inbox_id)
        return is_sent

    def has_offered(self, inbox_id: str) -> bool:
        """Whether the turn that was last seen was offered a message."""
        return inbox_id in self._offered
