"""discord.py's client, with nothing kept that is not used: it connects, resumes, and obeys limits.

What comes in is handed to the reader in the moment it comes, so the order of a channel is kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from hermes_base.certificates import certificates

if TYPE_CHECKING:
    from .reader import Reader

LONGEST_WAIT = 2.0
"""Seconds that the library waits by itself for a limit to end; what takes longer is delivered
later, and meanwhile other chats are."""
API = "https://discord.com/api/v10"
GATEWAY = "wss://gateway.discord.gg/"


class GatewayClient(discord.Client):
    """One connection of a bot; made anew for each attempt of the supervisor."""

    def __init__(self, reader: Reader, *, reads_everything: bool) -> None:
        """`reads_everything` asks for the texts of messages that do not mention us, which has to be
        switched on in Discord's portal."""
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = True
        intents.message_content = reads_everything
        # Nobody is to talk to us.
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False
        super().__init__(
            intents=intents,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            allowed_mentions=discord.AllowedMentions.none(),
            connector=aiohttp.TCPConnector(limit=0, ssl=certificates()),
        )
        self.http.max_ratelimit_timeout = LONGEST_WAIT
        self._reader = reader
        self.away_since: float | None = asyncio.get_running_loop().time()
        """Since when the gateway is not connected, by the clock of the event loop."""

    async def point_to(self, base_url: str) -> None:
        """Where Discord is; before `login`."""
        Route.BASE = base_url or API
        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(GATEWAY)

    async def find_gateway(self) -> None:
        """Ask another server of the API where its gateway is; after `login`."""
        if Route.BASE != API:
            found = await self.http.request(Route("GET", "/gateway"))
            DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(str(found["url"]))

    async def register(self, commands: list[Any]) -> None:
        """Have Discord offer these commands, and no others of ours."""
        assert self.application_id is not None, "logged in"
        await self.http.bulk_upsert_global_commands(self.application_id, commands)

    async def close(self) -> None:
        """End the connection, and what the library waits for after a new session."""
        ready = getattr(self._connection, "_ready_task", None)
        if ready is not None:
            ready.cancel()
        await super().close()

    # What Discord says; the library calls these in the order in which things came

    async def on_connect(self) -> None:
        """A new session: what came before it must be read from the channels."""
        self.away_since = None
        self._reader.begin_session()

    async def on_resumed(self) -> None:
        """The session goes on, and Discord repeats what was missed."""
        self.away_since = None

    async def on_disconnect(self) -> None:
        """The connection broke; the library makes it again."""
        if self.away_since is None:
            self.away_since = asyncio.get_running_loop().time()

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """A server and its channels are known."""
        self._reader.look_through(guild)

    async def on_ready(self) -> None:
        """All servers of this session are known."""
        self._reader.know_servers()

    async def on_message(self, message: discord.Message) -> None:
        """Somebody wrote."""
        self._reader.put_message(message)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """Somebody changed what they wrote."""
        self._reader.put_message(payload.message, is_edit=True)

    async def on_interaction(self, interaction: discord.Interaction[Any]) -> None:
        """Somebody used a command or pressed a button."""
        self._reader.put_interaction(interaction)
