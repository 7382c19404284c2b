"""What the gateway says, as calls of Discord's API.

A text that has a key is sent with a nonce made from it: Discord shows it once, however often it is
sent within the next minutes. After those, our own latest messages are looked through before it is
sent again.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
import discord

from ..base import Button, SendError
from ..last_look import LOST, is_lost
from .errors import FAILURES, send_error
from .place import id_at

if TYPE_CHECKING:
    from .adapter import DiscordAdapter

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_UPLOAD = 10 * 1024 * 1024
"""Bytes of a file, on servers that nobody boosts."""
MAX_CUSTOM_ID = 100
MAX_LABEL = 80
MAX_BUTTONS = 25
MAX_NONCE = 25
NONCE_SECONDS = 90.0
"""For so long Discord certainly knows a nonce ("the past few minutes")."""
CLOCK_SECONDS = 120.0
"""By how much our clock may be ahead of Discord's."""
REMEMBERED = 1000
_LONG = "long:"


class Sender:
    """Sends for one bot; it outlives connections, since what was tried does."""

    def __init__(self, adapter: DiscordAdapter) -> None:
        self._adapter = adapter
        self._long_buttons: OrderedDict[str, str] = OrderedDict()
        self._tried: OrderedDict[str, float] = OrderedDict()
        """When a text was first sent that may have been shown, by its key."""
        self._shown: OrderedDict[str, None] = OrderedDict()
        """Messages of ours that are known to be other texts'."""

    async def send(
        self,
        chat_id: str,
        text: str,
        reply_to: str | None,
        buttons: Sequence[Button],
        key: str | None,
    ) -> str:
        """Show a text in a channel; returns Discord's id for it."""
        options: dict[str, Any] = {"suppress_embeds": True}
        if reply_to and reply_to.isdigit():
            options["reference"] = discord.MessageReference(
                message_id=int(reply_to), channel_id=int(chat_id), fail_if_not_exists=False
            )
        if buttons:
            options["view"] = self._view(buttons)
        if key is not None:
            if (shown := await self._look_before_retry(chat_id, text, key)) is not None:
                return shown
            options["nonce"] = hashlib.sha256(key.encode()).hexdigest()[:MAX_NONCE]
        first = time.time()
        try:
            message = await self._call(
                lambda: self._channel(chat_id).send(text, **options), repeatable=key is not None
            )
        except SendError as error:
            if key is not None:
                self._note_tried(key, first, error)
            raise
        if key is not None:
            self._tried.pop(key, None)
        self._shown[str(message.id)] = None
        while len(self._shown) > REMEMBERED:
            self._shown.popitem(last=False)
        return str(message.id)

    def _note_tried(self, key: str, first: float, error: SendError) -> None:
        """Remember that a text may have been shown: only an answer of Discord's says it was not."""
        if not isinstance(error.__cause__, OSError | TimeoutError | aiohttp.ClientError):
            return
        self._tried.setdefault(key, first)
        while len(self._tried) > REMEMBERED:
            self._tried.popitem(last=False)

    async def _look_before_retry(self, chat_id: str, text: str, key: str) -> str | None:
        """The message that shows a text already, which was sent before and not answered, and whose
        nonce Discord may have forgotten."""
        first = self._tried.get(key)
        if first is None or time.time() - first < NONCE_SECONDS:
            return None
        me = self._adapter.me

        async def look() -> str | None:
            after = discord.Object(id_at(first - CLOCK_SECONDS))
            async for message in self._channel(chat_id).history(
                limit=200, after=after, oldest_first=True
            ):
                is_new = str(message.id) not in self._shown
                if message.author.id == me and message.content == text.strip() and is_new:
                    return str(message.id)
            return None

        try:
            return await self._call(look)
        except SendError as error:
            if error.permanent:  # we may not read here: nobody can tell
                self._tried.pop(key, None)
                error.unsure, error.permanent = True, False
            raise

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace a text of ours."""
        message = self._channel(chat_id).get_partial_message(int(message_id))
        await self._call(lambda: message.edit(content=text), repeatable=True)

    async def typing(self, chat_id: str) -> None:
        """Show that an answer is being made, for about ten seconds."""

        async def type_once() -> None:
            await self._channel(chat_id).typing()

        await self._call(type_once, repeatable=True)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on a message."""
        if not message_id.isdigit():
            return  # a command or a button, which nobody sees
        message = self._channel(chat_id).get_partial_message(int(message_id))
        await self._call(lambda: message.add_reaction(emoji), repeatable=True)

    async def send_media(self, chat_id: str, path: str, caption: str) -> str:
        """Send a file; one that Discord would not take is named instead."""
        file = Path(path)
        try:
            size = file.stat().st_size
        except OSError as error:
            return await self._instead(chat_id, file, f"is gone: {error.strerror}")
        channel = self._adapter.client.get_channel(int(chat_id))
        limit = getattr(getattr(channel, "guild", None), "filesize_limit", MAX_UPLOAD)
        if not 0 < size <= limit:
            why = "is empty" if not size else f"is too large for Discord ({size:,} bytes)"
            return await self._instead(chat_id, file, why)

        async def upload() -> discord.Message:
            attached = discord.File(file)
            try:
                return await self._channel(chat_id).send(caption or None, file=attached)
            finally:
                attached.close()

        return str((await self._call(upload)).id)

    async def _instead(self, chat_id: str, file: Path, why: str) -> str:
        text = self._adapter.format(f"📎 `{file.name}` {why}.")
        return await self.send(chat_id, text, None, (), None)

    def _channel(self, chat_id: str) -> discord.PartialMessageable:
        try:
            return self._adapter.client.get_partial_messageable(int(chat_id))
        except ValueError as error:
            raise SendError(f"{chat_id} is no channel of Discord's", permanent=True) from error

    async def _call(self, call: Callable[[], Awaitable[T]], *, repeatable: bool = False) -> T:
        """One call. Raises SendError."""
        if is_lost():  # an upload, or a look, may have taken long
            raise SendError(LOST)
        try:
            return await call()
        except FAILURES as error:
            raise send_error(error, repeatable=repeatable) from error

    def _view(self, buttons: Sequence[Button]) -> discord.ui.View:
        """Buttons that Discord's client does not answer by itself."""
        view = discord.ui.View(timeout=None)
        for button in buttons[:MAX_BUTTONS]:
            label = button.label[:MAX_LABEL] or "·"
            view.add_item(discord.ui.Button(label=label, custom_id=self._short(button.data)))
        view.stop()  # or the library keeps it for ever
        return view

    def _short(self, data: str) -> str:
        """What a button says, within Discord's limit; longer ones are remembered."""
        if len(data) <= MAX_CUSTOM_ID:
            return data
        token = f"{_LONG}{hashlib.sha256(data.encode()).hexdigest()[:32]}"
        self._long_buttons[token] = data
        while len(self._long_buttons) > REMEMBERED:
            self._long_buttons.popitem(last=False)
        return token

    def button_data(self, token: str) -> str | None:
        """What a pressed button says; None if it is forgotten."""
        if token.startswith(_LONG):
            return self._long_buttons.get(token)
        return token
