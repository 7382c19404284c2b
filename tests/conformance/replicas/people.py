"""People in chats, and programs that use the API: they ask, wait for the answer, and ask again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable

from .checker import NOTICE, answered_name, tells_missing
from .fleet import KEY
from .history import History
from .platform import Telegram

BURST = 3
"""The most messages that a person sends before the answer to the first."""
PATIENCE = 5.0
"""Seconds that a person waits on after a word that the answer may be missing."""
MESSAGES = 12
"""After so many a person leaves, and another comes: long histories only cost time."""
RETRY_SECONDS = 0.2
STOPPED = 499
"""The status with which a program is told that the turn was broken off."""


class People:
    """All who talk to the gateways, and what they see."""

    def __init__(
        self, history: History, telegram: Telegram, chance: random.Random, pause: float
    ) -> None:
        self._history = history
        self._telegram = telegram
        self._chance = chance
        self._pause = pause
        self._newcomers = 0
        self.waiting: dict[str, float] = {}
        """Who waits for an answer, and since when."""

    def _new(self, kind: str) -> str:
        self._newcomers += 1
        return f"{kind}{self._newcomers}"

    async def talk(self, goes_on: Callable[[], bool]) -> None:
        """One person after the other, in a chat of each."""
        while goes_on():
            chat = self._new("c")
            changed = self._telegram.changed[chat] = asyncio.Event()
            said = 0
            while goes_on() and said < MESSAGES:
                seen = len(self._history.shown)
                burst = range(said + 1, said + 1 + self._chance.randint(1, BURST))
                for number in burst:
                    await self._telegram.tell(chat, f"{chat}n{number}")
                said = burst[-1]
                self.waiting[chat] = time.monotonic()
                await self._answered(chat, {f"{chat}n{number}" for number in burst}, changed, seen)
                del self.waiting[chat]
                await asyncio.sleep(self._chance.uniform(0, self._pause))
            del self._telegram.changed[chat]

    async def _answered(
        self, chat: str, open_names: set[str], changed: asyncio.Event, seen: int
    ) -> None:
        """Wait until each message was answered, or for a while after a word that one is missing.

        What was shown up to `seen` was before they were sent.
        """
        notices = 0
        while open_names:
            for shown in self._history.shown[seen:]:
                if shown.chat == chat:
                    open_names.discard(answered_name(shown.text) or "")
                    notices += tells_missing(shown.text)
            seen = len(self._history.shown)
            if not open_names:
                return
            patience = PATIENCE if notices >= len(open_names) else None
            changed.clear()
            try:
                async with asyncio.timeout(patience):
                    await changed.wait()
            except TimeoutError:
                return

    async def use_api(self, port: int, goes_on: Callable[[], bool]) -> None:
        """One program after the other, each with a conversation of its own."""
        while goes_on():
            chat = self._new("api")
            for number in range(1, MESSAGES + 1):
                if not goes_on():
                    return
                name = f"{chat}n{number}"
                self._history.say(chat, name)
                self.waiting[chat] = time.monotonic()
                text = await self._ask(port, chat, name)
                del self.waiting[chat]
                self._history.show(chat, text, "")
                await asyncio.sleep(self._chance.uniform(0, self._pause))

    async def _ask(self, port: int, chat: str, name: str) -> str:
        """The answer, under one name until there is one: the connection may break at any time."""
        while True:
            with contextlib.suppress(
                OSError, asyncio.IncompleteReadError, TimeoutError, ValueError
            ):
                async with asyncio.timeout(PATIENCE):
                    status, body = await _post(port, chat, name)
                if status == 200:
                    content = json.loads(body)
                    text = str(content["choices"][0]["message"]["content"])
                    is_whole = "hermes" not in content and answered_name(text) is not None
                    return text if is_whole else f"{NOTICE} {text}"
                if status == STOPPED:
                    return f"{NOTICE} {body.decode()}"
                if status not in (409, 429, 502, 503):
                    return f"{status}: {body[:300]!r}"
            await asyncio.sleep(RETRY_SECONDS)


async def _post(port: int, chat: str, name: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": name}]})
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n"
            f"Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
            f"X-Hermes-Session-Id: {chat}\r\nIdempotency-Key: {name}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split()[1])
        _, _, length = head.partition("content-length:")
        return status, await reader.readexactly(int(length.split("\r\n")[0]))
    finally:
        writer.close()
