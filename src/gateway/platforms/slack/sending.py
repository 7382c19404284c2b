"""What the gateway says, as calls of Slack's Web API.

Slack knows no request that shows its message once. So each text that has a key carries it in its
metadata, and before a text is sent again that may have been shown, its chat is looked through for
that key. The first texts of a chat after a start may be such ones too: they are looked for until
one is not there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Button, SendError
from ..last_look import LOST, is_lost
from .errors import FAILURES, code_of, send_error, was_sent
from .place import ts_of

if TYPE_CHECKING:
    from .adapter import SlackAdapter

log = logging.getLogger(__name__)

MAX_UPLOAD = 100 * 1024 * 1024
MAX_SECTION = 3000
MAX_BUTTONS = 25
MAX_LABEL = 75
EVENT_TYPE = "hermes_delivery"
CLOCK_SECONDS = 120.0
"""By how much our clock may be ahead of Slack's."""
EARLIER_SECONDS = 24 * 3600.0
"""How far back a text is looked for that an earlier process may have sent."""
PAGE, MOST_PAGES = 200, 10
REMEMBERED = 1000
_EMOJI = {
    "👀": "eyes", "👍": "+1", "👎": "-1", "❤": "heart", "🔥": "fire", "🎉": "tada",
    "👌": "ok_hand", "🤔": "thinking_face", "✅": "white_check_mark", "❌": "x",
}  # fmt: skip


