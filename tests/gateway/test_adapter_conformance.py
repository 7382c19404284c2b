"""Every adapter keeps the contract: the platform in memory, and Telegram."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.config import PlatformConfig
from gateway.platforms.base import MessageEvent, SendError
from gateway.platforms.local.adapter import LocalAdapter

from .adapter_conformance import AdapterConformance, Place
from .bot_api import TOKEN, BotApi, Fault


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


class LocalPlace(Place):
    """Chats in memory."""

    adapter: LocalAdapter
    chat_id, user_id = "1", "u1"
    knows_when_disconnected = False
    redelivers = False

    def __init__(self) -> None:
        self.adapter = LocalAdapter(PlatformConfig(enabled=True), ignore)
        self._count = 0

    async def person_says(self, text: str) -> Any:
        self._count += 1
        return self._deliver(text, f"m{self._count}")

    def _deliver(self, text: str, message_id: str) -> Any:
        task = asyncio.create_task(self.adapter.receive(text, message_id=message_id))
        return task, text, message_id

    async def delivered_again(self, said: Any) -> None:
        self._deliver(*said[1:])

    def acknowledged(self, said: Any) -> bool:
        return bool(said[0].done())

    async def person_presses(self, label: str) -> None:
        buttons = self.adapter.shown[-1].buttons
        data = next(one.data for one in buttons if one.label == label)
        await self.adapter.receive("", button=data)

    def texts(self) -> list[str]:
        return self.adapter.texts(self.chat_id)

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        self.adapter.failures.append(SendError("no", retry_after=retry_after, permanent=permanent))


class TestLocal(AdapterConformance):
    @pytest.fixture
    async def place(self) -> LocalPlace:
        return LocalPlace()


class TelegramPlace(Place):
    """The scripted Bot API."""

    chat_id, user_id = "42", "42"

    def __init__(self, api: BotApi) -> None:
        from gateway.platforms.telegram.adapter import TelegramAdapter

        self.api = api
        config = PlatformConfig(enabled=True, token=TOKEN, extra={"base_url": api.url})
        self.adapter = TelegramAdapter(config, ignore)

    async def person_says(self, text: str) -> Any:
        return await self.api.say(text)

    async def delivered_again(self, said: Any) -> None:
        await self.api.add({**said, "update_id": said["update_id"] + 500})

    def acknowledged(self, said: Any) -> bool:
        return self.api.confirmed > int(said["update_id"])

    async def person_presses(self, label: str) -> None:
        await self.api.press(self.api.sent[-1], label)

    def texts(self) -> list[str]:
        return [one.text or str(one.file) for one in self.api.sent]

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        if permanent:
            self.api.faults.append(Fault("403", "sendMessage"))
        else:
            self.api.faults.append(Fault("429", "sendMessage", retry_after=retry_after or 1))


@pytest.mark.filterwarnings("ignore:.*retry_after")
class TestTelegram(AdapterConformance):
    @pytest.fixture
    async def place(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TelegramPlace]:
        pytest.importorskip("telegram")
        from gateway.platforms.telegram import polling as telegram_polling

        monkeypatch.setattr(telegram_polling, "FIRST_PAUSE", 0.01)
        async with BotApi() as api:
            yield TelegramPlace(api)
