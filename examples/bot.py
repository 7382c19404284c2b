"""A bot in ten lines: the gateway with a chat of one's own. Each line of the input is a message.

What it is told is stored once, answered once and kept for its next start.

Run it: printf 'Hello!\\n/status\\n' | python examples/bot.py
"""

import asyncio
import sys

from agent.config import load_config
from agent.store import open_store
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB

# A chat platform is connected the same way: Platform.TELEGRAM, with a token and allowed_users.
CHATS = GatewayConfig({Platform.LOCAL: PlatformConfig(enabled=True, allow_all=True)})


async def bot() -> None:
    settings = load_config()
    db = AsyncSessionDB(open_store(settings.home))
    runner = GatewayRunner(CHATS, settings, db, settings.home)
    await runner.start()
    chat = runner.adapters[Platform.LOCAL]
    for number, line in enumerate(sys.stdin, 1):
        await chat.receive(line)
        print((await chat.wait_for(number, seconds=600))[-1])
    await runner.stop()
    await db.close()


asyncio.run(bot())
