"""The world of the scripted Signal: people, groups, what they write, and what they are shown."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ACCOUNT, ACI = "+15550000001", "aaaaaaaa-0000-4000-8000-000000000001"
ANN = "bbbbbbbb-0000-4000-8000-000000000042"
GARDEN = "Z2FyZGVuK+2dyb3Vw/L2lkPT0="
MOST_VERSIONS = 10


def person(number: int) -> str:
    """The id of somebody."""
    return f"bbbbbbbb-0000-4000-8000-{number:012}"


def number_of(uuid: str) -> str:
    """Their telephone number."""
    return f"+1666{uuid[-7:]}"


@dataclass
class Sent:
    """A message of the account as a chat shows it."""

    timestamp: int
    chat: str
    text: str
    given: dict[str, Any]
    styles: list[str] = field(default_factory=list)
    file: tuple[str, bytes] | None = None
    versions: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


class World:
    """Signal's servers and everybody's devices."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.receipts: list[tuple[str, int]] = []
        self.reactions: list[tuple[str, str, int]] = []
        self.typings: list[str] = []
        self.deleted: list[int] = []
        self.ignored_edits = 0
        self.unregistered: set[str] = set()
        self.untrusted: set[str] = set()
        self.groups: dict[str, set[str]] = {GARDEN: {ANN, person(43)}}
        self.members = {GARDEN}
        """Groups that the account is in."""
        self.files: dict[str, bytes] = {}
        self.waiting: deque[dict[str, Any]] = deque()
        """What the servers keep until the daemon asks for it."""
        self._last = 0
        self._numbers = itertools.count(1)
        self._changed = asyncio.Condition()

    def now(self) -> int:
        """A time that was never before."""
        self._last = max(self._last + 1, int(time.time() * 1000))
        return self._last

    def envelope(self, user: str = ANN, **more: Any) -> dict[str, Any]:
        """An envelope from somebody."""
        sent_at = more.pop("timestamp", None) or self.now()
        return {
            "envelope": {
                "source": user, "sourceNumber": number_of(user), "sourceUuid": user,
                "sourceName": f"Person {user[-3:].lstrip('0')}", "sourceDevice": 1,
                "timestamp": sent_at, "serverReceivedTimestamp": sent_at + 1,
                "serverDeliveredTimestamp": sent_at + 2, **more,
            },
            "account": ACCOUNT,
        }  # fmt: skip

    def data(self, text: str = "", *, group: str | None = None, **more: Any) -> dict[str, Any]:
        """A message as an envelope has it."""
        data: dict[str, Any] = {
            "timestamp": self.now(), "message": text or None, "expiresInSeconds": 0,
            "isExpirationUpdate": False, "viewOnce": False, **more,
        }  # fmt: skip
        if group:
            data["groupInfo"] = {
                "groupId": group, "groupName": "Garden", "revision": 3, "type": "DELIVER",
            }  # fmt: skip
        return data

    def attached(self, files: dict[str, bytes], kinds: dict[str, str]) -> list[dict[str, Any]]:
        """Files as a message has them."""
        found = []
        for name, data in files.items():
            file_id = f"att{next(self._numbers)}.{name.rpartition('.')[2]}"
            self.files[file_id] = data
            self.keep_file(file_id, data)
            found.append({
                "contentType": kinds.get(name, "application/octet-stream"), "filename": name,
                "id": file_id, "size": len(data), "width": None, "height": None, "caption": None,
                "uploadTimestamp": self.now(),
            })  # fmt: skip
        return found

    def keep_file(self, file_id: str, data: bytes) -> None:
        """The daemon fetched a file."""

    async def say(
        self,
        text: str = "",
        *,
        user: str = ANN,
        group: str | None = None,
        files: dict[str, bytes] | None = None,
        kinds: dict[str, str] | None = None,
        name: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """Somebody writes, under a name of theirs if it is given; returns the envelope."""
        if files:
            more["attachments"] = self.attached(files, kinds or {})
        data = self.data(text, group=group, **more)
        said = self.envelope(user, dataMessage=data, timestamp=data["timestamp"])
        said["envelope"]["sourceName"] = name or said["envelope"]["sourceName"]
        await self.deliver(said)
        return said

    async def name_us(self, text: str, **more: Any) -> dict[str, Any]:
        """Somebody writes in the group, with a mention of us in front."""
        us = {"name": ACCOUNT, "number": ACCOUNT, "uuid": ACI, "start": 0, "length": 1}
        given = {"group": GARDEN, **more}
        return await self.say(f"\ufffc {text}", mentions=[us], **given)

    async def rewrite(self, said: dict[str, Any], text: str) -> None:
        """Somebody changes what they wrote."""
        before = said["envelope"]
        data = {**before["dataMessage"], "message": text, "timestamp": self.now()}
        edit = {"targetSentTimestamp": before["timestamp"], "dataMessage": data}
        again = self.envelope(before["sourceUuid"], editMessage=edit, timestamp=data["timestamp"])
        await self.deliver(again)

    async def respond(self, sent: Sent, emoji: str, *, user: str = ANN, **more: Any) -> None:
        """Somebody puts an emoji under a message of ours."""
        reaction = {
            "emoji": emoji, "targetAuthor": ACCOUNT, "targetAuthorNumber": ACCOUNT,
            "targetAuthorUuid": ACI, "targetSentTimestamp": sent.timestamp, "isRemove": False,
            **more,
        }  # fmt: skip
        group = sent.chat.removeprefix("group:") if sent.chat.startswith("group:") else None
        await self.say(user=user, group=group, reaction=reaction)

    async def note(self, text: str) -> None:
        """The owner of the account writes to themselves on their telephone."""
        sent = {
            "destination": ACCOUNT, "destinationNumber": ACCOUNT, "destinationUuid": ACI,
            **self.data(text),
        }  # fmt: skip
        own = self.envelope(ACI, syncMessage={"sentMessage": sent}, timestamp=sent["timestamp"])
        own["envelope"] |= {"sourceNumber": ACCOUNT, "source": ACCOUNT}
        await self.deliver(own)

    async def deliver(self, params: dict[str, Any]) -> None:
        """The servers have something for the daemon."""
        raise NotImplementedError

    # What a test looks at

    def texts(self, chat: str = ANN) -> list[str]:
        """What the account's messages in a chat say, as people see them."""
        return [
            one.text or str(one.file)
            for one in self.sent
            if one.chat == chat and one.timestamp not in self.deleted
        ]

    async def until(self, fits: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds), self._changed:
            while not fits():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.02)

    async def wait_for(self, count: int, chat: str = ANN) -> list[str]:
        """Wait until a chat shows at least `count` messages of the account."""
        await self.until(lambda: len(self.texts(chat)) >= count)
        return self.texts(chat)

    async def notify(self) -> None:
        """Something has changed."""
        async with self._changed:
            self._changed.notify_all()

    def find(self, timestamp: int) -> Sent | None:
        """A message of the account, by its last version."""
        return next(
            (one for one in self.sent if (one.versions or [one.timestamp])[-1] == timestamp), None
        )


def utf16(text: str) -> int:
    """How long a text is for Signal's ranges."""
    return len(text.encode("utf-16-le")) // 2
