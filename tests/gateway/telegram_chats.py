"""A gateway that is reached only through the scripted Bot API."""

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
from gateway.platforms.base import MessageEvent
from gateway.platforms.telegram.adapter import TelegramAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .adapter_conformance import Place
from .bot_api import TOKEN, BotApi, Fault
from .chats import CONFIG, Chats, echo


class TelegramChats(Chats):
    """A running gateway whose chats are Telegram's."""

    @property
    def adapter(self) -> TelegramAdapter:
        """The bot."""
        found = self.runner.adapters[Platform.TELEGRAM]
        assert isinstance(found, TelegramAdapter)
        return found


@asynccontextmanager
async def telegram_gateway(
    home: Path,
    api: BotApi,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    allow_all: bool = True,
    extra: dict[str, Any] | None = None,
    yaml: str = "",
    **settings: Any,
) -> AsyncIterator[TelegramChats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG + yaml)
    platform = PlatformConfig(
        enabled=True, token=TOKEN, allow_all=allow_all, extra={"base_url": api.url, **(extra or {})}
    )
    config = GatewayConfig(
        platforms={Platform.TELEGRAM: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        yield TelegramChats(runner, model)
    finally:
        await runner.stop()
        await db.close()


async def _ignore(event: MessageEvent) -> None:
    """Takes everything."""


class TelegramPlace(Place):
    """The scripted Bot API."""

    chat_id, user_id = "42", "42"

    def __init__(self, api: BotApi) -> None:
        self.api = api
        config = PlatformConfig(enabled=True, token=TOKEN, extra={"base_url": api.url})
        self.adapter = TelegramAdapter(config, _ignore)

    async def person_says(self, text: str) -> Any:
        return await self.api.say(text)

    async def delivered_again(self, said: Any) -> None:
        await self.api.add({**said, "update_id": said["update_id"] + 500})

    def acknowledged(self, said: Any) -> bool:
        return self.api.confirmed > int(said["update_id"])

    async def person_edits(self, said: Any, text: str) -> None:
        message = {**said["message"], "text": text, "edit_date": 1_700_000_100}
        update = self.api.message(text)
        await self.api.add({"update_id": update["update_id"], "edited_message": message})

    async def person_sends(self, name: str, data: bytes) -> None:
        self.api.files["F1"] = data
        document = {
            "file_id": "F1", "file_unique_id": "u1", "file_name": name, "file_size": len(data),
        }  # fmt: skip
        await self.api.say(None, document=document)

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        chat_id = 1000 + number
        update = self.api.message(text, chat_id=chat_id, user_id=chat_id)
        if name:
            update["message"]["from"]["first_name"] = name
        await self.api.add(update)
        return str(chat_id)

    def texts_in(self, chat_id: str) -> list[str]:
        return self.api.texts(int(chat_id))

    async def chat_is_deleted(self) -> None:
        self.api.gone.add(self.chat_id)

    async def we_are_removed(self) -> None:
        self.api.blocked.add(self.chat_id)

    async def go_away(self) -> None:
        await self.api.close()

    async def come_back(self) -> None:
        await self.api.open()

    async def person_presses(self, label: str) -> None:
        await self.api.press(self.api.sent[-1], label)

    def texts(self) -> list[str]:
        return [one.text or str(one.file) for one in self.api.sent if one.chat_id == self.chat_id]

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        if permanent:
            self.api.faults.append(Fault("403", "sendMessage"))
        else:
            self.api.faults.append(Fault("429", "sendMessage", retry_after=retry_after or 1))
