"""Platforms kept connected: each on its own, tried again at growing intervals.

One platform's trouble never stops another, and what is owed to its chats waits in the outbox. Where
several gateways share a store, each platform's chats are one replica's: it holds the platform's
lease. A platform that is asked for messages is connected by its holder alone; one that listens for
requests takes them everywhere, and its holder goes on with them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from hermes_state import LeaseLostError

from .config import Platform, PlatformConfig
from .fencing import fence_effects
from .platforms.base import PlatformAdapter
from .platforms.create import UnusablePlatformError

if TYPE_CHECKING:
    from hermes_state import PlatformLease

    from .replica import Replica

log = logging.getLogger(__name__)

CONNECT_SECONDS = 30.0
DISCONNECT_SECONDS = 5.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 120.0
STANDBY = "standby"
"""How the state of a platform begins that another replica holds."""


class LostPlatformError(Exception):
    """Another replica may hold the platform by now."""


class GaveWayError(LostPlatformError):
    """We hold it still; another replica should."""


class Supervisor:
    """Connects platforms and keeps them so."""

    def __init__(
        self,
        platforms: Mapping[Platform, PlatformConfig],
        adapters: dict[Platform, PlatformAdapter],
        make_adapter: Callable[[Platform, PlatformConfig], PlatformAdapter],
        recover: Callable[[Platform], Awaitable[None]],
        resume: Callable[[Platform], Awaitable[None]],
        replica: Replica,
        lost: Callable[[Platform], None],
        settle: Callable[[], Awaitable[None]],
    ) -> None:
        """`adapters` has those that are connected, and whose chats are ours. Before one receives,
        `recover` goes on with what others left in its chats, and `resume` with what is owed to
        them; `lost` is told when its chats are not ours any more; `settle` lets what is being sent
        just now be noted as sent."""
        self._platforms = platforms
        self._adapters = adapters
        self._make_adapter = make_adapter
        self._recover = recover
        self._resume = resume
        self._replica = replica
        self._lost = lost
        self._settle = settle
        self._giving_way: dict[Platform, asyncio.Event] = {}
        """Set for a platform that another replica should hold."""
        self._tasks: dict[Platform, asyncio.Task[None]] = {}
        self.states: dict[str, str] = {}
        """How each platform is: connecting, connected, standby, or what is wrong."""
        self._first: dict[Platform, asyncio.Event] = {}
        self._names: dict[Platform, str] = {}
        """The leases of the platforms that have one."""
        self._receiving: dict[Platform, PlatformAdapter] = {}
        """Those that take requests, whoever holds their chats."""
        self._pauses: dict[Platform, float] = {}
        """How long it is waited before a platform is tried again."""

    def lease_of(self, platform: Platform) -> PlatformLease | None:
        """The lease under which a platform's chats are ours; None if they need none.

        Raises LeaseLostError if they are another replica's.
        """
        name = self._names.get(platform)
        if name is None:
            return None
        lease = self._replica.lease(name)
        if lease is None:
            raise LeaseLostError(name)
        return lease

    def still_holds(self, lease: PlatformLease | None) -> bool:
        """Whether what was taken up under a lease is still ours to go on with; one that was lost
        and taken again has another number."""
        return lease is None or self._replica.lease(lease.name) == lease

    def serves(self, platform: Platform) -> bool:
        """Whether the chats of a platform are this replica's at this moment."""
        if platform not in self._names:
            return True
        return platform in self._adapters and self._replica.is_sure(self._names[platform])

    def is_held(self, platform: Platform) -> bool:
        """Whether the chats of a platform are one replica's, whichever it is."""
        return platform in self._names

    def held(self) -> dict[Platform, str]:
        """The platforms whose chats are ours, with their leases."""
        return {
            platform: name for platform, name in self._names.items() if platform in self._adapters
        }

    def give_way(self, platform: Platform) -> None:
        """Let another replica have a platform that is held here: receive no more, let what is being
        sent be noted as sent, and let go of its lease."""
        if (event := self._giving_way.get(platform)) is not None:
            event.set()

    def is_elsewhere(self, platform: Platform) -> bool:
        """Whether another replica has the chats of a platform."""
        return self.states.get(platform.value, "").startswith(STANDBY)

    async def connect_all(self) -> None:
        """Begin with every enabled platform; returns when each has connected, has failed once or is
        another replica's."""
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
        name = self._lease_name(platform, adapter)
        if name is not None:
            self._names[platform] = name
            fence_effects(adapter, lambda: self._replica.is_sure(name))
        while True:
            try:
                if name is not None and adapter.is_exclusive:
                    await self._wait_for(platform, name)
                    work = self._connect_and_serve(platform, adapter)
                    await self._while_held(platform, name, work)
                elif name is not None:
                    await self._connect(platform, adapter)
                    await self._receive_and_serve(platform, adapter, name)
                else:
                    await self._connect(platform, adapter)
                    await self._begin(platform, adapter)
                    await adapter.run()
            except asyncio.CancelledError:
                raise
            except LostPlatformError as error:
                await self._note_loss(platform, error)
            except Exception as error:  # noqa: BLE001
                # Whatever a platform's library raises, the others go on and this one comes back.
                self.states[platform.value] = f"{type(error).__name__}: {error}"
                log.warning("%s is not connected: %s", platform.value, error)
            self._forget(platform)
            self._receiving.pop(platform, None)
            if name is not None:
                await self._disconnect(platform, adapter)
                await self._replica.release(name)  # another may be able to connect
            self._first[platform].set()
            pause = self._pauses.get(platform, FIRST_PAUSE)
            self._pauses[platform] = min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    def _lease_name(self, platform: Platform, adapter: PlatformAdapter) -> str | None:
        """What the lease of a platform's chats is called; None if everybody may serve them."""
        if not self._replica.is_shared or not adapter.capabilities.pushes:
            return None
        return f"{platform.value}:{adapter.account}" if adapter.account else platform.value

    async def _wait_for(self, platform: Platform, name: str) -> None:
        def standby(host: str) -> None:
            self.states[platform.value] = f"{STANDBY}: {host or 'another replica'} holds it"
            self._first[platform].set()

        await self._replica.take_when_free(name, standby)

    async def _connect(self, platform: Platform, adapter: PlatformAdapter) -> None:
        self.states[platform.value] = "connecting"
        async with asyncio.timeout(CONNECT_SECONDS):
            await adapter.connect()
        self._pauses.pop(platform, None)

    async def _begin(self, platform: Platform, adapter: PlatformAdapter) -> None:
        """The chats are ours: go on with what was left in them, and send what they are owed."""
        self._adapters[platform] = adapter
        self.states[platform.value] = "connected"
        # Before it receives: a turn of this run must not be taken for one of an earlier.
        await self._recover(platform)
        self._first[platform].set()
        await self._resume(platform)

    async def _connect_and_serve(self, platform: Platform, adapter: PlatformAdapter) -> None:
        await self._connect(platform, adapter)
        await self._begin(platform, adapter)
        await adapter.run()

    async def _receive_and_serve(
        self, platform: Platform, adapter: PlatformAdapter, name: str
    ) -> None:
        """Take requests, and go on with them whenever the lease is ours."""
        self._receiving[platform] = adapter
        receiving = asyncio.ensure_future(adapter.run())
        serving = asyncio.ensure_future(self._serve_when_held(platform, adapter, name))
        try:
            done, _ = await asyncio.wait({receiving, serving}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (receiving, serving):
                task.cancel()
            await asyncio.wait({receiving, serving}, timeout=DISCONNECT_SECONDS)

    async def _serve_when_held(
        self, platform: Platform, adapter: PlatformAdapter, name: str
    ) -> None:
        while True:
            await self._wait_for(platform, name)
            try:
                await self._while_held(platform, name, self._hold_chats(platform, adapter))
            except LostPlatformError as error:
                await self._note_loss(platform, error)
            self._forget(platform)
            await self._replica.release(name)

    async def _hold_chats(self, platform: Platform, adapter: PlatformAdapter) -> None:
        await self._begin(platform, adapter)
        await asyncio.Event().wait()

    async def _while_held(
        self, platform: Platform, name: str, work: Coroutine[Any, Any, None]
    ) -> None:
        """Do something as long as a lease is certainly ours. Raises LostPlatformError after it, and
        GaveWayError if another replica should have it."""
        giving_way = self._giving_way[platform] = asyncio.Event()
        serving = asyncio.ensure_future(work)
        tasks = {
            serving,
            asyncio.ensure_future(self._replica.wait_lost(name)),
            asyncio.ensure_future(giving_way.wait()),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
                return
            self._forget(platform)
        finally:
            del self._giving_way[platform]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=DISCONNECT_SECONDS)
        raise GaveWayError(name) if giving_way.is_set() else LostPlatformError(name)

    async def _note_loss(self, platform: Platform, error: LostPlatformError) -> None:
        if isinstance(error, GaveWayError):
            await self._settle()
            self._replica.stay_away(self._names[platform])
            self._pauses.pop(platform, None)
        else:
            log.warning("%s is not served here any more", platform.value)

    def _forget(self, platform: Platform) -> None:
        if self._adapters.pop(platform, None) is not None:
            self._lost(platform)

    async def stop_receiving(self) -> None:
        """Take no further messages; answers can still be sent."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=5)

    async def hand_over(self) -> None:
        """Let other replicas have the platforms that they can hold; they send what is owed."""
        held = {name: self._adapters.pop(name) for name in self._names if name in self._adapters}
        await self._settle()
        for platform, adapter in held.items():
            await self._disconnect(platform, adapter)
        await self._replica.drain()

    async def disconnect_all(self) -> None:
        """Close every connection."""
        for platform, adapter in {**self._receiving, **self._adapters}.items():
            await self._disconnect(platform, adapter)
        self._adapters.clear()
        self._receiving.clear()

    async def _disconnect(self, platform: Platform, adapter: PlatformAdapter) -> None:
        try:
            async with asyncio.timeout(DISCONNECT_SECONDS):
                await adapter.disconnect()
        except Exception:
            # It is over either way.
            log.warning("%s did not disconnect well", platform.value, exc_info=True)
