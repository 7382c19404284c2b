"""After a start: a platform's chats go on where an earlier run left them, in the order they came.

First the turns that were in the middle, then what a restart broke off, then what was accepted and
not begun.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from . import take_over
from .config import Platform
from .restart import go_on
from .session import SessionSource

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB

    from .delivery import Delivery
    from .run import GatewayRunner


STOPPED = (
    "⚠️ I was stopped while I did this: {command}. It may or may not be done, and is not done again"
    " by itself."
)


async def _tell_begun(
    db: AsyncSessionDB,
    delivery: Delivery,
    drop: Callable[[str], Awaitable[None]],
    platform: Platform,
) -> None:
    """Commands that were cut off are not carried out twice: their chats are told."""
    for row in await db.list_begun():
        if row["source"] == platform.value and row["session_key"] and "source" in row["facts"]:
            source = SessionSource.from_dict(row["facts"]["source"])
            told = STOPPED.format(command=row["content"])
            await delivery.say(source, row["session_key"], told, name=f"{row['id']}:begun")
            await drop(row["id"])


async def recover(runner: GatewayRunner, platform: Platform) -> None:
    """When a platform is connected for the first time: go on with what an earlier run left."""
    if platform in runner.recovered:
        return
    await take_over.look(runner, {platform})
    freshness = runner.settings.agent.gateway_auto_continue_freshness
    await go_on(runner.session_store, runner._session_db, platform, freshness)
    await _tell_begun(runner._session_db, runner.delivery, runner.conversations.drop, platform)
    await runner.turns.resume(platform)
    runner.recovered.add(platform)
