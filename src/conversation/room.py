"""The limit of turns that run at once, in this process or in all that share a store."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from .patience import retry_until_stored

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB

    from .tasks import Spawn

HasRoom = Callable[[int], Awaitable[bool]]
"""Called with the number of turns to run here: whether the limit over all processes allows them;
if so, they are counted."""

LOOK_SECONDS = 2.0
"""Poll interval for room that other processes have left."""


class Share(NamedTuple):
    """How many turns of one person may run at once."""

    person: str
    at_once: int


class Shares:
    """Room for the turns of each person in this process; those that wait are served in order.

    They wait here and take nobody else's room. Over several processes the store counts them.
    """

    def __init__(self) -> None:
        self._slots: dict[Share, asyncio.Semaphore] = {}
        self._users: Counter[Share] = Counter()

    @contextlib.asynccontextmanager
    async def place(self, share: Share | None) -> AsyncIterator[None]:
        """Have room for one turn of a person; at once if their turns are not limited."""
        if share is None:
            yield
            return
        slots = self._slots.setdefault(share, asyncio.Semaphore(share.at_once))
        self._users[share] += 1
        try:
            async with slots:
                yield
        finally:
            self._users[share] -= 1
            if not self._users[share]:
                del self._users[share], self._slots[share]


class Room:
    """So many turns at once; those that wait are served in the order they came."""

    def __init__(
        self,
        limit: int | None,
        db: AsyncSessionDB,
        spawn: Spawn,
        has_room: HasRoom | None = None,
    ) -> None:
        """`limit` is None for any number. Without `has_room` only those of this process count."""
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._db = db
        self._spawn = spawn
        self._has_room = has_room if limit else None
        self._asking = asyncio.Lock()
        """Held by whoever is next."""
        self._running = 0

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Have room for one turn."""
        async with self._slots or contextlib.nullcontext():
            if self._has_room is None:
                yield
                return
            await self._take(self._has_room)
            try:
                yield
            finally:
                self._running -= 1
                self._db.wake.ring()  # whoever is next here need not wait for the store
                self._spawn(self._give_back(self._has_room))

    async def _take(self, has_room: HasRoom) -> None:
        async with self._asking:
            seen = self._db.wake.number
            while not await retry_until_stored(
                lambda: has_room(self._running + 1), "Asking for room", is_repeatable=True
            ):
                seen = await self._db.wake.wait_async(seen, LOOK_SECONDS)
            self._running += 1

    async def _give_back(self, has_room: HasRoom) -> None:
        async with self._asking:  # else an older number might be noted after a newer one
            await retry_until_stored(
                lambda: has_room(self._running), "Giving room back", is_repeatable=True
            )
