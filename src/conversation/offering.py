"""Messages that wait here for the end of another process's turn: offered to it to read, or it is
asked to make way for them.

A message stays in the inbox until the turn has stored it, which takes it there. So one that comes
too late, or is for a turn that has just ended, is answered by itself, and none is read twice. A
turn makes way only for messages that came while it ran: two processes whose messages wait for each
other do not stop each other's turns for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.elsewhere import make_way_elsewhere, steer_elsewhere

if TYPE_CHECKING:
    from hermes_state import SessionDB


class Offers:
    """What one front end has offered to the turns of others in one conversation."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._turn: tuple[Any, ...] = ()
        self._offered: set[str] = set()
        self._made_way: set[tuple[float, str]] = set()
        """Messages for which a turn was asked to make way, each with when the turn began."""

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

    async def make_way(self, session_id: str, turn: Mapping[str, Any], inbox_id: str) -> None:
        """Ask a turn of another process to make way for a message of the inbox, once; a turn that
        was taken over is not asked again. Raises StoreError."""
        asked = (turn["started_at"], inbox_id)
        if asked not in self._made_way:
            await asyncio.to_thread(
                make_way_elsewhere, self._db, session_id, inbox_id, turn["started_at"]
            )
            self._made_way = {asked, *(other for other in self._made_way if other[0] == asked[0])}

    def has_offered(self, inbox_id: str) -> bool:
        """Whether the turn that was last seen was offered a message."""
        return inbox_id in self._offered
