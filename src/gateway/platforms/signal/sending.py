"""What the gateway says, as requests to signal-cli's daemon.

Signal names a message by its author and the time at which it was sent, and that time signal-cli
chooses: a text that is sent again is another message. So what may have been sent is not sent again.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import mimetypes
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...media import safe_name
from ..base import Button, SendError
from ..reactions import Asked, advice
from .client import BrokenError, RpcError, results_of
from .errors import refusal, send_error
from .formatting import split_styles
from .messages import GROUP, group_of

if TYPE_CHECKING:
    from .adapter import SignalAdapter

log = logging.getLogger(__name__)

MAX_UPLOAD = 95 * 1024 * 1024
MOST_INLINE = 10 * 1024 * 1024
"""A larger file is named by its path, which the daemon must be able to read."""
MEDIA_SECONDS = 300.0
MOST_EDITS = 10
"""How many later versions of a message Signal shows."""
REMEMBERED = 500


class Sender:
    """Sends for one account; it outlives connections, since what was asked does."""

    def __init__(self, adapter: SignalAdapter) -> None:
        self._adapter = adapter
        self.asked = Asked()
        self._versions: OrderedDict[str, list[int]] = OrderedDict()
        """The times of a message's later versions."""

    async def send(
        self,
        chat_id: str,
        text: str,
        reply_to: str | None = None,
        buttons: Sequence[Button] = (),
    ) -> str:
        """Show a text; returns the time by which Signal names it."""
        if hint := advice(buttons):
            text += f"\n{hint}"
        body, styles = split_styles(text)
        params: dict[str, Any] = {"message": body}
        if styles:
            params["textStyle"] = styles
        if reply_to:
            author, _, sent_at = reply_to.rpartition(":")
            if author and sent_at.isdecimal():
                params |= {"quoteTimestamp": int(sent_at), "quoteAuthor": author}
        message_id = await self._send(chat_id, params)
        self.asked.note(message_id, buttons)
        return message_id

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace a text of ours."""
        if not message_id.isdecimal():
            raise SendError(f"{message_id} is no message of ours", permanent=True)
        body, styles = split_styles(text)
        versions = self._versions.get(message_id, [])
        if len(versions) >= MOST_EDITS:
            raise SendError("Signal shows no more versions of this message", permanent=True)
        # Each version is named by its own time, and the next one takes the place of the last.
        params: dict[str, Any] = {
            "message": body,
            "editTimestamp": versions[-1] if versions else int(message_id),
        }
        if styles:
            params["textStyle"] = styles
        edited = await self._send(chat_id, params, repeatable=True)
        self._versions[message_id] = [*versions, int(edited)]
        self._versions.move_to_end(message_id)
        while len(self._versions) > REMEMBERED:
            self._versions.popitem(last=False)

    async def delete(self, chat_id: str, message_id: str) -> None:
        """Take a message of ours back, on everybody's devices."""
        params = {"targetTimestamp": int(message_id)}
        await self._call("remoteDelete", {**self._to(chat_id), **params}, repeatable=True)

    async def typing(self, chat_id: str) -> None:
        """Show that an answer is being made."""
        if not self._adapter.is_self(chat_id):
            await self._call("sendTyping", self._to(chat_id), repeatable=True)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on somebody's message."""
        author, _, sent_at = message_id.rpartition(":")
        if not author or author.startswith("reaction") or not sent_at.isdecimal():
            return  # a reaction is no message that could have one
        params = {"emoji": emoji, "targetAuthor": author, "targetTimestamp": int(sent_at)}
        await self._call("sendReaction", {**self._to(chat_id), **params}, repeatable=True)

    async def tell_read(self, author: str, sent_at: int) -> None:
        """Let somebody see that their message was read."""
        params = {"recipient": author, "targetTimestamp": [sent_at], "type": "read"}
        try:
            await self._call("sendReceipt", params, repeatable=True)
        except SendError as error:
            log.info("%s is not told that a message was read: %s", author, error)

    async def send_media(self, chat_id: str, path: str, caption: str) -> str:
        """Send a file; one that Signal would not take is named instead."""
        file = Path(path)
        try:
            size = file.stat().st_size
        except OSError as error:
            return await self._instead(chat_id, file, f"is gone: {error.strerror}")
        if not 0 < size <= MAX_UPLOAD:
            why = "is empty" if not size else f"is too large ({size:,} bytes)"
            return await self._instead(chat_id, file, why)
        given = str(file.resolve())
        if size <= MOST_INLINE:  # whether the daemon can read it or not
            given = await asyncio.to_thread(_data_uri, file)
        body, styles = split_styles(caption)
        params: dict[str, Any] = {"message": body, "attachments": [given]}
        if styles:
            params["textStyle"] = styles
        return await self._send(chat_id, params, seconds=MEDIA_SECONDS)

    async def _instead(self, chat_id: str, file: Path, why: str) -> str:
        return await self.send(chat_id, self._adapter.format(f"📎 `{file.name}` {why}."))

    # Requests

    def _to(self, chat_id: str) -> dict[str, Any]:
        if chat_id.startswith(GROUP):
            return {"groupId": group_of(chat_id)}
        if self._adapter.is_self(chat_id):
            return {"noteToSelf": True}
        return {"recipient": [chat_id]}

    async def _send(
        self,
        chat_id: str,
        params: Mapping[str, Any],
        *,
        repeatable: bool = False,
        seconds: float | None = None,
    ) -> str:
        given = {**self._to(chat_id), **params}
        answer = await self._call("send", given, repeatable=repeatable, seconds=seconds)
        results = results_of(answer)
        failed = [one for one in results if one.get("type") != "SUCCESS"]
        if results and len(failed) == len(results):
            raise refusal(failed, repeatable=repeatable)
        if failed:
            log.warning("%s of %s in %s did not get it", len(failed), len(results), chat_id)
        try:
            return str(int(answer["timestamp"]))
        except (KeyError, TypeError, ValueError) as error:
            raise SendError("signal-cli answers something else", unsure=True) from error

    async def _call(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        repeatable: bool = False,
        seconds: float | None = None,
    ) -> Any:
        """What the daemon answers. Raises SendError."""
        try:
            return await self._adapter.call(method, params, seconds)
        except (BrokenError, RpcError) as error:
            raise send_error(error, repeatable=repeatable) from error


def _data_uri(file: Path) -> str:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    data = base64.b64encode(file.read_bytes()).decode()
    return f"data:{kind};filename={safe_name(file.name)};base64,{data}"
