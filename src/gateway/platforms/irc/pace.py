"""How quickly lines may be written: a few at once, then one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

BURST = 5
"""Lines that a server takes at once; RFC 1459 has ten seconds of two each."""
LONGEST_INTERVAL = 10.0


class Pace:
    """One connection's share. What cannot wait is written at once, and later lines wait longer."""

    def __init__(
        self,
        interval: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.interval = interval
        self._clock, self._sleep = clock, sleep
        self._queue = asyncio.Lock()
        self._free_at = clock()
        """When everything written so far is paid for."""

    async def wait(self) -> None:
        """Wait until another line may be written, behind those who wait already."""
        async with self._queue:
            early = self._free_at - self._clock() - (BURST - 1) * self.interval
            if early > 0:
                await self._sleep(early)
            self.note_urgent()

    def note_urgent(self) -> None:
        """A line is written that did not wait."""
        self._free_at = max(self._free_at, self._clock()) + self.interval

    def slow_down(self) -> None:
        """The server found us too quick."""
        self.interval = min(max(self.interval, 1.0) * 2, LONGEST_INTERVAL)
