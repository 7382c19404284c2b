"""Platforms kept connected: each on its own, tried again at growing intervals.

One platform's trouble never stops another, and what is owed to its chats waits in the outbox.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping

from .config import Platform, PlatformConfig
from .platforms.base import PlatformAdapter
from .platforms.create import UnusablePlatformError

log = logging.getLogger(__name__)

CONNECT_SECONDS = 30.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 120.0


class Supervisor:
    """Connects platforms and keeps them so."""

    def __init__(
        self,
        platforms: Mapping[Platform, PlatformConfig],
        adapters: dict[Platform, PlatformAdapter],
        make_adapter: Callable[[Platform, PlatformConfig], PlatformAdapter],
        recover: Callable[[Platform], Awaitable[None]],
        resume: Callable[[Platform], Awaitable[None]],
    ) -> None:
        """`adapters` has those that are connected. Before one receives, `recover` goes on with what
        an earlier run left in its chats, and `resume` with what is owed to them."""
        self._platforms = platforms
        self._adapters = adapters
        self._make_adapter = make_adapter
        self._recover = recover
        self._resume = resume
        self._tasks: dict[Platform, asyncio.Task[None]] = {}
        self.states: dict[str, str] = {}
        """How each platform is: connecting, connected, or what is wrong."""
        self._first: dict[Platform, asyncio.Event] = {}

    async def connect_all(self) -> None:
        """Begin with every enabled platform; returns when each has connected or failed once."""
        for platform, config in self._platforms.items():
            if config.enabled:
                try:
                    adapter = self._make_adapter(platform, config)
                except UnusablePlatformError as error:
                    log.error("%s; the other platforms are served", error)
                    self.states[platform.value] = str(error)
                    continue
                self._first[platform] = asyncio.Event()
                self._tasks[platform] = asyncio.ensure_future(self._keep(platform, adapter))
        for first in self._first.values():
            await first.wait()

    async def _keep(self, platform: Platform, adapter: PlatformAdapter) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                self.states[platform.value] = "connecting"
                async with asyncio.timeout(CONNECT_SECONDS):
                    await adapter.connect()
                self._adapters[platform] = adapter
                self.states[platform.value] = "connected"
                # Before it receives: a turn of this run must not be taken for one of an earlier.
                await self._recover(platform)
                self._first[platform].set()
                await self._resume(platform)
                pause = FIRST_PAUSE
                await adapter.run()
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001
                # Whatever a platform's library raises, the others go on and this one comes back.
                self.states[platform.value] = f"{type(error).__name__}: {error}"
                log.warning("%s is not connected: %s", platform.value, error)
            self._adapters.pop(platform, None)
            self._first[platform].set()
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def stop_receiving(self) -> None:
        """Take no further messages; answers can still be sent."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=5)

    async def disconnect_all(self) -> None:
        """Close every connection."""
        for platform, adapter in list(self._adapters.items()):
            try:
                async with asyncio.timeout(5):
                    await adapter.disconnect()
            except Exception:
                # It is over either way.
                log.warning("%s did not disconnect well", platform.value, exc_info=True)
        self._adapters.clear()
