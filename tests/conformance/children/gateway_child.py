"""A gateway whose chats are a file in the home it is given; does what lines of JSON say."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agent.build
from agent.config import load_config
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import Button, OnMessage
from gateway.platforms.local import adapter as local
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from ..script import answer
from .child_side import Reaper, count_writes, plain, scripted_model, scripted_tools, tell

KEY = "agent:main:local:dm:1"


class FileAdapter(local.LocalAdapter):
    """A platform that outlives the gateway: what its chats show is in a file."""

    capabilities = plain(local.LocalAdapter.capabilities)
    file: Path

    def __init__(self, config: PlatformConfig, on_message: OnMessage) -> None:
        super().__init__(config, on_message)
        shown = self.file.read_text().splitlines() if self.file.exists() else []
        self._keys |= {json.loads(line)["key"] for line in shown}

    async def send(
        self,
        chat_id: str,
        text: str,
        *,
        thread_id: str | None = None,
        reply_to: str | None = None,
        buttons: Sequence[Button] = (),
        key: str | None = None,
    ) -> str | None:
        """Show a text, unless it is the same request again."""
        if key in self._keys:
            return None
        with self.file.open("a") as lines:
            lines.write(json.dumps({"text": text, "key": key}) + "\n")
        return await super().send(chat_id, text, key=key)


class Gateway:
    """A gateway and its one chat."""

    def __init__(self, home: Path, reaper: Reaper) -> None:
        agent.build.usable_tools = lambda *_: scripted_tools(home, reaper)
        self.asked: set[str] = set()
        platforms = {Platform.LOCAL: PlatformConfig(enabled=True, allow_all=True)}
        self.db = AsyncSessionDB(SessionDB(home / "state.db"))
        config = GatewayConfig(platforms=platforms, busy_input_mode="queue")
        self.runner = GatewayRunner(config, load_config(home, {}), self.db, home)
        self.runner._model = scripted_model(self.asked.add)

    @property
    def local(self) -> local.LocalAdapter:
        """The platform."""
        adapter = self.runner.adapters[Platform.LOCAL]
        assert isinstance(adapter, local.LocalAdapter)
        return adapter

    async def ask(self, name: str) -> None:
        """A message arrives, and is answered in its chat."""
        await self.local.receive(name, message_id=name)
        tell(accepted=name)
        while answer(name) not in self.local.texts():
            await asyncio.sleep(0.002)
        await self.idle()
        tell(answered=name)

    async def idle(self) -> None:
        """Nothing waits or runs."""
        while self.runner.turns.is_busy(KEY) or await self.db.list_waiting():
            await asyncio.sleep(0.002)

    async def settled(self) -> None:
        """What is done at a start is done."""
        while Platform.LOCAL not in self.runner.recovery.recovered:
            await asyncio.sleep(0.002)
        await self.idle()

    async def recover(self) -> None:
        """What is done at a start, to the last delivery."""
        await self.settled()
        while await self.db.list_deliveries(("pending", "sending")):
            await asyncio.sleep(0.002)
        tell(done=True)

    async def take_race(self) -> None:
        """Tell whether the message that waited, or the turn that was cut off, was answered here.

        On a server one of several gateways holds the chats; the others see that it took it.
        """
        while Platform.LOCAL not in self.runner.recovery.recovered:
            if self.runner.supervisor.is_elsewhere(Platform.LOCAL) and not await self._is_left():
                break
            await asyncio.sleep(0.002)
        await self.idle()
        tell(won="race" in self.asked)

    async def _is_left(self) -> bool:
        """Whether the message still waits, or the turn is still abandoned."""
        return bool(await self.db.list_waiting() or await self.db.list_abandoned_turns())

    async def fork(self, origin: str) -> None:
        """Branch in the chat, and go back to where it was."""
        await self.settled()
        await self._command(f"/resume {origin}")
        await self._command("/branch")
        await self._command(f"/resume {origin}")
        tell(done=True)

    async def _command(self, text: str) -> None:
        before = len(self.local.texts())
        await self.local.receive(text)
        while len(self.local.texts()) == before:
            await asyncio.sleep(0.002)
        await self.idle()


async def serve(gateway: Gateway) -> None:
    """Start with the first order, and serve until killed."""
    tell(ready=True)
    started = False
    while line := await asyncio.to_thread(sys.stdin.readline):
        if not started:
            await gateway.runner.start()
            started = True
        order: dict[str, Any] = json.loads(line)
        await getattr(gateway, order.pop("do"))(**order)


def main(home: Path) -> None:
    """The gateway of this home."""
    FileAdapter.file = home / "chat"
    local.LocalAdapter = FileAdapter  # type: ignore[misc]
    asyncio.run(serve(Gateway(home, count_writes(home))))
