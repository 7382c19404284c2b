"""The watcher that ends sessions nobody uses any more: hook once, resources freed, entry marked."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from . import boundaries
from .session import SessionEntry
from .session_store import sharing

if TYPE_CHECKING:
    from .run import GatewayRunner

log = logging.getLogger(__name__)

FIRST_LOOK_SECONDS = 60
PRUNE_SECONDS = 86_400
"""Between two looks for files that nobody needs."""
MAX_FAILURES = 3
"""After so many a session is marked as told, or it would be tried for ever."""


async def watch_expiry(runner: GatewayRunner, interval: float) -> None:
    """Look every `interval` seconds until the gateway stops."""
    await asyncio.sleep(FIRST_LOOK_SECONDS)
    pruned_at: float | None = None
    while runner._running:
        try:
            await look(runner)
            if pruned_at is None or time.monotonic() - pruned_at >= PRUNE_SECONDS:
                pruned_at = time.monotonic()
                await prune_sessions(runner)
                await prune_files(runner)
        except Exception:
            # A look that fails must not be the last one.
            log.exception("Looking for expired sessions failed")
        await asyncio.sleep(interval)


async def look(runner: GatewayRunner) -> None:
    """End what is over, let idle agents go, and forget chats that nobody uses any more."""
    await end_expired(runner)
    runner._sweep_idle_cached_agents()
    config = getattr(runner, "config", None)
    if config is not None:
        runner.session_store.prune_old_entries(config.session_store_max_age_days)


async def prune_files(runner: GatewayRunner) -> int:
    """Delete fetched files that are older than a forgotten chat and that nothing names any more."""
    from agent.kept_files import prune_kept_files

    config, home = getattr(runner, "config", None), getattr(runner, "home", None)
    if config is None or home is None or not config.session_store_max_age_days:
        return 0
    days = config.session_store_max_age_days
    return await asyncio.to_thread(prune_kept_files, runner._session_db.sync, home, days)


async def prune_sessions(runner: GatewayRunner) -> None:
    """Delete old conversations, where that is configured and a day has passed."""
    from agent.auto_prune import prune_if_due

    settings, home = getattr(runner, "settings", None), getattr(runner, "home", None)
    if settings is None or home is None or not settings.sessions.auto_prune:
        return
    await asyncio.to_thread(prune_if_due, runner._session_db.sync, home, settings.sessions)


async def end_expired(runner: GatewayRunner) -> int:
    """Tell the end of every session that is over and was not told; returns how many."""
    store = runner.session_store
    with store._lock:
        store._ensure_loaded()
        entries = list(store._entries.values())
    ended = 0
    told: set[str] = set()
    for entry in entries:
        if entry.expiry_finalized or entry.session_key in runner._running_agents:
            continue
        if store._is_session_expired(entry) and not _is_running_elsewhere(runner, entry):
            ended += await _end(runner, entry, entry.session_id in told)
            told.add(entry.session_id)
    return ended


def _is_running_elsewhere(runner: GatewayRunner, entry: SessionEntry) -> bool:
    others = sharing(runner.session_store._entries, entry.session_key, entry.session_id)
    return any(other.session_key in runner._running_agents for other in others)


async def _end(runner: GatewayRunner, entry: SessionEntry, is_told: bool) -> bool:
    platform = entry.platform.value if entry.platform else ""
    if not is_told:
        await boundaries.tell("on_session_finalize", session_id=entry.session_id, platform=platform)
    try:
        runner._evict_cached_agent(entry.session_key)
        runner.session_store.set_expiry_finalized(entry)
    except Exception:
        # The store may be locked now; the next look tries again, a few times.
        entry.finalize_failures += 1
        log.exception("The expired session %s could not be marked", entry.session_id)
        if entry.finalize_failures < MAX_FAILURES:
            return False
        entry.expiry_finalized = True
    turns = getattr(runner, "turns", None)
    if turns is not None:
        await turns.tell_expired(entry)
    return True
