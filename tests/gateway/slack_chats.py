"""A gateway that is reached only through the scripted Slack, and the place for its adapter."""

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
from gateway.platforms.host import StandaloneHost
from gateway.platforms.slack.adapter import SlackAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .adapter_conformance import Place
from .chats import CONFIG, Chats, echo
from .slack_api import APP_TOKEN, BOT_TOKEN, Fault, SlackApi


def section(api: SlackApi, **more: Any) -> dict[str, Any]:
    """The adapter's section, as it points to the scripted Slack."""
    return {"base_url": api.url, "app_token": APP_TOKEN, **more}


@asynccontextmanager
async def slack_gateway(
    home: Path,
    api: SlackApi,
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
        enabled=True, token=BOT_TOKEN, allow_all=allow_all, allowed_users=allowed_users,
        extra=section(api, **(extra or {})),
    )  # fmt: skip
    config = GatewayConfig(
        platforms={Platform.SLACK: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        await api.until(lambda: api.connected == 1)
        yield Chats(runner, model)
    finally:
        await runner.stop()
        await db.close()


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


class SlackPlace(Place):
    """The scripted Slack."""

    adapter: SlackAdapter
    chat_id, user_id = "D42", "U42"

    def __init__(self, api: SlackApi, home: Path) -> None:
        self.api = api
        config = PlatformConfig(enabled=True, token=BOT_TOKEN, allow_all=True, extra=section(api))
        self.adapter = SlackAdapter(config, StandaloneHost(config, ignore, home))
        api.redeliver_seconds = 0.3

    async def person_says(self, text: str) -> Any:
        await self.api.until(lambda: self.api.connected == 1)
        return await self.api.say(text)

    async def delivered_again(self, said: Any) -> None:
        await self.api.tell(said)

    async def person_edits(self, said: Any, text: str) -> None:
        await self.api.rewrite(said, text)

    async def person_sends(self, name: str, data: bytes) -> None:
        await self.api.until(lambda: self.api.connected == 1)
        await self.api.say("", files={name: data})

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        chat_id = f"D{1000 + number}"
        if chat_id not in self.api.members:
            self.api.members.append(chat_id)
        if name:
            profile = {"display_name": name}
            self.api.people[f"U{1000 + number}"] = {"name": name, "profile": profile}
        await self.api.say(text, channel=chat_id, user=f"U{1000 + number}")
        return chat_id

    def texts_in(self, chat_id: str) -> list[str]:
        return self.api.texts(chat_id)

    async def chat_is_deleted(self) -> None:
        self.api.gone.add(self.chat_id)

    async def we_are_removed(self) -> None:
        self.api.members.remove(self.chat_id)

    async def go_away(self) -> None:
        await self.api.close()

    async def come_back(self) -> None:
        self.api.forget_envelopes()  # it was away for minutes: what was missed is read
        await self.api.open()

    async def adopt(self, adapter: PlatformAdapter) -> None:
        assert isinstance(adapter, SlackAdapter)
        self.adapter = adapter
        await self.api.until(lambda: self.api.connected == 1)

    async def is_there(self, home: Path) -> None:
        await self.api.until(lambda: self.api.connected == 1)

    async def is_deserted(self) -> None:
        await self.api.until(lambda: self.api.connected == 0)

    def acknowledged(self, said: Any) -> bool:
        return said["envelope"] in self.api.acknowledged

    async def person_presses(self, label: str) -> None:
        await self.api.until(lambda: self.api.connected == 1)
        await self.api.press(self.api.sent[-1], label)

    def texts(self) -> list[str]:
        own = [one for one in self.api.sent if one.channel == self.chat_id]
        shown = zip(self.api.texts(self.chat_id), own, strict=True)
        return [text or str(one.file) for text, one in shown]

    async def person_leaves(self, text: str, number: int = 0) -> str:
        if number:
            return await self.another_says(number, text)
        await self.api.say(text)
        return self.chat_id

    async def forgets(self) -> None:
        self.api.forget_envelopes()

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        kind = "is_archived" if permanent else "429"
        self.api.faults.append(Fault(kind, "chat.postMessage", retry_after=retry_after or 1))
