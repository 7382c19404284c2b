"""Reading a bot's channels: each in order, each kept as read only when everything is stored.

One worker per channel hands in what came. In a new session (not a resumed one) it first reads, from
the channel's history, what came while nobody was connected.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

import discord

from hermes_state import LeaseLostError, StoreError

from ..lanes import Lanes, Work, hand_in
from .errors import FAILURES
from .media import fetch_all
from .messages import read_command, read_message, read_press
from .place import Place, id_at

if TYPE_CHECKING:
    from .adapter import DiscordAdapter

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
SAVE_SECONDS = 2.0
REMEMBERED = 1000
MISSED_SECONDS = 7 * 24 * 3600.0
"""How far back it is looked for what came while nobody was connected."""
MARGIN_SECONDS = 60.0
"""By how much events of different channels may come in another order than their ids."""
NOT_YOURS = "You may not use this here."


class Reader:
    """Hands in what a bot is told; it outlives connections, since its place does."""

    def __init__(self, adapter: DiscordAdapter) -> None:
        self._adapter = adapter
        self._lanes = Lanes(self._read_rest)
        self._behind: set[int] = set()
        """Channels of which more came than could wait."""
        self._caught_up: set[int] = set()
        """Channels whose history was read in this session."""
        self._catching_up = 0
        self._from_history: OrderedDict[int, None] = OrderedDict()
        """Messages that were read from a history, and may be told live as well."""
        self._knows_servers = False
        """Whether every server of this session has said what came in its channels."""
        self.place = Place()
        self._before = Place()
        """How far channels were read when the session began."""
        self._changed = False

    # What came

    def go_on_from(self, place: Place) -> None:
        """Where reading begins: at the present, if this account was never read."""
        place.begin()
        self.place = place
        self._changed = True

    def begin_session(self) -> None:
        """What comes now is new; what came before is in the channels' histories."""
        place = self.place
        self._before = place.copy()
        self._caught_up.clear()
        self._knows_servers = False
        for name in reversed(place.direct):
            self._put(int(name), partial(self._catch_up, int(name)))

    def look_through(self, guild: discord.Guild) -> None:
        """Read the histories of a server's channels in which something came since."""
        channels: list[Any] = [*guild.text_channels, *guild.voice_channels, *guild.threads]
        for channel in channels:
            last = channel.last_message_id
            if last is not None and last > self._before.read_up_to(channel.id):
                self._put(channel.id, partial(self._catch_up, channel.id))

    def know_servers(self) -> None:
        """Every server of this session was looked through."""
        self._knows_servers = True

    def put_message(self, message: discord.Message, *, is_edit: bool = False) -> None:
        """A message came, or a new version of one."""
        channel_id = message.channel.id

        async def take() -> None:
            if not is_edit:
                await self._catch_up(channel_id)
                if message.id in self._from_history:
                    return
            await self._take(message, is_edit=is_edit)

        self._put(channel_id, take)

    def put_interaction(self, interaction: discord.Interaction[Any]) -> None:
        """A command was used, or a button pressed."""
        if interaction.type in (
            discord.InteractionType.application_command,
            discord.InteractionType.component,
        ):
            self._put(interaction.channel_id or 0, lambda: self._take_interaction(interaction))

    async def stop(self) -> None:
        """Drop what waits; it is in the histories."""
        await self._lanes.stop()
        self._behind.clear()
        self._catching_up = 0

    async def keep_place(self) -> None:
        """Keep the place whenever it has changed, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            await self.save()

    async def save(self) -> None:
        """Keep the place now; what is being read is not counted as read."""
        if not self._changed:
            return
        self._changed = False
        if self._knows_servers and not self._catching_up and self._lanes.is_idle:
            self.place.settle(self._since())
        try:
            await asyncio.to_thread(self._adapter.places.write, self.place.copy())
        except LeaseLostError:
            pass  # the one who has the platform now reads from where we were
        except (StoreError, OSError) as error:
            self._changed = True
            log.warning("The place in Discord's channels is kept later: %s", error)

    def _since(self) -> int:
        newest = max((*self.place.channels.values(), *self.place.direct.values()), default=0)
        return newest - (id_at(MARGIN_SECONDS) - id_at(0)) if newest else 0

    # One after the other

    def _put(self, channel_id: int, work: Work) -> None:
        if not self._lanes.put(str(channel_id), work):
            self._behind.add(channel_id)

    def _read_rest(self, chat: str) -> Work | None:
        """The history of a channel of which more came than could wait."""
        channel_id = int(chat)
        if channel_id not in self._behind:
            return None
        self._behind.discard(channel_id)
        self._before = self.place.copy()
        self._caught_up.discard(channel_id)
        return partial(self._catch_up, channel_id)

    async def _catch_up(self, channel_id: int) -> None:
        """Read what came in a channel since it was read last, once in a session."""
        if channel_id in self._caught_up:
            return
        oldest = id_at(time.time() - MISSED_SECONDS)
        after = max(self._before.read_up_to(channel_id), oldest)
        self._catching_up += 1
        pause = FIRST_PAUSE
        try:
            while True:
                try:
                    await self._read_history(channel_id, after)
                    break
                except (discord.Forbidden, discord.NotFound) as error:
                    log.info("The history of %s cannot be read: %s", channel_id, error)
                    break
                except FAILURES as error:
                    log.warning("The history of %s is read later: %s", channel_id, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            self._catching_up -= 1
        self._caught_up.add(channel_id)

    async def _read_history(self, channel_id: int, after: int) -> None:
        client = self._adapter.client
        channel: Any = client.get_channel(channel_id) or client.get_partial_messageable(channel_id)
        history = channel.history(limit=None, after=discord.Object(after), oldest_first=True)
        async for message in history:
            await self._take(message)
            self._from_history[message.id] = None
            while len(self._from_history) > REMEMBERED:
                self._from_history.popitem(last=False)

    # Messages

    async def _take(self, message: discord.Message, *, is_edit: bool = False) -> None:
        adapter = self._adapter
        incoming = read_message(
            message, adapter.listening, is_edit=is_edit, expected=adapter.host.expects
        )
        if incoming is not None:
            event = incoming.event
            if incoming.attachments and await adapter.host.is_allowed(event.source):
                with adapter.host.expecting(event.source):
                    await fetch_all(adapter.host, incoming)
                    await hand_in(adapter.on_message, event)
            else:
                if incoming.attachments and not event.text:
                    event.text = f"[{incoming.attachments[0].name}]"
                await hand_in(adapter.on_message, event)
        if not is_edit:
            is_direct = message.guild is None and not getattr(message.channel, "guild_id", None)
            self.place.pass_by(message.channel.id, message.id, is_direct=is_direct)
            self._changed = True

    async def _take_interaction(self, interaction: discord.Interaction[Any]) -> None:
        adapter = self._adapter
        is_press = interaction.type is discord.InteractionType.component
        if is_press:
            data: Any = interaction.data or {}
            says = adapter.sender.button_data(str(data.get("custom_id", "")))
            event = read_press(interaction, says or "")
        else:
            says, event = "", read_command(interaction)
        may_talk = await adapter.host.is_allowed(event.source)
        if says is not None:  # else a button of an earlier run; nobody waits for it
            await hand_in(adapter.on_message, event)
        answer = self._respond(interaction, is_press, may_talk, event.text)
        adapter.host.spawn(answer)  # the next message need not wait for it

    async def _respond(
        self, interaction: discord.Interaction[Any], is_press: bool, may_talk: bool, text: str
    ) -> None:
        """End the waiting sign that Discord shows, and take pressed buttons away."""
        respond = interaction.response
        try:
            if not may_talk:
                await respond.send_message(NOT_YOURS, ephemeral=True)
            elif is_press:
                await respond.edit_message(view=None)
            else:
                await respond.send_message(f"✓ {text}"[:200], ephemeral=True)
        except FAILURES as error:
            log.info("An interaction in %s stays unanswered: %s", interaction.channel_id, error)
