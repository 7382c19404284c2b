"""What the gateway says, as messages of the Cloud API."""

from __future__ import annotations

import asyncio
import logging
import math
import mimetypes
import os
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...config import Platform
from ...media import safe_name
from ...session import SessionSource
from ..base import Button, SendError
from ..last_look import LOST, is_lost
from ..reactions import Asked
from .errors import FAILURES, refusal, send_error
from .messages import Status
from .statuses import Statuses

if TYPE_CHECKING:
    from .adapter import WhatsAppAdapter

log = logging.getLogger(__name__)

MB = 1024 * 1024
MOST_BUTTONS, MOST_ROWS = 3, 10
MAX_BUTTON, MAX_ROW, MAX_ID, MAX_BODY, MAX_CAPTION = 20, 24, 200, 1024, 1024
MAX_DATA = 512
_ATTEMPT = "#"
TYPING_SECONDS = 20.0
"""The sign stays for 25 seconds."""
REMEMBERED = 1000
TEMPLATE = "whatsapp-template:"
"""How the key of a template begins; one is sent to a chat on a day."""
_KINDS = {
    "image/jpeg": ("image", 5), "image/png": ("image", 5), "video/mp4": ("video", 16),
    "video/3gpp": ("video", 16), "audio/aac": ("audio", 16), "audio/amr": ("audio", 16),
    "audio/mpeg": ("audio", 16), "audio/mp4": ("audio", 16), "audio/ogg": ("audio", 16),
}  # fmt: skip
MAX_DOCUMENT = 100 * MB
_OFFICE = "application/vnd.openxmlformats-officedocument."
_DOCUMENTS = frozenset(
    {
        "text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint", f"{_OFFICE}wordprocessingml.document",
        f"{_OFFICE}spreadsheetml.sheet", f"{_OFFICE}presentationml.presentation",
    }
)  # fmt: skip


