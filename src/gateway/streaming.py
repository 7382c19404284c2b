"""An answer while it is being made: typing signs, and one message that grows within rate limits."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from .platforms.base import SendError
from .session import SessionSource

if TYPE_CHECKING:
    from .run import GatewayRunner

log = logging.getLogger(__name__)

TYPING_SECONDS = 4.0
FIRST_CHARACTERS = 24


class Stream:
    """What a chat sees of a turn before its end."""

    def __init__(self, runner: GatewayRunner, source: SessionSource, session_key: str) -> None:
        self._adapter = runner.adapters.get(source.platform)
        self._source = source
        self._text = ""
        self._shown = ""
        self.message_id: str | None = None
        settings = runner.config.streaming
        self._edits = bool(
            settings.get("enabled") and self._adapter and self._adapter.capabilities.edits
        )
        self._interval = float(settings.get("edit_interval") or 0.8)
        self._cursor = str(settings.get("cursor") or " ▉")
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Show that an answer is being made."""
        capabilities = self._adapter.capabilities if self._adapter else None
        if capabilities is not None and (capabilities.typing or self._edits):
            self._task = asyncio.ensure_future(self._show())

    def feed(self, text: str) -> None:
        """A piece of the answer."""
        self._text += text
        self._changed.set()

    async def stop(self) -> None:
        """The turn is over; what is shown stays until the whole answer takes its place."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _show(self) -> None:
        adapter = self._adapter
        assert adapter is not None
        last_typing = 0.0
        while True:
            try:
                if time.monotonic() - last_typing >= TYPING_SECONDS and adapter.capabilities.typing:
                    last_typing = time.monotonic()
                    await adapter.typing(self._source.chat_id, self._source.thread_id)
                if self._edits:
                    await self._grow()
            except (SendError, OSError) as error:
                # Only a preview: the whole answer is delivered with its own attempts.
                log.info("The preview in %s is given up: %s", self._source.chat_id, error)
                self._edits = False
            interval = max(self._interval, adapter.capabilities.edit_interval)
            await asyncio.sleep(interval if self._edits else TYPING_SECONDS)

    async def _grow(self) -> None:
        adapter = self._adapter
        assert adapter is not None
        text = self._text[: adapter.capabilities.max_length - len(self._cursor) - 1]
        if text == self._shown or len(text) < FIRST_CHARACTERS:
            return
        if self.message_id is None:
            self.message_id = await adapter.send(
                self._source.chat_id, text + self._cursor, thread_id=self._source.thread_id
            )
        else:
            await adapter.edit(self._source.chat_id, self.message_id, text + self._cursor)
        self._shown = text