class Sender:
    """Sends for one app; it outlives connections, since what was tried does."""

    def __init__(self, adapter: SlackAdapter) -> None:
        self._adapter = adapter
        self._tried: OrderedDict[str, float] = OrderedDict()
        """When a text was first sent that may have been shown, by its key."""
        self._begun: set[tuple[str, str | None]] = set()
        """Chats in which nothing of an earlier process can be any more."""

    def begin(self) -> None:
        """A new connection: others may have sent meanwhile."""
        self._begun.clear()

    async def send(
        self,
        chat_id: str,
        text: str,
        thread_id: str | None,
        buttons: Sequence[Button],
        key: str | None,
    ) -> str:
        """Show a text in a chat; returns Slack's id for it."""
        options: dict[str, Any] = {
            "channel": chat_id,
            "text": text,
            "unfurl_links": False,
            "unfurl_media": False,
        }
        if thread_id:
            options["thread_ts"] = thread_id
        if buttons:
            options["blocks"] = [*sections(text), _actions(buttons)]
        if key is None:
            return str((await self._call("chat.postMessage", options))["ts"])
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        if (shown := await self._look(chat_id, thread_id, key, name)) is not None:
            return shown
        options["metadata"] = {"event_type": EVENT_TYPE, "event_payload": {"key": name}}
        first = time.time()
        try:
            answer = await self._call("chat.postMessage", options, repeatable=True)
        except SendError as error:
            if error.__cause__ is not None and was_sent(error.__cause__):
                self._tried.setdefault(key, first)
                while len(self._tried) > REMEMBERED:
                    self._tried.popitem(last=False)
            raise
        self._tried.pop(key, None)
        return str(answer["ts"])

    async def _look(self, chat_id: str, thread_id: str | None, key: str, name: str) -> str | None:
        """The message that shows a text already, if it may have been sent before."""
        first, chat = self._tried.get(key), (chat_id, thread_id)
        if first is None and chat in self._begun:
            return None
        since = time.time() - EARLIER_SECONDS if first is None else first - CLOCK_SECONDS
        try:
            shown = await self._find(chat_id, thread_id, name, since)
        except SendError as error:
            if error.__cause__ is None or not code_of(error.__cause__):
                raise
            if error.retry_after is not None:
                raise
            if first is not None:  # we may not read here: nobody can tell
                self._tried.pop(key, None)
                raise SendError(str(error), unsure=True) from error
            log.warning("%s cannot be looked through: %s", chat_id, error)
            shown = None
        if shown is None and first is None:
            self._begun.add(chat)
        return shown

    async def _find(
        self, chat_id: str, thread_id: str | None, name: str, since: float
    ) -> str | None:
        method = "conversations.history"
        options: dict[str, Any] = {
            "channel": chat_id,
            "oldest": ts_of(int(since * 1_000_000)),
            "limit": PAGE,
            "include_all_metadata": True,
        }
        if thread_id:
            method, options["ts"] = "conversations.replies", thread_id
        for _ in range(MOST_PAGES):
            answer = await self._call(method, options, repeatable=True)
            for message in answer.get("messages") or ():
                payload = (message.get("metadata") or {}).get("event_payload") or {}
                if payload.get("key") == name:
                    return str(message["ts"])
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
            options["cursor"] = cursor
        return None

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace a text of ours."""
        options = {"channel": chat_id, "ts": message_id, "text": text}
        await self._call("chat.update", options, repeatable=True)

    async def take_buttons(self, payload: Mapping[str, Any]) -> None:
        """Leave of a message with buttons only what it says."""
        message = payload["message"]
        blocks = [block for block in message.get("blocks") or () if block["type"] != "actions"]
        text = str(message.get("text") or "")
        options = {
            "channel": payload["channel"]["id"],
            "ts": message["ts"],
            "text": text,
            "blocks": blocks or sections(text),
        }
        await self._call("chat.update", options, repeatable=True)

    async def whisper(self, chat_id: str, user_id: str, text: str, thread: str | None) -> None:
        """Show a text to one person."""
        options: dict[str, Any] = {"channel": chat_id, "user": user_id, "text": text}
        if thread:
            options["thread_ts"] = thread
        await self._call("chat.postEphemeral", options, repeatable=True)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on a message."""
        name = _EMOJI.get(emoji.rstrip("\ufe0f"))
        if name is None or not message_id.replace(".", "").isdigit():
            return  # a command or a button, which nobody sees
        try:
            options = {"channel": chat_id, "timestamp": message_id, "name": name}
            await self._call("reactions.add", options, repeatable=True)
        except SendError as error:
            if error.__cause__ is None or code_of(error.__cause__) != "already_reacted":
                raise

    async def send_media(
        self, chat_id: str, path: str, caption: str, thread_id: str | None
    ) -> str | None:
        """Send a file; one that Slack would not take is named instead."""
        file = Path(path)
        try:
            size = file.stat().st_size
        except OSError as error:
            return await self._instead(chat_id, file, f"is gone: {error.strerror}", thread_id)
        if not 0 < size <= MAX_UPLOAD:
            why = "is empty" if not size else f"is too large ({size:,} bytes)"
            return await self._instead(chat_id, file, why, thread_id)
        data = await asyncio.to_thread(file.read_bytes)
        client = self._adapter.client

        async def upload() -> Any:
            return await client.files_upload_v2(
                channel=chat_id, file=data, filename=file.name, title=file.name,
                initial_comment=caption or None, thread_ts=thread_id,
            )  # fmt: skip

        answer = await self._guarded(upload)
        return str(answer["files"][0]["id"])

    async def _instead(
        self, chat_id: str, file: Path, why: str, thread_id: str | None
    ) -> str | None:
        text = self._adapter.format(f"📎 `{file.name}` {why}.")
        return await self.send(chat_id, text, thread_id, (), None)

    async def _call(
        self, method: str, options: Mapping[str, Any], *, repeatable: bool = False
    ) -> Any:
        client = self._adapter.client
        return await self._guarded(
            lambda: client.api_call(method, json=dict(options)), repeatable=repeatable
        )

    async def _guarded(
        self, call: Callable[[], Awaitable[Any]], *, repeatable: bool = False
    ) -> Any:
        """What Slack answers. Raises SendError."""
        if is_lost():  # a look, or an upload, may have taken long
            raise SendError(LOST)
        try:
            return await call()
        except FAILURES as error:
            raise send_error(error, repeatable=repeatable) from error


def sections(text: str) -> list[dict[str, Any]]:
    """A text as blocks, each within Slack's limit."""
    parts = [text[at : at + MAX_SECTION] for at in range(0, len(text), MAX_SECTION)]
    return [{"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in parts]


def _actions(buttons: Sequence[Button]) -> dict[str, Any]:
    elements = [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": button.label[:MAX_LABEL] or "·"},
            "action_id": f"hermes:{number}",
            "value": button.data,
        }
        for number, button in enumerate(buttons[:MAX_BUTTONS])
    ]
    return {"type": "actions", "elements": elements}
