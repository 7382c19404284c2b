"""XMPP, through slixmpp: direct chats and rooms, corrections, receipts, archives, files.

Each text carries an id that is made of its delivery's key, so one whose fate is unknown is looked
for in the archive before it is sent again. End-to-end encryption is not supported: whoever writes
encrypted is told so.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from ...config import Platform, PlatformConfig
from ..base import AdapterHost, Button, OnMessage, PlatformAdapter
from ..kept import KeptFacts
from .formatting import shown_length
from .manifest import MANIFEST
from .place import NAME
from .stanzas import MAM

if TYPE_CHECKING:
    from .client import Arrival, Client, Login
    from .reader import Reader
    from .rooms import Rooms
    from .sending import Sender

log = logging.getLogger(__name__)

PORT = 5222
PING_SECONDS = 60.0
_FALSE = ("false", "no", "off", "0")


class XmppAdapter(PlatformAdapter):
    """One account on one server."""

    platform = Platform.XMPP
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        extra = config.extra
        self.jid = str(extra.get("jid") or "").strip().partition("/")[0].lower()
        self.require_mention = str(extra.get("require_mention", True)).lower() not in _FALSE
        self.media_hosts = _names(extra.get("media_hosts"))
        self.has_archive = False
        self._client: Client | None = None
        self._parts: tuple[Reader, Sender, Rooms] | None = None
        self._trust: ssl.SSLContext | None = None

    @property
    def account(self) -> str:
        """Which account it is."""
        return self.jid

    @property
    def client(self) -> Client:
        """The connection."""
        if self._client is None:
            from .client import BrokenError

            raise BrokenError("XMPP is not connected")
        return self._client

    @property
    def kept(self) -> KeptFacts:
        """What is kept for the next connection."""
        return KeptFacts.of(self.host)

    @property
    def reader(self) -> Reader:
        """Hands in what comes."""
        return self._made()[0]

    @property
    def sender(self) -> Sender:
        """Sends."""
        return self._made()[1]

    @property
    def rooms(self) -> Rooms:
        """The rooms that it is in, or is to be in."""
        return self._made()[2]

    def _made(self) -> tuple[Reader, Sender, Rooms]:
        if self._parts is None:
            from .reader import Reader
            from .rooms import Rooms
            from .sending import Sender

            extra = self.config.extra
            nick = str(extra.get("nick") or "").strip() or self.jid.partition("@")[0]
            rooms = Rooms(_names(extra.get("rooms")), nick)
            self._parts = Reader(self), Sender(self), rooms
        return self._parts

    @property
    def trust(self) -> ssl.SSLContext:
        """Whose certificates are believed. Raises XmppError."""
        if self._trust is None:
            from .client import XmppError

            file = self.config.extra.get("ca_file")
            try:
                # One of its own: other clients write into theirs which protocol they speak.
                self._trust = (
                    ssl.create_default_context(cafile=str(Path(str(file)).expanduser()))
                    if file
                    else _system_trust()
                )
            except (OSError, ssl.SSLError) as error:
                raise XmppError(f"platforms.xmpp.ca_file cannot be used: {error}") from error
        return self._trust

    # Connection

    async def connect(self) -> None:
        """Log in; raises XmppError if the account cannot be used."""
        from .client import Client, RefusedError

        await self.disconnect()
        reader = self.reader

        def take(xml: ET.Element, arrival: Arrival) -> None:
            reader.receive(client, xml, arrival)

        client = Client(self._login(), take)
        try:
            await client.open()
            try:
                self.has_archive = MAM in await client.features(self.jid)
            except RefusedError as error:
                log.info("The server says nothing of the account: %s", error)
                self.has_archive = False
            facts = await asyncio.to_thread(self.kept.read, NAME)
            await reader.go_on_from(facts, client)
        except BaseException:
            await client.close()
            raise
        if not self.has_archive:
            log.warning("The server of %s keeps no archive of messages (XEP-0313)", self.jid)
        self.capabilities = dataclasses.replace(MANIFEST.capabilities, repeatable=self.has_archive)
        self._client = client
        self.sender.begin()

    def _login(self) -> Login:
        from .client import Login, XmppError

        extra = self.config.extra
        if not re.fullmatch(r"[^\s@/]+@[^\s@/]+", self.jid):
            raise XmppError(
                "Set platforms.xmpp.jid (or XMPP_JID) to the address of its account, such as"
                " hermes@example.org."
            )
        password = str(extra.get("password") or "")
        if not password:
            raise XmppError("Set XMPP_PASSWORD to the password of its account.")
        with_tls = str(extra.get("tls", True)).lower() not in _FALSE
        host, port = _split(str(extra.get("server") or ""))
        return Login(self.jid, password, host, port, self.trust if with_tls else None)

    async def run(self) -> None:
        """Receive until cancelled; raises when the connection breaks."""
        client, reader = self.client, self.reader
        works = (client.watch(PING_SECONDS), reader.run(client), reader.keep_place())
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await reader.stop()
            await reader.save()

    async def disconnect(self) -> None:
        """Leave."""
        client, self._client = self._client, None
        if self._parts is not None:
            await self._parts[0].stop()
            self._parts[2].leave()
        if client is not None:
            await client.close()

    # Out

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
        """Show a text in a chat or a room. Raises SendError."""
        return await self.sender.send(chat_id, text, key)

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message of ours."""
        await self.sender.edit(chat_id, message_id, text)

    async def typing(self, chat_id: str, thread_id: str | None = None) -> None:
        """Show that an answer is being made."""
        self.sender.type(chat_id)

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Put a file where the server has a place for it, and show its address."""
        return await self.sender.send_media(chat_id, path, caption)

    def measure(self, markdown: str, /) -> int:
        """How long a text is once it is formatted."""
        return shown_length(markdown)


def _system_trust() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


def _split(address: str) -> tuple[str, int]:
    host, colon, number = address.strip().rpartition(":")
    if colon and number.isdecimal() and (":" not in host or host.startswith("[")):
        return host.strip("[]"), int(number)
    return address.strip().strip("[]"), PORT


def _names(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, list | tuple):
        return ()
    return tuple(name for name in (str(each).strip() for each in given) if name)
