"""What the gateway says, as messages.

XMPP knows no request that shows its message once. So each text that has a key is sent under an id
made of it, and before a text is sent again that may have been shown, the archive of its chat is
looked through for that id. The first texts of a chat after a start may be such ones too: they are
looked for until one is not there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from ..base import SendError
from ..last_look import LOST, is_lost
from . import stanzas
from .archive import CLOCK_SECONDS, Archive
from .client import BrokenError, RefusedError
from .media import UploadService, find_service, upload

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

    from .adapter import XmppAdapter

log = logging.getLogger(__name__)

EARLIER_SECONDS = 24 * 3600.0
"""How far back a text is looked for that an earlier process may have sent."""
MOST_PAGES = 10
REMEMBERED = 1000
BUSY_SECONDS = 30.0
ENTER_SECONDS = 10.0
"""How long a text waits for us to be in its room, before that counts as an attempt."""
_PASSING = frozenset(
    {
        "internal-server-error", "resource-constraint", "remote-server-timeout",
        "remote-server-not-found", "undefined-condition",
    }
)  # fmt: skip
_NOT_THERE = frozenset({"not-acceptable", "not-allowed"})
"""What a room says to somebody who is not in it."""


class Sender:
    """Sends for one account; it outlives connections, since what was tried does."""

    def __init__(self, adapter: XmppAdapter) -> None:
        self._adapter = adapter
        self._tried: OrderedDict[str, float] = OrderedDict()
        """When a text was first sent that may have been shown, by its name."""
        self._begun: set[str] = set()
        """Chats in which nothing of an earlier process can be any more."""
        self._service: UploadService | None = None

    def begin(self) -> None:
        """A new connection: others may have sent meanwhile."""
        self._begun.clear()
        self._service = None

    async def send(self, chat_id: str, text: str, key: str | None, url: str = "") -> str:
        """Show a text in a chat; returns the id of its message."""
        name = hashlib.sha256(key.encode()).hexdigest()[:32] if key else secrets.token_hex(16)
        if key and await self._is_shown(chat_id, name):
            self._tried.pop(name, None)
            return name
        kind, first = await self._kind(chat_id), time.time()
        try:
            await self._tell(stanzas.message(chat_id, kind, name, text, url=url))
        except BrokenError as error:
            if not error.unsure:
                raise SendError(f"XMPP: {error}") from error
            if key is None or not self._can_look(chat_id):
                raise SendError(f"XMPP: {error}", unsure=True) from error
            self._tried.setdefault(name, first)
            while len(self._tried) > REMEMBERED:
                self._tried.popitem(last=False)
            raise SendError(f"XMPP: {error}") from error
        except RefusedError as error:
            raise self._refused(chat_id, error) from error
        self._tried.pop(name, None)
        return name

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace a text of ours (XEP-0308)."""
        name = secrets.token_hex(16)
        kind = await self._kind(chat_id)
        try:
            await self._tell(stanzas.message(chat_id, kind, name, text, replaces=message_id))
        except BrokenError as error:
            raise SendError(f"XMPP: {error}") from error
        except RefusedError as error:
            raise self._refused(chat_id, error) from error

    def type(self, chat_id: str) -> None:
        """Show that an answer is being written; in rooms that is everybody's and nobody's."""
        if self._adapter.rooms.get(chat_id) is None:
            try:
                self._adapter.client.post(stanzas.composing(chat_id))
            except BrokenError as error:
                raise SendError(f"XMPP: {error}") from error

    async def send_media(self, chat_id: str, path: str, caption: str) -> str:
        """Send a file; one that the server does not take is named instead."""
        file = Path(path)
        try:
            data = await asyncio.to_thread(file.read_bytes)
        except OSError as error:
            return await self._instead(chat_id, file, f"is gone: {error.strerror}")
        try:
            service = await self._find_service()
            if service is None:
                return await self._instead(chat_id, file, "is not sent: the server takes no files")
            if not data or len(data) > (service.most_bytes or len(data)):
                why = f"is too large ({len(data):,} bytes)" if data else "is empty"
                return await self._instead(chat_id, file, why)
            client, trust = self._adapter.client, self._adapter.trust
            address = await upload(client, service, file.name, data, trust)
        except RefusedError as error:
            return await self._instead(chat_id, file, f"is not taken by the server ({error})")
        except BrokenError as error:
            raise SendError(f"XMPP: {error}") from error
        if caption:
            await self.send(chat_id, caption, None)
        return await self.send(chat_id, address, None, url=address)

    async def _find_service(self) -> UploadService | None:
        if self._service is None:
            self._service = await find_service(self._adapter.client)
        return self._service

    async def _instead(self, chat_id: str, file: Path, why: str) -> str:
        return await self.send(chat_id, self._adapter.format(f"📎 `{file.name}` {why}."), None)

    async def _kind(self, chat_id: str) -> str:
        room = self._adapter.rooms.get(chat_id)
        if room is None:
            if "@" not in chat_id.partition("/")[0]:
                raise SendError(f"XMPP: {chat_id!r} is no address", permanent=True)
            return "chat"
        try:
            async with asyncio.timeout(ENTER_SECONDS):
                await room.present.wait()
        except TimeoutError:
            raise SendError(f"XMPP: we are not in {chat_id}") from None
        return "groupchat"

    async def _tell(self, xml: ET.Element) -> None:
        if is_lost():  # a look, or an upload, may have taken long
            raise SendError(LOST)
        await self._adapter.client.tell(xml)

    # What may have been shown

    def _can_look(self, chat_id: str) -> bool:
        room = self._adapter.rooms.get(chat_id)
        return room.has_archive if room is not None else self._adapter.has_archive

    async def _is_shown(self, chat_id: str, name: str) -> bool:
        """Whether a text is there already that may have been sent before."""
        adapter = self._adapter
        first = self._tried.get(name)
        room = adapter.rooms.get(chat_id)
        if room is not None and name in room.shown:
            return True
        if not self._can_look(chat_id) or (first is None and chat_id in self._begun):
            return False
        since = time.time() - EARLIER_SECONDS if first is None else first - CLOCK_SECONDS
        try:
            archive = Archive(adapter.client, adapter.jid if room is None else chat_id)
            shown = await archive.find(
                name, chat_id if room is None else archive.jid, since, MOST_PAGES
            )
        except BrokenError as error:
            raise SendError(f"XMPP: {error}") from error
        except RefusedError as error:
            if first is not None:  # nobody can tell
                self._tried.pop(name, None)
                raise SendError(f"XMPP: the archive: {error}", unsure=True) from error
            log.warning("The archive of %s cannot be looked through: %s", chat_id, error)
            shown = False
        if not shown and first is None:
            self._begun.add(chat_id)
        return shown

    def _refused(self, chat_id: str, error: RefusedError) -> SendError:
        why = f"XMPP: {chat_id}: {error}"
        room = self._adapter.rooms.get(chat_id)
        if room is not None and error.condition in _NOT_THERE:
            room.leave()  # it is entered again
            return SendError(why)
        if error.kind == "wait":
            return SendError(why, retry_after=error.retry_after or BUSY_SECONDS)
        return SendError(why, permanent=error.condition not in _PASSING)
