"""A clock that a test moves on: minutes of an outage pass in moments."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

STEP = 2.0
"""Seconds that pass at once; a wait that is shorter ends a little late."""
REAL_STEP = 0.003
"""How long threads and sockets are given for what is due."""
JUMP = 150.0
"""Longer than the longest pause between two attempts to connect."""
PATIENCE = 3.0
"""Real seconds before another jump: an attempt may have failed after the first."""


class Clock:
    """The running event loop's, for the rest of its life: it never goes back."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._real = self._loop.time
        self._ahead = 0.0
        self._loop.time = lambda: self._real() + self._ahead  # type: ignore[method-assign]

    async def pass_by(self, seconds: float) -> None:
        """Let so much time pass, step by step."""
        for _ in range(round(seconds / STEP)):
            self._ahead += STEP
            await asyncio.to_thread(time.sleep, REAL_STEP)

    async def until(self, fits: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until something is so; whoever waits to try again tries now."""
        deadline = time.monotonic() + seconds
        while not fits():
            self._ahead += JUMP
            patience = time.monotonic() + PATIENCE
            while not fits() and time.monotonic() < patience:
                await asyncio.to_thread(time.sleep, 0.005)
            if time.monotonic() > deadline:
                raise TimeoutError
