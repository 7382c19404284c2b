"""A platform in memory: for tests, and for programs that bring their own transport."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...config import Platform, PlatformConfig
from ...session import SessionSource
from ..base import AdapterHost, Button, MessageEvent, OnMessage, PlatformAdapter, SendError
from .manifest import MANIFEST


@dataclass(slots=True)
class Shown:
    """A message of ours as a chat shows it."""

    id: str
    chat_id: str
    text: str
    thread_id: str | None = None
    buttons: tuple[Button, ...] = ()
    versions: list[str] = field(default_factory=list)
    """What it said before it was edited."""


class LocalAdapter(PlatformAdapter):
    """Chats in memory. A test may make it fail: `failures` are raised by the next sends."""

    platform = Platform.LOCAL
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self.shown: list[Shown] = []
        self.failures: list[Exception] = []
        self.reactions: list[tuple[str, str, str]] = []
        self.typed: list[str] = []
        self._keys: set[str] = set()
        self._run = os.urandom(3).hex()
        self._ids = itertools.count(1)
        self._changed = asyncio.Condition()
        self.connected = False

    @property
    def account(self) -> str:
        """Which of several transports it is."""
        return str(self.config.extra.get("account") or "")

    async def connect(self) -> None:
        """Be connected, unless a failure waits."""
        if self.failures and isinstance(self.failures[0], ConnectionError):
            raise self.failures.pop(0)
        self.connected = True

    async def run(self) -> None:
        """Nothing comes by itself: see `receive`."""
        await asyncio.Event().wait()

    async def disconnect(self) -> None:
        """Be disconnected."""
        self.connected = False

    async def receive(
        self,
        text: str,
        *,
        chat_id: str = "1",
        user_id: str = "u1",
        message_id: str | None = None,
        chat_type: str = "dm",
        thread_id: str | None = None,
        button: str | None = None,
        **more: Any,
    ) -> None:
        """A message arrives; returns when it was accepted. `more` are further fields of it."""
        source = SessionSource(
            self.platform, chat_id, chat_type=chat_type, user_id=user_id, user_name=user_id,
            thread_id=thread_id,
        )  # fmt: skip
        event = MessageEvent(text, source, message_id or self._new_id(), button=button, **more)
        await self.on_message(event)

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
        """Show a text."""
        self._fail_if_told()
        if key is not None and key in self._keys:
            return None
        if key is not None:
            self._keys.add(key)
        shown = Shown(self._new_id(), chat_id, text, thread_id, tuple(buttons))
        async with self._changed:
            self.shown.append(shown)
            self._changed.notify_all()
        return shown.id

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message."""
        self._fail_if_told()
        async with self._changed:
            for message in self.shown:
                if message.id == message_id:
                    message.versions.append(message.text)
                    message.text = text
            self._changed.notify_all()

    async def typing(self, chat_id: str, thread_id: str | None = None) -> None:
        """Note the sign."""
        self.typed.append(chat_id)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Note the reaction."""
        self.reactions.append((chat_id, message_id, emoji))

    def texts(self, chat_id: str = "1") -> list[str]:
        """What a chat shows."""
        return [message.text for message in self.shown if message.chat_id == chat_id]

    async def wait_for(self, count: int, chat_id: str = "1", seconds: float = 20.0) -> list[str]:
        """Wait until a chat shows at least `count` messages."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: len(self.texts(chat_id)) >= count)
        return self.texts(chat_id)

    def _new_id(self) -> str:
        return f"{self._run}-{next(self._ids)}"

    def _fail_if_told(self) -> None:
        if self.failures and isinstance(self.failures[0], SendError):
            raise self.failures.pop(0)