class Sender:
    """Sends for one number; it outlives connections, since what was asked does."""

    def __init__(self, adapter: WhatsAppAdapter, status_seconds: float) -> None:
        self._adapter = adapter
        self.statuses = Statuses(status_seconds)
        self.asked = Asked()
        self._last: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """The last message of each chat, and when a sign was last given under it."""

    def note_message(self, chat_id: str, message_id: str) -> None:
        """A message came, under which signs can be given."""
        self._last[chat_id] = message_id, -math.inf
        self._last.move_to_end(chat_id)
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    async def send(
        self,
        chat_id: str,
        text: str,
        reply_to: str | None,
        buttons: Sequence[Button],
        key: str | None,
    ) -> str:
        """Show a text; returns WhatsApp's id for it."""
        if key is not None and key.startswith(TEMPLATE):
            return await self._post(chat_id, {"type": "template", **self._template()}, key)
        if buttons:
            return await self._ask(chat_id, text, buttons)
        message: dict[str, Any] = {"type": "text", "text": {"body": text, "preview_url": False}}
        if reply_to:
            message["context"] = {"message_id": reply_to}
        return await self._post(chat_id, message, key)

    async def _ask(self, chat_id: str, text: str, buttons: Sequence[Button]) -> str:
        """Show a question with buttons, or with a list where there are more than three."""
        if len(buttons) > MOST_ROWS or any(len(one.data) > MAX_ID for one in buttons):
            raise SendError("WhatsApp cannot show these choices", permanent=True)
        if len(text) > MAX_BODY:
            await self._post(chat_id, {"type": "text", "text": {"body": text}}, None)
            text = "Which one?"
        interactive: dict[str, Any] = {"body": {"text": text}}
        if len(buttons) <= MOST_BUTTONS:
            titles = _titles(buttons, MAX_BUTTON)
            shown = [
                {"type": "reply", "reply": {"id": one.data, "title": title}}
                for one, title in zip(buttons, titles, strict=True)
            ]
            interactive |= {"type": "button", "action": {"buttons": shown}}
        else:
            titles = _titles(buttons, MAX_ROW)
            rows = [
                {"id": one.data, "title": title} for one, title in zip(buttons, titles, strict=True)
            ]
            action = {"button": "Choose", "sections": [{"title": "Choose", "rows": rows}]}
            interactive |= {"type": "list", "action": action}
        message = {"type": "interactive", "interactive": interactive}
        message_id = await self._post(chat_id, message, None)
        self.asked.note(message_id, buttons)
        return message_id

    async def typing(self, chat_id: str) -> None:
        """Show that an answer is being made."""
        message_id, shown_at = self._last.get(chat_id, ("", -math.inf))
        now = time.monotonic()
        if message_id and now - shown_at >= TYPING_SECONDS:
            self._last[chat_id] = message_id, now
            sign = {
                "status": "read",
                "message_id": message_id,
                "typing_indicator": {"type": "text"},
            }
            await self._request(sign)

    async def tell_read(self, message_id: str) -> None:
        """Let somebody see that their message was read."""
        try:
            await self._request({"status": "read", "message_id": message_id})
        except SendError as error:
            log.info("%s is not marked as read: %s", message_id, error)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on a message."""
        reaction = {"message_id": message_id, "emoji": emoji}
        await self._request({**_to(chat_id), "type": "reaction", "reaction": reaction})

    async def send_media(self, chat_id: str, path: str, caption: str) -> str:
        """Send a file; one that WhatsApp would not take is named instead."""
        file = Path(path)
        try:
            size = file.stat().st_size
        except OSError as error:
            return await self._instead(chat_id, file, f"is gone: {error.strerror}")
        mime, kind, most = await asyncio.to_thread(_kind_of, file)
        if not kind:
            return await self._instead(chat_id, file, "is of a kind that WhatsApp does not take")
        if kind != "document" and size > most:
            kind, most = "document", 0  # as a document only some kinds are taken
        if not 0 < size <= most:
            why = "is empty" if not size else f"is too large ({size:,} bytes)"
            return await self._instead(chat_id, file, why)
        if is_lost():
            raise SendError(LOST)
        try:
            media_id = await self._adapter.api.upload(file, safe_name(file.name), mime)
        except FAILURES as error:
            raise send_error(error, repeatable=True) from error  # nobody was shown it
        shown: dict[str, Any] = {"id": media_id}
        if kind == "document":
            shown["filename"] = file.name[:240]
        if caption and kind != "audio":
            shown["caption"] = caption[:MAX_CAPTION]
        return await self._post(chat_id, {"type": kind, kind: shown}, None)

    async def _instead(self, chat_id: str, file: Path, why: str) -> str:
        text = self._adapter.format(f"📎 `{file.name}` {why}.")
        return await self.send(chat_id, text, None, (), None)

    # Requests

    async def _post(self, chat_id: str, message: Mapping[str, Any], key: str | None) -> str:
        """Send a message, and wait a moment for what becomes of it."""
        data = _data_of(key)
        given = {
            "recipient_type": "individual", **_to(chat_id), **message,
            "biz_opaque_callback_data": data,
        }  # fmt: skip
        self.statuses.expect(data)
        try:
            try:
                message_id = await self._request(given)
            except SendError as error:
                if not error.unsure:
                    raise
                # Whether it was taken is told with what becomes of it.
                status = await self.statuses.wait(data, in_doubt=True)
                if status is None:
                    raise
                message_id = status.message_id
            else:
                status = await self.statuses.wait(data)
            if status is not None and status.kind == "failed":
                raise refusal(status.code, status.reason)
        except SendError as error:
            if error.held:
                await self._announce(chat_id, key)
            raise
        finally:
            self.statuses.forget(data)
        return message_id

    async def _request(self, given: Mapping[str, Any]) -> str:
        if is_lost():
            raise SendError(LOST)
        try:
            return await self._adapter.api.post(given)
        except FAILURES as error:
            raise send_error(error, repeatable="status" in given) from error

    # What is held

    def _template(self) -> dict[str, Any]:
        name, language = self._adapter.template
        if not name:
            raise SendError("platforms.whatsapp_cloud.template is not set", permanent=True)
        return {"template": {"name": name, "language": {"code": language}}}

    async def _announce(self, chat_id: str, key: str | None) -> None:
        """Have the template sent that asks a person to write, once a day."""
        name, _ = self._adapter.template
        if not name or (key or "").startswith(("say:", TEMPLATE)):
            return  # a notice is not worth it
        source = SessionSource(Platform.WHATSAPP_CLOUD, chat_id, user_id=chat_id)
        day = int(time.time() // 86_400)
        text = f"[The template {name}]"
        await self._adapter.host.deliver(source, text, f"{TEMPLATE}{chat_id}:{day}")

    async def take_back(self, status: Status) -> None:
        """Something failed of which nobody here waits to hear."""
        error = refusal(status.code, status.reason)
        log.warning("A message to %s was not shown: %s", status.chat_id, error)
        key = status.data.rpartition(_ATTEMPT)[0]
        if not key:
            return  # no answer: nothing is kept of it
        if error.held:
            await self._announce(status.chat_id, key)
        await self._adapter.host.not_shown(key, str(error), held=error.held)


def _data_of(key: str | None) -> str:
    """What an attempt to send the text of a key is known by, here and in what Meta tells of it."""
    attempt = f"{_ATTEMPT}{os.urandom(8).hex()}"
    return f"{key}{attempt}" if key is not None and len(key + attempt) <= MAX_DATA else attempt


def _to(chat_id: str) -> dict[str, str]:
    """A number, or the id of somebody who hides theirs."""
    return {"to": chat_id} if chat_id.isdecimal() else {"recipient": chat_id}


def _titles(buttons: Sequence[Button], most: int) -> list[str]:
    """What stands on them: short, not empty, and each another."""
    titles: list[str] = []
    for number, button in enumerate(buttons, 1):
        title = button.label.strip()[:most] or str(number)
        if title in titles:
            title = f"{number} {title}"[:most]
        titles.append(title)
    return titles


def _kind_of(file: Path) -> tuple[str, str, int]:
    """The type under which a file is sent, what message that makes, and how large it may be."""
    mime = mimetypes.guess_type(file.name)[0] or ""
    if mime in _KINDS:
        kind, megabytes = _KINDS[mime]
        return mime, kind, megabytes * MB
    if mime in _DOCUMENTS:
        return mime, "document", MAX_DOCUMENT
    try:
        with file.open("rb") as opened:
            opened.read(8192).decode()
    except (OSError, UnicodeDecodeError):
        return "", "", 0
    return "text/plain", "document", MAX_DOCUMENT  # source code, tables, notes
