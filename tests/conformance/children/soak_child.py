"""The gateway of the soak: a platform behind a socket, a scripted model that takes its time."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agent.build
from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import (
    Button,
    MessageEvent,
    OnMessage,
    PlatformAdapter,
    SendError,
)
from gateway.platforms.local import adapter as local
from gateway.run import GatewayRunner
from gateway.session import SessionSource
from hermes_state import AsyncSessionDB, SessionDB

from .child_side import Reaper, next_step, plain, scripted_tools

PORT_FILE = "platform-port"


class SocketAdapter(PlatformAdapter):
    """Speaks lines of JSON with a platform that outlives this process."""

    platform = Platform.LOCAL
    capabilities = dataclasses.replace(plain(local.LocalAdapter.capabilities), repeatable=True)
    port: int

    def __init__(self, config: PlatformConfig, on_message: OnMessage) -> None:
        super().__init__(config, on_message)
        self._sent: dict[str, asyncio.Future[None]] = {}
        self._came: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._handing_in: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    async def connect(self) -> None:
        """Connect; what comes is kept until `run`."""
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            frame = json.loads(line)
            if "sent" in frame:
                self._sent.pop(frame["sent"]).set_result(None)
            else:
                self._came.put_nowait(frame)
        for waiting in self._sent.values():
            waiting.set_exception(SendError("the platform is gone", unsure=True))

    async def run(self) -> None:
        """Hand messages in, each acknowledged when it is stored."""
        while True:
            task = asyncio.create_task(self._hand_in(await self._came.get()))
            self._handing_in.add(task)
            task.add_done_callback(self._handing_in.discard)

    async def _hand_in(self, frame: dict[str, Any]) -> None:
        chat = frame["chat"]
        source = SessionSource(
            Platform.LOCAL, chat, chat_type="dm", user_id=f"u{chat}", user_name=f"u{chat}"
        )
        await self.on_message(MessageEvent(frame["text"], source, frame["id"]))
        self._write(ack=frame["id"])

    async def disconnect(self) -> None:
        """Close the connection."""
        self._writer.close()

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
        """Show a text; returns when the platform has it."""
        number = str(next(self._numbers))
        shown = self._sent[number] = asyncio.get_running_loop().create_future()
        self._write(send=number, chat=chat_id, text=text, key=key)
        await shown
        return number

    def _write(self, **frame: Any) -> None:
        self._writer.write(json.dumps(frame).encode() + b"\n")


def slow_step(request: ModelRequest) -> Step:
    """The script, after some thinking."""
    step = next_step(request)
    longest = float(os.environ["CONFORMANCE_THINKING"])
    return dataclasses.replace(step, moves=(random.uniform(0, longest), *step.moves))


async def serve(home: Path) -> None:
    """Serve until killed."""
    platforms = {Platform.LOCAL: PlatformConfig(enabled=True, allow_all=True)}
    config = GatewayConfig(platforms=platforms, busy_input_mode="queue")
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    runner._model = ScriptedModel(itertools.repeat(slow_step), record=False)
    await runner.start()
    await asyncio.Event().wait()


def main(home: Path) -> None:
    """The gateway of this home."""
    SocketAdapter.port = int((home / PORT_FILE).read_text())
    local.LocalAdapter = SocketAdapter  # type: ignore[assignment,misc]
    reaper = Reaper(home)
    agent.build.usable_tools = lambda *_: scripted_tools(home, reaper)
    asyncio.run(serve(home))
