"""A gateway with chats in memory, in the home it is given; does what lines of JSON say."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import agent.build
from agent.config import load_config
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.local import LocalAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from ..script import answer
from .child_side import count_writes, scripted_model, scripted_tools

KEY = "agent:main:local:dm:1"


def say(**frame: Any) -> None:
    print(json.dumps(frame), flush=True)


class Gateway:
    """A gateway and its one chat."""

    def __init__(self, home: Path) -> None:
        self.asked: set[str] = set()
        platforms = {Platform.LOCAL: PlatformConfig(enabled=True, allow_all=True)}
        self.db = AsyncSessionDB(SessionDB(home / "state.db"))
        config = GatewayConfig(platforms=platforms, busy_input_mode="queue")
        self.runner = GatewayRunner(config, load_config(home, {}), self.db, home)
        self.runner._model = scripted_model(self.asked.add)

    @property
    def local(self) -> LocalAdapter:
        """The platform in memory."""
        adapter = self.runner.adapters[Platform.LOCAL]
        assert isinstance(adapter, LocalAdapter)
        return adapter

    async def ask(self, name: str) -> None:
        """A message arrives, and is answered in its chat."""
        await self.local.receive(name, message_id=name)
        say(accepted=name)
        while answer(name) not in self.local.texts():
            await asyncio.sleep(0.002)
        await self.idle()
        say(answered=name)

    async def idle(self) -> None:
        """Nothing waits or runs."""
        while self.runner.turns.is_busy(KEY) or await self.db.list_waiting():
            await asyncio.sleep(0.002)

    async def recover(self) -> None:
        """What is done at a start is done when nothing waits any more."""
        while Platform.LOCAL not in self.runner.recovered:
            await asyncio.sleep(0.002)
        await self.idle()
        say(done=True)

    async def take_inbox(self) -> None:
        """Tell whether the message that waited was begun with here."""
        await self.idle()
        say(won="race" in self.asked)


async def main(home: Path) -> None:
    """Start with the first order, and serve until killed."""
    count_writes(home)
    agent.build.usable_tools = lambda config: scripted_tools(home)
    gateway = Gateway(home)
    say(ready=True)
    started = False
    while line := await asyncio.to_thread(sys.stdin.readline):
        if not started:
            await gateway.runner.start()
            started = True
        order = json.loads(line)
        await getattr(gateway, order.pop("do"))(**order)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
