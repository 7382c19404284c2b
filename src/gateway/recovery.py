"""After a start: chats whose turn an earlier run left in the middle are told, once.

What was accepted and not begun is in the inbox and is simply run. A turn that had begun and has no
answer is closed in the history, and its chat is told; nothing it did is done again unasked.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from .config import Platform
from .restart import go_on

if TYPE_CHECKING:
    from .run import GatewayRunner

log = logging.getLogger(__name__)

CUT_OFF = (
    "⚠️ I was restarted in the middle of my answer to your last message. What I had done is kept;"
    " send /retry, or simply go on."
)


NOBODY_READS = (Platform.API_SERVER, Platform.WEBHOOK)
"""Programs that ask again themselves; nothing can be said to them."""


async def recover(runner: GatewayRunner, platform: Platform) -> None:
    """When a platform is connected for the first time: go on with what an earlier run left."""
    if platform in runner.recovered:
        return
    await tell_cut_off(runner, platform)
    await go_on(runner, platform)
    await runner.turns.resume(platform)
    runner.recovered.add(platform)


async def tell_cut_off(runner: GatewayRunner, platform: Platform) -> int:
    """Tell every chat of a platform whose last turn has no end; returns how many."""
    freshness = runner.settings.agent.gateway_auto_continue_freshness
    edge = runner.session_store._now() - timedelta(seconds=freshness)
    told = 0
    for entry in runner.session_store.list_sessions():
        if entry.updated_at < edge:
            break
        if entry.origin is None or entry.origin.platform is not platform:
            continue
        if await runner._session_db.close_open_turn(entry.session_id):
            log.info("The turn in %s was cut off", entry.session_key)
            if platform not in NOBODY_READS:
                await runner.delivery.say(entry.origin, entry.session_key, CUT_OFF)
            told += 1
    return told
