"""A gateway that is reached only through the scripted Signal, and the place for its adapter."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent
from gateway.platforms.host import StandaloneHost
from gateway.platforms.signal.adapter import SignalAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .adapter_conformance import Place
from .chats import CONFIG, Chats, echo
from .signal_daemon import ACCOUNT, ANN, Fault, SignalDaemon, person


def section(daemon: SignalDaemon, **more: Any) -> dict[str, Any]:
    """The adapter's section, as it points to the scripted daemon."""
    folder = str(daemon.folder or "/nonexistent")
    return {"account": ACCOUNT, "address": daemon.url, "attachments": folder, **more}


@asynccontextmanager
async def signal_gateway(
    home: Path,
    daemon: SignalDaemon,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    allow_all: bool = True,
    allowed_users: tuple[str, ...] = (),
    extra: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Chats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    platform = PlatformConfig(
        enabled=True, allow_all=allow_all, allowed_users=allowed_users,
        extra=section(daemon, **(extra or {})),
    )  # fmt: skip
    config = GatewayConfig(
        platforms={Platform.SIGNAL: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        await daemon.until(lambda: daemon.connected >= 1)
        yield Chats(runner, model)
    finally:
        await runner.stop()
        await db.close()


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


BLINK = 1.0
"""Seconds before a kill in which a gateway may not have read what lies in its socket."""


class SignalPlace(Place):
    """The scripted Signal."""

    adapter: SignalAdapter
    chat_id = user_id = ANN
    lacks: ClassVar = {"we_are_removed": "nobody is thrown out of a chat of two"}

    def __init__(self, daemon: SignalDaemon, home: Path) -> None:
        self.daemon = daemon
        config = PlatformConfig(enabled=True, allow_all=True, extra=section(daemon))
        self.adapter = SignalAdapter(config, StandaloneHost(config, ignore, home))

    async def person_says(self, text: str) -> Any:
        return await self.daemon.say(text)

    async def delivered_again(self, said: Any) -> None:
        await self.daemon.deliver(said)

    def acknowledged(self, said: Any) -> bool:
        """Signal tells nobody that a message is stored but by its receipt."""
        return (ANN, said["envelope"]["timestamp"]) in self.daemon.receipts

    async def person_edits(self, said: Any, text: str) -> None:
        await self.daemon.rewrite(said, text)

    async def person_sends(self, name: str, data: bytes) -> None:
        await self.daemon.say("", files={name: data})

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        chat = person(1000 + number)
        data = self.daemon.data(text)
        said = self.daemon.envelope(chat, dataMessage=data, timestamp=data["timestamp"])
        if name:
            said["envelope"]["sourceName"] = name
        await self.daemon.deliver(said)
        return chat

    def texts_in(self, chat_id: str) -> list[str]:
        return self.daemon.texts(chat_id)

    async def chat_is_deleted(self) -> None:
        self.daemon.unregistered.add(self.chat_id)

    async def go_away(self) -> None:
        await self.daemon.close()

    async def come_back(self) -> None:
        await self.daemon.open()

    def is_lost(self, text: str, killed_at: Sequence[float]) -> bool:
        handed = [
            when
            for when, said in self.daemon.handed
            if (said["envelope"].get("dataMessage") or {}).get("message") == text
        ]
        return any(0 <= killed - when < BLINK for when in handed for killed in killed_at)

    async def is_deserted(self) -> None:
        await self.daemon.until(lambda: self.daemon.connected == 0)

    async def person_presses(self, label: str) -> None:
        raise AssertionError("Signal has no buttons")

    def texts(self) -> list[str]:
        return self.daemon.texts()

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        kind = "unregistered" if permanent else "rate_limit"
        self.daemon.faults.append(Fault(kind, retry_after=retry_after or 1))
