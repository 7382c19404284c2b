"""After a start: a platform's chats go on where an earlier run left them, in the order they came.

First the turns that were in the middle, then what a restart broke off, then what was accepted and
not begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import take_over
from .config import Platform
from .restart import go_on

if TYPE_CHECKING:
    from .run import GatewayRunner


async def recover(runner: GatewayRunner, platform: Platform) -> None:
    """When a platform is connected for the first time: go on with what an earlier run left."""
    if platform in runner.recovered:
        return
    await take_over.look(runner, {platform})
    await go_on(runner, platform)
    await runner.turns.resume(platform)
    runner.recovered.add(platform)
