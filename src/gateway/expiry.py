"""Ends sessions that expired: the hook is called once, resources are freed, the entry is marked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.auto_prune import prune_if_due
from agent.kept_files import limit_media, prune_kept_files
from hermes_state import at_hand
from tools.objects import are_shared, sweep

from . import boundaries
from .session import SessionEntry
from .session_store import SessionStore, sharing

if TYPE_CHECKING:
    from agent.config import SessionSettings
    from hermes_state import SessionDB

log = logging.getLogger(__name__)

FIRST_LOOK_SECONDS = 60
PRUNE_SECONDS = 86_400
"""Between two looks for files that nobody needs."""
MAX_FAILURES = 3
"""After so many failures a session is marked as finalized, or it would be retried for ever."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """Ends sessions that their reset policy says are over."""

    store: SessionStore
    running: Container[str]
    """The chats in which a turn runs."""
    evict: Callable[[str], None]
    """Lets a chat's agent go."""
    sweep: Callable[[], int]
    """Lets idle agents go."""
    max_age_days: int | None = None
    """After so many days a chat that nobody uses is forgotten."""
    tell: Callable[[SessionEntry], Awaitable[None]] | None = None
    """Notifies a chat that its session has expired."""
    db: SessionDB | None = None
    may_end: Callable[[SessionEntry], Awaitable[bool]] | None = None
    """Where several gateways share the store: whether it is this one that ends a session."""

    async def look(self) -> None:
        """End what is over, let idle agents go, and forget chats that nobody uses any more."""
        await self.end_expired()
        self.sweep()
        if self.max_age_days is not None:
            await at_hand(self.db, self.store.prune_old_entries, self.max_age_days)

    async def end_expired(self) -> int:
        """Finalize every expired session that was not finalized yet; returns how many."""
        store = self.store
        await at_hand(self.db, store.refresh)
        entries = list(store._entries.values())
        ended = 0
        ended_ids: set[str] = set()
        for entry in entries:
            if entry.expiry_finalized or entry.session_key in self.running:
                continue
            if store._is_session_expired(entry) and not self._is_running_elsewhere(entry):
                if self.may_end is not None and not await self.may_end(entry):
                    continue
                ended += await self._end(entry, entry.session_id in ended_ids)
                ended_ids.add(entry.session_id)
        return ended

    def _is_running_elsewhere(self, entry: SessionEntry) -> bool:
        others = sharing(self.store._entries, entry.session_key, entry.session_id)
        return any(other.session_key in self.running for other in others)

    async def _end(self, entry: SessionEntry, is_told: bool) -> bool:
        platform = entry.platform.value if entry.platform else ""
        # Among several gateways one claims the end before it calls the hook: otherwise both would.
        is_claimed = self.may_end is not None
        if is_claimed and not await self._claim(entry):
            return False
        if not is_told:
            await boundaries.tell(
                "on_session_finalize", session_id=entry.session_id, platform=platform
            )
        try:
            self.evict(entry.session_key)
            if not is_claimed:
                await at_hand(self.db, self.store.set_expiry_finalized, entry)
        except Exception:
            # The store may be locked now; the next round retries, a few times.
            entry.finalize_failures += 1
            log.exception("The expired session %s could not be marked", entry.session_id)
            if entry.finalize_failures < MAX_FAILURES:
                return False
            entry.expiry_finalized = True
        if self.tell is not None:
            await self.tell(entry)
        return True

    async def _claim(self, entry: SessionEntry) -> bool:
        """Claim a session's end among all gateways; False if another was first, or to retry."""
        try:
            return bool(await at_hand(self.db, self.store.set_expiry_finalized, entry))
        except Exception:
            # No hook was called: the next round retries, and this one goes on with other sessions.
            log.exception("The end of %s could not be claimed", entry.session_id)
            return False


async def watch_expiry(
    expiry: Expiry,
    is_running: Callable[[], bool],
    interval: float,
    prune: Callable[[], Awaitable[object]],
    feed_search: Callable[[], Awaitable[object]],
) -> None:
    """Look every `interval` seconds until the gateway stops, and feed search by meaning; `prune`
    once a day."""
    await asyncio.sleep(FIRST_LOOK_SECONDS)
    pruned_at: float | None = None
    while is_running():
        try:
            await expiry.look()
            if pruned_at is None or time.monotonic() - pruned_at >= PRUNE_SECONDS:
                pruned_at = time.monotonic()
                await prune()
            await feed_search()
        except Exception:
            # A round that fails must not be the last one.
            log.exception("Looking for expired sessions failed")
        await asyncio.sleep(interval)


async def feed_search(db: SessionDB | None) -> None:
    """Let search by meaning look at what is new, in the background."""
    if db is not None and db.embedder is not None:
        await asyncio.to_thread(lambda: db.search_index.feed_meaning())


async def prune(
    db: SessionDB,
    home: Path,
    sessions: SessionSettings,
    max_age_days: int,
    media_days: int = 0,
    media_bytes: int = 0,
) -> int:
    """Delete old conversations, where that is configured and a day has passed, and fetched files
    that are older than a forgotten chat and that nothing names any more; then those that are older
    than `media_days`, and of each person the oldest beyond `media_bytes`. Returns how many."""
    if sessions.auto_prune:
        await asyncio.to_thread(prune_if_due, db, home, sessions)
    if are_shared(db):
        await asyncio.to_thread(sweep, db)
    deleted = 0
    if max_age_days:
        deleted += await asyncio.to_thread(prune_kept_files, db, home, max_age_days)
    return deleted + await asyncio.to_thread(limit_media, db, home, media_days, media_bytes)
