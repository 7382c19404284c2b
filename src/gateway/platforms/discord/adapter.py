"""Discord: messages, commands and buttons in by its gateway; its REST API out, by discord.py."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.extras import install_hint

from ...config import Platform, PlatformConfig
from ..base import AdapterHost, Button, OnMessage, PlatformAdapter, SendError
from .formatting import shown_length
from .manifest import MANIFEST
from .place import Places

if TYPE_CHECKING:
    from .client import GatewayClient
    from .messages import Listening
    from .reader import Reader
    from .sending import Sender

log = logging.getLogger(__name__)

AWAY_SECONDS = 90.0
"""For how long the library may try to come back by itself; then everything is made anew."""
LOOK_SECONDS = 5.0
_FALSE = ("false", "no", "off", "0")


class DiscordError(Exception):
    """The bot cannot be used; the message says what to change."""


class DiscordAdapter(PlatformAdapter):
    """A bot. Of its section are read: require_mention, free_response_channels, slash_commands and
    base_url."""

    platform = Platform.DISCORD
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self.me = 0
        self._client: GatewayClient | None = None
        self._parts: tuple[Reader, Sender] | None = None

    @property
    def account(self) -> str:
        """Which bot it is, without its token."""
        return hashlib.sha256(self.config.token.encode()).hexdigest()[:12]

    @property
    def client(self) -> GatewayClient:
        """The logged-in client."""
        if self._client is None:
            raise SendError("Discord is not connected")
        return self._client

    @property
    def places(self) -> Places:
        """Where reading goes on after a restart."""
        return Places(self.host.home, self.host.shelf)

    @property
    def reader(self) -> Reader:
        """Hands in what comes."""
        return self._made()[0]

    @property
    def sender(self) -> Sender:
        """Sends."""
        return self._made()[1]

    def _made(self) -> tuple[Reader, Sender]:
        if self._parts is None:
            from .reader import Reader
            from .sending import Sender

            self._parts = Reader(self), Sender(self)
        return self._parts

    @property
    def listening(self) -> Listening:
        """What of the servers' messages is for us."""
        from .messages import Listening

        extra = self.config.extra
        free = extra.get("free_response_channels") or ()
        listed = free.split(",") if isinstance(free, str) else free
        return Listening(
            self.me,
            str(extra.get("require_mention", True)).lower() not in _FALSE,
            frozenset(str(name).strip() for name in listed),
        )

    # Connection

    async def connect(self) -> None:
        """Make the bot known to Discord; raises DiscordError if it cannot be used."""
        if not self.config.token:
            raise DiscordError("Discord needs a token: set DISCORD_BOT_TOKEN")
        try:
            import discord
        except ImportError as error:
            raise DiscordError(
                f"Discord needs discord.py. Run: {install_hint('discord')}"
            ) from error
        from .client import GatewayClient
        from .errors import FAILURES

        await self.disconnect()
        listening = self.listening
        everything = not listening.require_mention or bool(listening.free_channels)
        self._client = client = GatewayClient(self.reader, reads_everything=everything)
        try:
            await client.point_to(str(self.config.extra.get("base_url") or "").rstrip("/"))
            await client.login(self.config.token)
            await client.find_gateway()
            assert client.user is not None, "logged in"
            self.me = client.user.id
        except discord.LoginFailure as error:
            await self.disconnect()
            raise DiscordError("Discord rejects the token: check DISCORD_BOT_TOKEN") from error
        except FAILURES as error:
            await self.disconnect()
            raise ConnectionError(f"Discord cannot be reached: {error}") from error
        except BaseException:
            await self.disconnect()
            raise
        await self._register_commands(client)

    async def _register_commands(self, client: GatewayClient) -> None:
        from .commands import describe_commands
        from .errors import FAILURES

        if str(self.config.extra.get("slash_commands", True)).lower() in _FALSE:
            return
        try:
            await client.register(describe_commands())
        except FAILURES as error:
            log.warning("The commands are not in Discord's menu: %s", error)

    async def run(self) -> None:
        """Receive until cancelled; raises when the connection is to be made anew."""
        client, reader = self.client, self.reader
        reader.go_on_from(await asyncio.to_thread(self.places.read, str(self.me)))
        await reader.save()  # what comes from now on is for us, whatever happens
        tasks = [
            asyncio.ensure_future(self._receive(client)),
            asyncio.ensure_future(self._watch(client)),
            asyncio.ensure_future(reader.keep_place()),
        ]
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

    async def _receive(self, client: GatewayClient) -> None:
        import discord

        from .errors import FAILURES

        try:
            await client.connect()
        except discord.PrivilegedIntentsRequired as error:
            raise DiscordError(
                "Discord does not let the bot read every message: switch the Message Content intent"
                " on in the developer portal, under Bot, or set require_mention to true and"
                " free_response_channels to none."
            ) from error
        except FAILURES as error:
            raise ConnectionError(f"Discord's gateway: {error or type(error).__name__}") from error
        raise ConnectionError("Discord's gateway ended the connection")

    async def _watch(self, client: GatewayClient) -> None:
        """End the waiting when the library, whose pauses grow to minutes, does not come back."""
        loop = asyncio.get_running_loop()
        client.away_since = loop.time()
        while client.away_since is None or loop.time() - client.away_since < AWAY_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
        raise ConnectionError("Discord's gateway is silent")

    async def disconnect(self) -> None:
        """Stop receiving, and free connections."""
        client, self._client = self._client, None
        if self._parts is not None:
            await self._parts[0].stop()
        if client is not None:
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                await client.close()

    # Messages out

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
        """Show a text in a channel, a thread or a direct chat. Raises SendError."""
        return await self.sender.send(thread_id or chat_id, text, reply_to, buttons, key)

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message of ours."""
        await self.sender.edit(chat_id, message_id, text)

    async def typing(self, chat_id: str, thread_id: str | None = None) -> None:
        """Show that an answer is being made, for about ten seconds."""
        await self.sender.typing(thread_id or chat_id)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on a message."""
        await self.sender.react(chat_id, message_id, emoji)

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Send a file."""
        return await self.sender.send_media(thread_id or chat_id, path, caption)

    def measure(self, markdown: str, /) -> int:
        """How long a text is once it is formatted."""
        return shown_length(markdown)
