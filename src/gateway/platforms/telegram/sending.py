"""What the gateway says, as calls of the Bot API."""

from __future__ import annotations

import hashlib
import logging
import mimetypes
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...splitting import split_message, utf16_length
from ..base import Button, SendError
from .formatting import without_tags

if TYPE_CHECKING:
    from telegram import Bot

    from .adapter import TelegramAdapter

log = logging.getLogger(__name__)

MAX_UPLOAD = 50 * 1024 * 1024
MAX_PHOTO = 10 * 1024 * 1024
MAX_CAPTION = 1024
MAX_BUTTON_BYTES = 64
REMEMBERED_BUTTONS = 1000
REMEMBERED_QUESTIONS = 500
YES, NO = "👍", "👎"
_DENIES = ":deny"
_LONG = "long:"
_ROW = 2
"""Buttons beside each other."""

Call = Callable[..., Awaitable[Any]]


class Sender:
    """Sends for one bot."""

    def __init__(self, adapter: TelegramAdapter) -> None:
        self._adapter = adapter
        self._long_buttons: OrderedDict[str, str] = OrderedDict()
        self._questions: OrderedDict[tuple[str, str], dict[str, str]] = OrderedDict()
        """What a reaction under a question says, by the question's chat and message."""
        self._threads: OrderedDict[tuple[str, str], str | None] = OrderedDict()
        """In which topic it is."""

    @property
    def _bot(self) -> Bot:
        bot = self._adapter.bot
        if bot is None:
            raise SendError("Telegram is not connected")
        return bot

    async def send(
        self,
        chat_id: str,
        text: str,
        thread_id: str | None,
        reply_to: str | None,
        buttons: Sequence[Button],
    ) -> str | None:
        """Show HTML in a chat; as plain text where Telegram does not take the markup."""
        from telegram import LinkPreviewOptions, ReplyParameters

        options: dict[str, Any] = {"link_preview_options": LinkPreviewOptions(is_disabled=True)}
        if thread_id:
            options["message_thread_id"] = int(thread_id)
        if reply_to and reply_to.isdigit():
            options["reply_parameters"] = ReplyParameters(
                int(reply_to), allow_sending_without_reply=True
            )
        if buttons:
            options["reply_markup"] = self._keyboard(buttons)
        message = await self._text(self._bot.send_message, text, chat_id=chat_id, **options)
        if len(buttons) > 1 and buttons[-1].data.endswith(_DENIES):
            answers = {YES: buttons[0].data, NO: buttons[-1].data}
            asked = chat_id, str(message.message_id)
            self._questions[asked], self._threads[asked] = answers, thread_id
            while len(self._questions) > REMEMBERED_QUESTIONS:
                self._questions.popitem(last=False)
                self._threads.popitem(last=False)
        return str(message.message_id)

    def thread_of(self, chat_id: str, message_id: str) -> str | None:
        """The topic in which a question was asked."""
        return self._threads.get((chat_id, message_id))

    def answer_of(self, chat_id: str, message_id: str, emoji: str) -> str | None:
        """What a reaction says: a thumb under a request for approval; None if it is no answer.

        The thumb upwards allows it once, never for longer.
        """
        # Without the colour of a skin.
        plain = "".join(char for char in emoji if not "\U0001f3fb" <= char <= "\U0001f3ff")
        return self._questions.get((chat_id, message_id), {}).get(plain)

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace a text; one that is the same already is fine."""
        from telegram import LinkPreviewOptions

        await self._text(
            self._bot.edit_message_text,
            text,
            chat_id=chat_id,
            message_id=int(message_id),
            link_preview_options=LinkPreviewOptions(is_disabled=True),
        )

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        """Show that an answer is being made."""
        await self._call(
            self._bot.send_chat_action,
            chat_id=chat_id,
            action="typing",
            message_thread_id=int(thread_id) if thread_id else None,
        )

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on a message."""
        await self._call(
            self._bot.set_message_reaction,
            chat_id=chat_id,
            message_id=int(message_id),
            reaction=emoji,
        )

    async def send_media(
        self, chat_id: str, path: str, caption: str, thread_id: str | None
    ) -> str | None:
        """Send a file in the way its kind is shown best."""
        file = Path(path)
        try:
            size = file.stat().st_size
        except OSError as error:
            return await self._instead(chat_id, file, f"is gone: {error.strerror}", thread_id)
        if not 0 < size <= MAX_UPLOAD:
            why = "is empty" if not size else f"is too large for Telegram ({size:,} bytes)"
            return await self._instead(chat_id, file, why, thread_id)
        options: dict[str, Any] = {
            "chat_id": chat_id,
            "message_thread_id": int(thread_id) if thread_id else None,
            "caption": caption if utf16_length(without_tags(caption)) <= MAX_CAPTION else None,
            "parse_mode": "HTML",
        }
        try:
            message = await self._upload(file, size, options)
        except SendError as error:
            if not error.permanent:
                raise
            # Pictures of odd shapes are refused as pictures.
            message = await self._call(self._bot.send_document, document=file, **options)
        return str(message.message_id)

    async def _upload(self, file: Path, size: int, options: dict[str, Any]) -> Any:
        bot = self._bot
        kind = mimetypes.guess_type(file.name)[0] or ""
        if kind in ("image/jpeg", "image/png", "image/webp") and size <= MAX_PHOTO:
            return await self._call(bot.send_photo, photo=file, **options)
        if kind == "image/gif":
            return await self._call(bot.send_animation, animation=file, **options)
        if kind in ("audio/ogg", "audio/opus"):
            return await self._call(bot.send_voice, voice=file, **options)
        if kind in ("audio/mpeg", "audio/mp4", "audio/x-m4a"):
            return await self._call(bot.send_audio, audio=file, **options)
        if kind == "video/mp4":
            return await self._call(bot.send_video, video=file, **options)
        return await self._call(bot.send_document, document=file, **options)

    async def _instead(
        self, chat_id: str, file: Path, why: str, thread_id: str | None
    ) -> str | None:
        text = self._adapter.format(f"📎 `{file.name}` {why}.")
        return await self.send(chat_id, text, thread_id, None, ())

    async def _text(self, call: Call, text: str, **options: Any) -> Any:
        """Call with HTML; what Telegram does not take of it is left out, the text never."""
        from telegram.error import BadRequest

        from .errors import says, send_error

        try:
            return await self._call(call, text=text, parse_mode="HTML", **options)
        except SendError as failure:
            error = failure.__cause__
            if not isinstance(error, BadRequest):
                raise
            if says(error, "message is not modified"):
                return None
            if says(error, "can't parse entities", "unsupported start tag"):
                log.warning("Telegram does not take our markup: %s", error.message)
                return await self._call(call, text=without_tags(text), **options)
            if says(error, "message thread not found") and "message_thread_id" in options:
                del options["message_thread_id"]
                return await self._text(call, text, **options)
            if says(error, "message is too long", "message_too_long"):
                return await self._in_parts(call, text, options)
            raise send_error(error) from error

    async def _in_parts(self, call: Call, text: str, options: dict[str, Any]) -> Any:
        """Telegram counts differently than we do: send less at a time."""
        limit = self._adapter.capabilities.max_length // 2
        first, *others = split_message(without_tags(text), limit, utf16_length)
        message = await self._call(call, text=first, **options)
        rest = {
            name: value
            for name, value in options.items()
            if name in ("chat_id", "message_thread_id", "link_preview_options")
        }
        for part in others:
            await self._call(self._bot.send_message, text=part, **rest)
        return message

    async def _call(self, call: Call, **options: Any) -> Any:
        """One call; a chat that was moved is followed. Raises SendError."""
        from telegram.error import ChatMigrated, TelegramError

        from .errors import send_error

        try:
            return await call(**options)
        except ChatMigrated as moved:
            log.info("%s has become %s", options["chat_id"], moved.new_chat_id)
            options["chat_id"] = moved.new_chat_id
        except TelegramError as error:
            raise send_error(error) from error
        except RuntimeError as error:  # disconnected between the look and the call
            raise SendError(f"Telegram is not connected: {error}") from error
        try:
            return await call(**options)
        except TelegramError as error:
            raise send_error(error) from error

    def _keyboard(self, buttons: Sequence[Button]) -> Any:
        from telegram import InlineKeyboardButton, InlineKeyboardMarkup

        shown = [
            InlineKeyboardButton(button.label or "·", callback_data=self._short(button.data))
            for button in buttons
        ]
        return InlineKeyboardMarkup([shown[at : at + _ROW] for at in range(0, len(shown), _ROW)])

    def _short(self, data: str) -> str:
        """What a button says, within Telegram's limit; longer ones are remembered."""
        if len(data.encode()) <= MAX_BUTTON_BYTES:
            return data
        token = f"{_LONG}{hashlib.sha256(data.encode()).hexdigest()[:32]}"
        self._long_buttons[token] = data
        while len(self._long_buttons) > REMEMBERED_BUTTONS:
            self._long_buttons.popitem(last=False)
        return token

    def button_data(self, token: str) -> str | None:
        """What a pressed button says; None if it is forgotten."""
        if token.startswith(_LONG):
            return self._long_buttons.get(token)
        return token
