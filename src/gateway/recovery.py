"""Recovery of chats after other processes died: at a start, and while the gateway runs.

When a platform is connected for the first time, in the order of arrival: first abandoned turns,
then turns that a restart interrupted, then what was accepted and not begun.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_state import StoreError

from .config import Platform
from .restart import go_on
from .session import SessionSource

if TYPE_CHECKING:
    from agent.config import Config
    from conversation.scheduler import Scheduler
    from hermes_state import AsyncSessionDB

    from .abandoned_in_chats import AbandonedTurns
    from .chat_turns import ChatTurns
    from .delivery import Delivery
    from .notes import NoteTurns
    from .pipeline import Pipeline
    from .session_store import SessionStore

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
"""Poll interval for abandoned turns; sooner if something is written."""

PACE_SECONDS = 1.0
"""Between two looks in a store that is written to all the time."""

STOPPED = (
    "⚠️ I was stopped while I did this: {command}. It may or may not be done, and is not done again"
    " by itself."
)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Resumes abandoned turns and accepted messages."""

    db: AsyncSessionDB
    store: SessionStore
    settings: Config
    delivery: Delivery
    abandoned: AbandonedTurns
    notes: NoteTurns
    turns: ChatTurns
    pipeline: Pipeline
    jobs: Scheduler
    recovered: set[Platform] = field(default_factory=set)
    """Platforms whose chats were recovered."""
    seen: set[Platform] = field(default_factory=set)
    """Platforms that were connected in this run."""

    async def recover(self, platform: Platform) -> None:
        """Recover the chats of a platform that has become ours."""
        if platform in self.recovered:
            return
        is_first = platform not in self.seen
        self.seen.add(platform)
        await self.db.at_hand(self.store.refresh)
        await self.abandoned.look({platform}, self.turns.begin_with)
        await self._go_on({platform})
        await self._tell_begun({platform}, with_own=is_first)
        await self.pipeline.resume({platform}, with_own=True)
        self.recovered.add(platform)

    def forget(self, platform: Platform) -> None:
        """The chats of a platform are another replica's now."""
        self.recovered.discard(platform)
        self.pipeline.forget(platform)

    async def watch(self, connected: Collection[Platform], is_running: Callable[[], bool]) -> None:
        """Look every few seconds in the chats that are connected, until the gateway stops."""
        wake = self.db.wake
        seen = wake.number
        while is_running():
            # An abandoned turn makes no write; a note does, and is told at once.
            pause = LOOK_SECONDS * random.uniform(0.7, 1.3)
            seen = await wake.wait_async(seen, pause, PACE_SECONDS)
            try:
                platforms = self.recovered.intersection(connected)
                await self.db.at_hand(self.store.refresh)
                await self.abandoned.look(platforms, self.turns.begin_with)
                await self.notes.look(platforms)
                await self.delivery.look()
                if self.settings.jobs.enabled:
                    await self.jobs.recover()
                # Other gateways may have accepted something, or be gone.
                if self.db.sync.is_on_server:
                    await self._tell_begun(platforms)
                    goes_on = await self._go_on(platforms)
                    await self.pipeline.resume(platforms, with_own=goes_on)
            except StoreError as error:
                log.warning("Could not look for abandoned turns; retrying: %s", error)

    async def _go_on(self, platforms: Collection[Platform]) -> bool:
        """Enqueue messages that continue turns interrupted by a restart or a hand-over; whether
        there were any."""
        freshness = self.settings.agent.gateway_auto_continue_freshness
        counts = [await go_on(self.store, self.db, each, freshness) for each in platforms]
        return any(counts)

    async def _tell_begun(self, platforms: Collection[Platform], *, with_own: bool = False) -> None:
        """Tell chats of abandoned commands, which are not run a second time."""
        names = {platform.value for platform in platforms}
        for row in await self.db.list_abandoned_commands(with_own):
            if row["source"] in names and row["session_key"] and "source" in row["facts"]:
                source = SessionSource.from_dict(row["facts"]["source"])
                notice = STOPPED.format(command=row["content"])
                await self.delivery.say(
                    source, row["session_key"], notice, name=f"{row['id']}:begun"
                )
                await self.turns.conversations.drop(row["id"])
