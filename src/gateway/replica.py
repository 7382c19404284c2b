"""This gateway among those that share its store: heard of by a heartbeat, and what it holds.

What only one of them may do (poll a platform, keep the store tidy) is held by a lease in the store.
A holder whose lease was not confirmed for half of its time, by its own clock, does no more under
it; others may take it after its whole time, by the store's clock: so there is never a moment with
two. Where the store is a file, the home's lock lets one gateway run, and nothing of this is needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.heartbeat import heart
from hermes_base.clock import elapsed
from hermes_base.process import this_process
from hermes_base.version import __version__
from hermes_state import LEASE_SECONDS, Beat, PlatformLease, StoreError

from .shares import UPKEEP, find_better_taker

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import AsyncSessionDB, SessionDB

log = logging.getLogger(__name__)

SURE_SECONDS = LEASE_SECONDS / 2
"""For so long after it was confirmed a lease is certainly ours."""
LOOK_SECONDS = LEASE_SECONDS / 10
"""Between two looks for a lease that another replica holds; what is let go of is seen at once."""
WATCH_SECONDS = LEASE_SECONDS / 100
"""Between two looks at our own clock, while we hold something."""
POLITE_SECONDS = LEASE_SECONDS / 100
"""For each lease that it holds a replica waits so long before it takes another: who holds fewer is
first."""
_OF_MACHINE = ("store", "store_connections", "logging", "terminal", "replicas")
"""Sections that may well differ from one machine to the next."""
AWAY_SECONDS = LEASE_SECONDS / 5
"""For so long others may take first what should be theirs."""


class Replica:
    """One gateway of those that share a store."""

    def __init__(
        self,
        db: AsyncSessionDB,
        config: Mapping[str, Any],
        address: str | None = None,
        prefers: Sequence[str] = (),
        clock: Callable[[], float] = elapsed,
    ) -> None:
        """`config` is what all of them should be told alike; a digest of it is shown, and the
        `address` of this one. `prefers` names the platforms that it should hold."""
        self._db = db
        self._digest = digest_of(config)
        self._address = address
        self._prefers = prefers
        self._clock = clock
        self._held: dict[str, tuple[PlatformLease, float]] = {}
        """By name: a lease, and when it was last known to count, by our own clock."""
        self._given_up: dict[str, PlatformLease] = {}
        """Leases that we did not keep, and may still have in the store."""
        self._wanted: set[str] = set()
        """Leases that are waited for."""
        self._taken: dict[str, float] = {}
        """By name: when a lease was taken, by our own clock."""
        self._away_until: dict[str, float] = {}
        """By name: until when others may take first what we let go of for them."""
        self._let_go_at: float | None = None
        self._changing = threading.Lock()
        self._draining = False

    @property
    def is_shared(self) -> bool:
        """Whether there may be others."""
        return getattr(self._db.sync, "is_on_server", False) is True

    async def start(self) -> None:
        """Let the others know of us."""
        if self.is_shared:
            await self._db.at_hand(self._register)
            heart.join(self._db.sync, self)

    def _register(self) -> None:
        self._db.sync.register_replica(
            host=socket.gethostname(),
            version=__version__,
            address=self._address,
            config_digest=self._digest,
            prefers=self._prefers,
        )

    # The heartbeat, in its thread

    def leases(self) -> list[PlatformLease]:
        """What is held."""
        return [lease for lease, _ in list(self._held.values())]

    def wants(self) -> list[str]:
        """Leases that would be taken if they were free."""
        return [] if self._draining else list(self._wanted)

    def heard(self, begun: float, leases: list[PlatformLease], beat: Beat) -> None:
        """The store has taken a beat that was begun at that moment."""
        with self._changing:
            for lease in leases:
                known = self._held.get(lease.name)
                if known is None or known[0] != lease:
                    continue  # let go of meanwhile
                if lease in beat.lost:
                    log.warning("The lease %s is another replica's", lease.name)
                    self._held.pop(lease.name, None)
                else:
                    self._held[lease.name] = lease, begun
        if not beat.is_known and not self._draining:
            self._register()  # we were away for so long that we were forgotten

    # Leases

    def lease(self, name: str) -> PlatformLease | None:
        """The lease of that name, if it is held."""
        known = self._held.get(name)
        return None if known is None else known[0]

    def is_sure(self, name: str) -> bool:
        """Whether a lease is certainly ours at this moment; one that is not is given up."""
        if not self.is_shared:
            return True
        with self._changing:
            known = self._held.get(name)
            if known is None:
                return False
            if self._clock() - known[1] < SURE_SECONDS:
                return True
            # For good: who has found that it is not ours has acted upon that.
            self._given_up[name] = self._held.pop(name)[0]
            return False

    async def take(self, name: str) -> bool:
        """Take a lease that is free; False while another replica holds it."""
        if not self.is_shared:
            return True
        if self._draining:
            return False
        begun = self._clock()
        lease = await self._db.take_platform(name)
        if lease is None:
            return False
        self._held[name] = lease, begun
        self._taken[name] = begun
        log.info("This replica holds %s (%d)", name, lease.fence)
        return True

    async def take_when_free(self, name: str, tell: Callable[[str], None]) -> None:
        """Wait for a lease; `tell` is told who holds it meanwhile."""
        wake = self._db.wake
        self._wanted.add(name)
        try:
            while True:
                seen = wake.number
                try:
                    holder = await self._db.get_platform_holder(name)
                    if holder is None and not self._draining:
                        await asyncio.sleep(POLITE_SECONDS * len(self._held))
                        if await self._is_first(name) and await self.take(name):
                            return
                    tell(holder["host"] if holder else "")
                except StoreError as error:
                    log.warning("Who holds %s is not known now: %s", name, error)
                await wake.wait_async(seen, LOOK_SECONDS, LOOK_SECONDS / 20)
        finally:
            self._wanted.discard(name)

    async def _is_first(self, name: str) -> bool:
        """Whether a lease that is free may be taken: not for a moment if we let go of it, or if it
        should be another's."""
        now = self._clock()
        if now < self._away_until.get(name, now):
            return False
        if self._away_until.pop(name, None) is not None:
            return True  # nobody else came for it
        replicas = await self._db.list_replicas()
        own = next((row for row in replicas if row["owner"] == this_process()), None)
        if own is None or find_better_taker(name, own, replicas) is None:
            return True
        self._away_until[name] = now + AWAY_SECONDS
        return False

    def may_let_go(self, name: str, seconds: float) -> bool:
        """Whether a lease was held for so long, and none was let go of in that time."""
        now, taken = self._clock(), self._taken.get(name)
        is_old = taken is not None and now - taken >= seconds
        return is_old and (self._let_go_at is None or now - self._let_go_at >= seconds)

    def stay_away(self, name: str) -> None:
        """Let others have a lease first that we let go of."""
        self._let_go_at = self._clock()
        self._away_until[name] = self._let_go_at + AWAY_SECONDS

    async def wait_lost(self, name: str) -> None:
        """Return when a lease is not certainly ours any more."""
        while self.is_sure(name):
            await asyncio.sleep(WATCH_SECONDS)

    async def release(self, name: str) -> None:
        """Let another have a lease at once, one that was given up too."""
        with self._changing:
            known = self._held.pop(name, None)
            lease = self._given_up.pop(name, None) if known is None else known[0]
        if lease is not None:
            try:
                await self._db.release_platform(lease)
            except StoreError as error:
                log.warning("The lease %s runs out by itself: %s", name, error)

    async def leads(self, name: str = UPKEEP) -> bool:
        """Whether it is this one of all replicas that is to do something now."""
        return (self.is_shared and self.is_sure(name)) or await self.take(name)

    def find_room(self, limit: int | None) -> Callable[[int], Awaitable[bool]] | None:
        """What tells whether all replicas together have room for so many turns here; None where
        there are no others."""
        if limit is None or not self.is_shared:
            return None

        async def has_room(count: int) -> bool:
            return await self._db.set_running_turns(count, limit)

        return has_room

    async def keep_tidy(self, tidy: Callable[[SessionDB], object]) -> None:
        """Every now and then: one of all replicas ends what those left that are gone."""
        while self.is_shared and not self._draining:
            await asyncio.sleep(LEASE_SECONDS)
            try:
                if await self.leads():
                    await asyncio.to_thread(tidy, self._db.sync)
            except StoreError as error:
                log.warning("What others left is looked for again: %s", error)

    # The end

    async def has_others(self) -> bool:
        """Whether another replica could take over what this one lets go of."""
        if not self.is_shared:
            return False
        mine = await self._db.list_live_owners(with_own=True)
        rows = await self._db.list_replicas()
        return any(row["owner"] in mine and not row["draining"] for row in rows)

    async def drain(self) -> None:
        """Take nothing more, and let go of everything."""
        self._draining = True
        self._held.clear()
        if self.is_shared:
            await self._db.drain_replica()

    async def leave(self) -> None:
        """Be forgotten by the others."""
        self._draining = True
        if not self.is_shared:
            return
        self._held.clear()
        heart.leave(self._db.sync)
        try:
            await self._db.leave_replicas()
        except StoreError as error:
            log.warning("The others find out by themselves that this replica is gone: %s", error)


def shared_settings(settings: Config) -> dict[str, Any]:
    """What every replica should be told alike: all but what belongs to a machine."""
    return {name: value for name, value in settings.raw.items() if name not in _OF_MACHINE}


def digest_of(config: Mapping[str, Any]) -> str:
    """A short name of a configuration: another one if anything in it differs."""
    text = json.dumps(config, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
