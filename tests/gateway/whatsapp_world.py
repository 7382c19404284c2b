"""The world of the scripted WhatsApp: people with telephones, and what they see and do."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NUMBER, DISPLAY = "106540352242922", "15550783881"
TOKEN = "EAAtoken-of-the-suite-that-is-long"
SECRET = "0123456789abcdef0123456789abcdef"
VERIFY = "a-word-of-ours"
ANN = "16505550042"
WINDOW_SECONDS = 24 * 3600.0


@dataclass
class Sent:
    """A message of ours as a person sees it."""

    id: str
    chat: str
    kind: str
    text: str
    given: dict[str, Any]
    choices: list[dict[str, Any]] = field(default_factory=list)
    file: tuple[str, bytes, str] | None = None


class World:
    """People, their chats with us, and the clock of the 24 hours."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.read: list[str] = []
        self.typings: list[str] = []
        self.reactions: list[tuple[str, str, str]] = []
        self.written_at: dict[str, float] = {}
        """When people last wrote."""
        self.gone: set[str] = set()
        """People who are not on WhatsApp, or have blocked us."""
        self.files: dict[str, tuple[bytes, str]] = {}
        self._numbers = itertools.count(1)
        self._changed = asyncio.Condition()

    async def post(self, value: dict[str, Any]) -> asyncio.Task[None]:
        """Post something to the webhook until it is taken."""
        raise NotImplementedError

    def new_id(self) -> str:
        """The next id of a message."""
        return f"wamid.{next(self._numbers):08}"

    # What people do

    def message(self, kind: str = "text", *, user: str = ANN, **more: Any) -> dict[str, Any]:
        """A message as Meta tells of it."""
        return {
            "from": user, "id": self.new_id(), "timestamp": str(int(time.time())), "type": kind,
            **more,
        }  # fmt: skip

    async def say(self, text: str = "", *, user: str = ANN, **more: Any) -> dict[str, Any]:
        """A person writes; returns the message."""
        message = self.message("text", user=user, text={"body": text}, **more)
        await self.tell(message)
        return message

    async def send_file(
        self, kind: str, data: bytes, mime: str, *, user: str = ANN, **more: Any
    ) -> dict[str, Any]:
        """A person sends a file."""
        media_id = f"media{next(self._numbers)}"
        self.files[media_id] = data, mime
        shown = {"id": media_id, "mime_type": mime, "sha256": "x", **more}
        message = self.message(kind, user=user, **{kind: shown})
        await self.tell(message)
        return message

    async def choose(self, sent: Sent, title: str, *, user: str = ANN) -> None:
        """A person presses a button, or takes a row of a list."""
        chosen = next(one for one in sent.choices if one["title"] == title)
        kind = "button_reply" if sent.given["interactive"]["type"] == "button" else "list_reply"
        reply = {"id": chosen["id"], "title": title}
        context = {"from": DISPLAY, "id": sent.id}
        interactive = {"type": kind, kind: reply}
        await self.tell(
            self.message("interactive", user=user, interactive=interactive, context=context)
        )

    async def respond(self, sent: Sent, emoji: str, *, user: str = ANN) -> None:
        """A person puts an emoji under a message of ours."""
        reaction = {"message_id": sent.id, "emoji": emoji}
        await self.tell(self.message("reaction", user=user, reaction=reaction))

    async def tell(self, *messages: dict[str, Any], name: str = "") -> asyncio.Task[None]:
        """Meta tells of messages, in one request; of who wrote them by a name of theirs."""
        for message in messages:
            self.written_at[message["from"]] = time.time()
        contacts = [
            {"profile": {"name": name or f"Person {user[-2:]}"}, "wa_id": user}
            for user in {message["from"] for message in messages}
        ]
        return await self.post({"contacts": contacts, "messages": list(messages)})

    def let_a_day_pass(self, user: str = ANN) -> None:
        """The person was silent for more than 24 hours."""
        self.written_at[user] = time.time() - WINDOW_SECONDS - 60

    def is_open(self, user: str) -> bool:
        """Whether anything but a template may be sent to somebody."""
        return time.time() - self.written_at.get(user, 0.0) < WINDOW_SECONDS

    # What a test looks at

    def texts(self, user: str = ANN) -> list[str]:
        """What our messages to somebody say."""
        return [one.text or str(one.file) for one in self.sent if one.chat == user]

    async def until(self, fits: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds), self._changed:
            while not fits():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.02)

    async def wait_for(self, count: int, user: str = ANN) -> list[str]:
        """Wait until somebody sees at least `count` messages of ours."""
        await self.until(lambda: len(self.texts(user)) >= count)
        return self.texts(user)

    async def notify(self) -> None:
        """Something has changed."""
        async with self._changed:
            self._changed.notify_all()
