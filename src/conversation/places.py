"""Named queues: one turn at a time per conversation, one message at a time per chat.

One turn at a time runs per conversation, from however many chats and programs it is reached.

A conversation keeps its name through every compression, so whoever waits under that name is next
wherever the conversation has moved to. Those who wait are served in the order they came.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_state import StoreError, at_hand

if TYPE_CHECKING:
    from hermes_state import SessionDB

log = logging.getLogger(__name__)

KNOWN_NAMES = 4096
"""Sessions whose conversation is remembered; it never changes."""


@dataclass(slots=True, eq=False)
class _Place:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0
    holder: str | None = None


class Places:
    """A place under each name for as long as somebody wants it, had in the order they came."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nobody has a place or waits for one."""
        return not self._places

    @contextlib.asynccontextmanager
    async def place(self, name: str) -> AsyncIterator[None]:
        """Have the place under a name."""
        async with self._wanted(name) as place, place.lock:
            yield

    @contextlib.asynccontextmanager
    async def _wanted(self, name: str) -> AsyncIterator[_Place]:
        place = self._places.setdefault(name, _Place())
        place.wanted += 1
        try:
            yield place
        finally:
            place.wanted -= 1
            if not place.wanted:
                del self._places[name]


class TurnPlaces(Places):
    """Who has the turn in each conversation."""

    def __init__(self, db: SessionDB) -> None:
        super().__init__()
        self._db = db
        self._names: dict[str, str] = {}

    def name(self, session_id: str) -> str:
        """The conversation a session belongs to."""
        known = self._names.get(session_id)
        if known is not None:
            return known
        try:
            row = self._db.get_session(session_id)
        except StoreError as error:
            log.warning("Could not look up the conversation of %s: %s", session_id, error)
            return session_id
        if row is None:
            return session_id  # it begins with this session
        name = str(row.get("conversation_id") or session_id)
        self.learn(session_id, name)
        return name

    async def find_name(self, session_id: str) -> str:
        """The same, for coroutines."""
        return await at_hand(self._db, self.name, session_id)

    async def _name_now(self, session_id: Callable[[], str]) -> str:
        known = self._names.get(session_id())
        if known is not None:
            return known
        return await at_hand(self._db, lambda: self.name(session_id()))

    def learn(self, session_id: str, name: str) -> None:
        """The store has told to which conversation a session belongs."""
        if len(self._names) >= KNOWN_NAMES:
            self._names.clear()
        self._names[session_id] = name

    def holder(self, session_id: str | None) -> str | None:
        """The key whose turn runs in a session's conversation, if one does."""
        if session_id is None or self.is_empty:
            return None
        place = self._places.get(self.name(session_id))
        return place.holder if place else None

    @contextlib.asynccontextmanager
    async def turn(self, key: str, session_id: Callable[[], str]) -> AsyncIterator[bool]:
        """Have the turn in a conversation; yields whether others had it while we waited.

        `session_id` is asked again after a wait: the chat may be in another conversation by then.
        """
        waited = False
        while True:
            name = await self._name_now(session_id)
            async with self._wanted(name) as place:
                waited = waited or place.wanted > 1
                async with place.lock:
                    if waited and await self._name_now(session_id) != name:
                        continue
                    place.holder = key
                    try:
                        yield waited
                    finally:
                        place.holder = None
                    return
