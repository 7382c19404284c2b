"""What people write on IRC, as messages: handed in one after the other, each until it is stored.

IRC keeps nothing: what was said while we were away is gone, and what we have read is ours alone. So
a message waits here while the store is away, and the server waits once there are too many.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import re
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermes_state import StoreError

from ...session import SessionSource
from ..base import MessageEvent
from ..typed import as_command
from .client import BrokenError
from .protocol import Line, fold, is_channel, without_marks

if TYPE_CHECKING:
    from .adapter import IrcAdapter

log = logging.getLogger(__name__)

MOST_WAITING = 1000
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
ATTEMPTS = 3
"""At a message that cannot be stored although the store is well."""
SPLIT_FROM = 350
"""Bytes from which a client may have cut a longer text, and sends the rest next."""
TELL_AGAIN_SECONDS = 3600.0
NO_ACCOUNT = (
    "I know people by their account of this network's services. Log in (NickServ), and write again."
)
NO_FILES = "I cannot take files over IRC. Put it somewhere, and write me its address."
_CTCP = re.compile(r"\x01([A-Za-z]+)(?: ([^\x01]*))?\x01?")


class Inbound:
    """The messages of one adapter, over all its connections."""

    def __init__(self, adapter: IrcAdapter) -> None:
        self._adapter = adapter
        self._lines: asyncio.Queue[Line] = asyncio.Queue(MOST_WAITING)
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._told: dict[str, float] = {}
        self.taken = 0
        """How many messages were handed in, or were nothing to us."""

    async def put(self, line: Line) -> None:
        """Take a line from the connection."""
        await self._lines.put(line)

    async def run(self) -> None:
        """Hand messages in until cancelled."""
        while True:
            line = await self._lines.get()
            try:
                await self._deal_with(line)
            except BrokenError as error:
                log.info("A message of %s could not be dealt with: %s", line.nick, error)
            except TimeoutError:
                log.warning("The server does not say who %s is; a message is lost", line.nick)
            self.taken += 1

    async def _deal_with(self, line: Line) -> None:
        adapter, client = self._adapter, self._adapter.client
        # A notice is never answered: that is what keeps programs from answering each other.
        if line.command != "PRIVMSG" or not line.is_from_person:
            return
        if fold(line.nick, client.mapping) == fold(client.nick, client.mapping):
            return
        target, said = line.param(0), line.param(1)
        in_channel = is_channel(target)
        ctcp = _CTCP.match(said)
        if ctcp is not None and ctcp[1].upper() == "ACTION":
            said = f"*{ctcp[2] or ''}*"
        elif ctcp is not None:
            if ctcp[1].upper() == "DCC" and not in_channel:
                await self._tell_once(line, NO_FILES, known=True)
            return
        text = without_marks(said).strip()
        addressed = text if not in_channel else without_address(text, client.nick)
        if not (addressed or text):
            return
        person = await adapter.people.identify(client, line)
        if not person:
            if not in_channel:
                await self._tell_once(line, NO_ACCOUNT)
            return
        chat = fold(target, client.mapping) if in_channel else person
        event = self._event(line, as_command(addressed or "") or addressed or text, chat, person)
        is_for_us = addressed is not None or not adapter.require_mention
        if is_for_us or adapter.host.expects(event):
            await self._hand_in(event)

    def _event(self, line: Line, text: str, chat: str, person: str) -> MessageEvent:
        in_channel = is_channel(chat)
        source = SessionSource(
            self._adapter.platform,
            chat,
            chat_name=line.param(0) if in_channel else line.nick,
            chat_type="group" if in_channel else "dm",
            user_id=person,
            user_name=line.nick,
        )
        is_long = len(line.param(1).encode("utf-8", "replace")) > SPLIT_FROM
        return MessageEvent(
            text, source, self._id_of(line), timestamp=_time_of(line),
            split_with=" " if is_long else None, raw=line,
        )  # fmt: skip

    def _id_of(self, line: Line) -> str:
        """The server's id, where it gives one: what a bouncer plays again is known by it."""
        if line.tags.get("msgid"):
            return f"msgid:{line.tags['msgid']}"
        if line.tags.get("time"):
            said = "\0".join((line.tags["time"], line.prefix, *line.params))
            return f"time:{hashlib.sha256(said.encode('utf-8', 'replace')).hexdigest()[:32]}"
        return f"{self._run}:{next(self._numbers)}"

    async def _hand_in(self, event: MessageEvent) -> None:
        """Have a message stored, however long the store takes to be well again."""
        pause = FIRST_PAUSE
        for attempt in itertools.count(1):
            try:
                await self._adapter.on_message(event)
                return
            except Exception as error:
                # A fault that only this one message meets must not keep all others out.
                passing = isinstance(error, StoreError | OSError)
                if attempt >= ATTEMPTS and (not passing or isinstance(error, ValueError)):
                    log.exception("%s is given up", event.message_id)
                    return
                log.warning("%s waits: %s", event.message_id, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _tell_once(self, line: Line, text: str, *, known: bool = False) -> None:
        """Tell somebody why nothing happens; seldom, and, if `known`, nobody who is a stranger."""
        adapter, now = self._adapter, time.monotonic()
        if known:
            person = await adapter.people.identify(adapter.client, line)
            source = SessionSource(adapter.platform, person, user_id=person)
            if not person or not await adapter.host.is_allowed(source):
                return
        self._told = {
            whom: when for whom, when in self._told.items() if now - when < TELL_AGAIN_SECONDS
        }
        if line.nick not in self._told and len(self._told) < MOST_WAITING:
            self._told[line.nick] = now
            await adapter.client.tell(line.nick, [text], "NOTICE")


def without_address(text: str, nick: str) -> str | None:
    """What is said to us in a channel: "hermes: hello" is "hello"; None if it is for others."""
    name = re.escape(nick)
    match = re.match(rf"@?{name}(?:[:,]\s*|\s+|$)", text, re.IGNORECASE)
    if match is not None:
        return text[match.end() :].strip()
    is_named = re.search(rf"(?<![\w@])@{name}(?![\w-])", text, re.IGNORECASE)
    return text if is_named else None


def _time_of(line: Line) -> datetime:
    try:
        return datetime.fromisoformat(line.tags["time"])
    except (KeyError, ValueError):
        return datetime.now(UTC)
