"""A chat platform with its people, in the suite's own process: it outlives every gateway.

It speaks lines of JSON over a socket. A message is delivered until the gateway acknowledges it,
again after every new connection, and now and then twice. What the gateway sends is shown once for
each key, so a platform like this may be told the same thing again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from .script import answer

TWICE = 0.05
"""How many of the messages are delivered twice."""


class Chat:
    """One person, who asks one thing after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[str] = []
        self.accepted: list[str] = []
        self.shown: list[str] = []
        self.changed = asyncio.Event()

    def show(self, text: str) -> None:
        """The gateway says something."""
        self.shown.append(text)
        self.changed.set()

    def notices(self) -> list[str]:
        """What was shown that is no answer of the model."""
        return [text for text in self.shown if text.startswith("⚠️")]

    def answers(self) -> Counter[str]:
        """The prompts that were answered, and how often."""
        start = answer("")
        return Counter(text.removeprefix(start) for text in self.shown if text.startswith(start))


class ChatPlatform:
    """Delivers what people say, and shows what the gateway says."""

    def __init__(self, chats: int, chance: random.Random) -> None:
        self.chats = {str(number): Chat(str(number)) for number in range(1, chats + 1)}
        self._chance = chance
        self._numbers = itertools.count(1)
        self._unacknowledged: dict[str, dict[str, Any]] = {}
        self._keys: set[str] = set()
        self._writer: asyncio.StreamWriter | None = None
        self.repeated = 0
        """How often something was sent again under a key that had been shown."""
        self.redelivered = 0
        """How often a message was delivered again."""

    async def serve(self) -> tuple[asyncio.Server, int]:
        """Listen; the server and its port."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return server, int(server.sockets[0].getsockname()[1])

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.redelivered += len(self._unacknowledged)
        for frame in self._unacknowledged.values():
            self._deliver(frame)
        try:
            while line := await reader.readline():
                if not line.endswith(b"\n"):
                    break  # what was being written when it was killed
                self._take(json.loads(line), writer)
        except ConnectionError:
            pass  # it was killed
        finally:
            writer.close()
            if self._writer is writer:
                self._writer = None

    def _take(self, frame: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if "ack" in frame:
            known = self._unacknowledged.pop(frame["ack"], None)
            if known is not None:
                self.chats[known["chat"]].accepted.append(known["text"])
            return
        if frame["key"] in self._keys:
            self.repeated += 1
        else:
            self._keys.add(frame["key"])
            self.chats[frame["chat"]].show(frame["text"])
        writer.write(json.dumps({"sent": frame["send"]}).encode() + b"\n")

    def _deliver(self, frame: dict[str, Any]) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(frame).encode() + b"\n")

    async def talk(self, chat: Chat, goes_on: Callable[[Chat], bool], pause: float) -> None:
        """Ask, wait for the answer or for word that there is none, think, ask again."""
        while goes_on(chat):
            name = f"c{chat.name}n{len(chat.sent) + 1}"
            chat.sent.append(name)
            frame = {"id": str(next(self._numbers)), "chat": chat.name, "text": name}
            self._unacknowledged[frame["id"]] = frame
            known = len(chat.notices())
            self._deliver(frame)
            if self._chance.random() < TWICE:
                self.redelivered += 1
                self._deliver(frame)
            await self._answered(chat, name, known)
            await asyncio.sleep(self._chance.uniform(0, pause))

    async def _answered(self, chat: Chat, name: str, notices: int) -> None:
        while chat.answers()[name] == 0:
            patience = 5.0 if len(chat.notices()) > notices else None
            chat.changed.clear()
            try:
                async with asyncio.timeout(patience):
                    await chat.changed.wait()
            except TimeoutError:
                return  # whether the answer was shown is not known: it was reported


def by_kind(chats: dict[str, Chat], kinds: dict[str, str]) -> dict[str, int]:
    """How many notices of each kind were shown; `kinds` are their beginnings."""
    found: dict[str, int] = defaultdict(int)
    for chat in chats.values():
        for text in chat.notices():
            kind = next((kind for kind, start in kinds.items() if text.startswith(start)), text)
            found[kind] += 1
    return dict(found)
