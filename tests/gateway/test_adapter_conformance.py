"""Every adapter keeps the contract: the platform in memory, and Telegram."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from gateway.config import PlatformConfig
from gateway.platforms.base import MessageEvent, SendError
from gateway.platforms.local.adapter import LocalAdapter

from .adapter_conformance import AdapterConformance, Place
from .bot_api import BotApi
from .telegram_chats import TelegramPlace


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


class LocalPlace(Place):
    """Chats in memory."""

    adapter: LocalAdapter
    chat_id, user_id = "1", "u1"
    knows_when_disconnected = False
    redelivers = False
    lacks: ClassVar = {
        **dict.fromkeys(("go_away", "come_back"), "it is in this process"),
        **dict.fromkeys(("chat_is_deleted", "we_are_removed"), "it has one kind of trouble"),
        "person_sends": "files are handed in by path",
        "killed": "its chats end with the process; see test_take_over.py",
    }

    def __init__(self) -> None:
        self.adapter = LocalAdapter(PlatformConfig(enabled=True), ignore)
        self._count = 0

    async def person_says(self, text: str) -> Any:
        self._count += 1
        return self._deliver(text, f"m{self._count}")

    def _deliver(self, text: str, message_id: str, **more: Any) -> Any:
        task = asyncio.create_task(self.adapter.receive(text, message_id=message_id, **more))
        return task, text, message_id

    async def person_edits(self, said: Any, text: str) -> None:
        self._deliver(text, said[2], is_edit=True)

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        self._count += 1
        chat_id = f"c{number}"
        who = name or f"person {number}"
        self._deliver(text, f"m{self._count}", chat_id=chat_id, user_id=who)
        return chat_id

    def texts_in(self, chat_id: str) -> list[str]:
        return self.adapter.texts(chat_id)

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
    most_chats = 100

    @pytest.fixture
    async def place(self) -> LocalPlace:
        return LocalPlace()


@pytest.mark.filterwarnings("ignore:.*retry_after")
class TestTelegram(AdapterConformance):
    @pytest.fixture
    async def place(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TelegramPlace]:
        pytest.importorskip("telegram")
        from gateway.platforms.telegram import polling as telegram_polling

        monkeypatch.setattr(telegram_polling, "FIRST_PAUSE", 0.01)
        async with BotApi() as api:
            yield TelegramPlace(api)
