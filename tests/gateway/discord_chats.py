"""A gateway that is reached only through the scripted Discord, and the place for its adapter."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent, PlatformAdapter
from gateway.platforms.discord.adapter import DiscordAdapter
from gateway.platforms.host import StandaloneHost
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .adapter_conformance import Place
from .chats import CONFIG, Chats, echo
from .discord_api import TOKEN, DiscordApi, Fault


class DiscordChats(Chats):
    """A running gateway whose chats are Discord's."""

    @property
    def adapter(self) -> DiscordAdapter:
        """The bot."""
        found = self.runner.adapters[Platform.DISCORD]
        assert isinstance(found, DiscordAdapter)
        return found


@asynccontextmanager
async def discord_gateway(
    home: Path,
    api: DiscordApi,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    allow_all: bool = True,
    allowed_users: tuple[str, ...] = (),
    extra: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[DiscordChats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    platform = PlatformConfig(
        enabled=True, token=TOKEN, allow_all=allow_all, allowed_users=allowed_users,
        extra={"base_url": api.url, **(extra or {})},
    )  # fmt: skip
    config = GatewayConfig(
        platforms={Platform.DISCORD: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        await api.until(lambda: api.connected == 1)
        yield DiscordChats(runner, model)
    finally:
        await runner.stop()
        await db.close()


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


class DiscordPlace(Place):
    """The scripted Discord."""

    adapter: DiscordAdapter
    chat_id, user_id = "42", "42"

    def __init__(self, api: DiscordApi, home: Path) -> None:
        self.api = api
        config = PlatformConfig(
            enabled=True, token=TOKEN, allow_all=True, extra={"base_url": api.url}
        )
        self.adapter = DiscordAdapter(config, StandaloneHost(config, ignore, home))

    async def person_says(self, text: str) -> Any:
        await self.api.until(lambda: self.api.connected == 1)
        return await self.api.say(text)

    async def delivered_again(self, said: Any) -> None:
        await self.api.tell("MESSAGE_CREATE", said)

    async def person_edits(self, said: Any, text: str) -> None:
        await self.api.rewrite(said, text)

    async def person_sends(self, name: str, data: bytes) -> None:
        await self.api.until(lambda: self.api.connected == 1)
        await self.api.say("", files={name: data})

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        chat_id = str(1000 + number)
        if chat_id not in self.api.channels:
            self.api.add_channel(chat_id, chat_id)
        await self.api.say(text, channel_id=chat_id, user_id=chat_id, name=name or "Bob")
        return chat_id

    def texts_in(self, chat_id: str) -> list[str]:
        return self.api.texts(chat_id)

    async def person_leaves(self, text: str, number: int = 0) -> str:
        # Direct chats are not listed: what was missed there is not found.
        channel = str(7000 + number)
        if channel not in self.api.channels:
            self.api.add_channel(channel, guild="900")
        await self.api.say(f"<@{self.api.bot_id}> {text}", channel_id=channel)
        return channel

    async def forgets(self) -> None:
        self.api.sessions.clear()

    async def chat_is_deleted(self) -> None:
        self.api.gone.add(self.chat_id)

    async def we_are_removed(self) -> None:
        self.api.closed_to_us.add(self.chat_id)

    async def go_away(self) -> None:
        await self.api.close()

    async def come_back(self) -> None:
        await self.api.open()

    async def adopt(self, adapter: PlatformAdapter) -> None:
        assert isinstance(adapter, DiscordAdapter)
        self.adapter = adapter
        await self.api.until(lambda: self.api.connected == 1)

    async def is_there(self, home: Path) -> None:
        await self.api.until(lambda: self.api.connected == 1)
        await self.api.until((home / "gateway" / "discord-place.json").exists)

    async def is_deserted(self) -> None:
        await self.api.until(lambda: self.api.connected == 0)

    def acknowledged(self, said: Any) -> bool:
        # Discord is told nothing; what counts is how far the channel will not be read again.
        return self.adapter.reader.place.read_up_to(42) >= int(said["id"])

    async def person_presses(self, label: str) -> None:
        await self.api.until(lambda: self.api.connected == 1)
        await self.api.press(self.api.sent[-1], label)

    def texts(self) -> list[str]:
        own = [one for one in self.api.sent if one.channel_id == self.chat_id]
        return [one.content or str(one.files) for one in own]

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        kind = "403" if permanent else "429"
        self.api.faults.append(
            Fault(kind, "/messages", retry_after=retry_after or 1, method="POST")
        )
