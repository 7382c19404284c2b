"""An answer while it is being made: typing signs, and one message that grows within rate limits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent.events import Event, TextStreamed

from .platforms.base import PlatformAdapter, SendError
from .session import SessionSource
from .splitting import split_message

log = logging.getLogger(__name__)

TYPING_SECONDS = 4.0
FIRST_CHARACTERS = 24
LONGER = 1.6
"""By what the time between edits grows where there may be few."""
STOP_SECONDS = 15.0
"""How long the end of a turn waits for a preview that is on its way."""


class Stream:
    """What a chat sees of a turn before its end."""

    def __init__(
        self,
        adapter: PlatformAdapter | None,
        settings: Mapping[str, Any],
        source: SessionSource,
        on_shown: Callable[[str], Awaitable[None]],
    ) -> None:
        """`settings` is the section `streaming`; `on_shown` is told the id of the message that
        grows, once there is one."""
        self._adapter = adapter
        self._source = source
        self._on_shown = on_shown
        self._text = ""
        self._shown = ""
        self._edited = 0
        self.message_id: str | None = None
        """The message that grows, once there is one."""
        self._edits = bool(
            settings.get("enabled") and self._adapter and self._adapter.capabilities.edits
        )
        self._interval = float(settings.get("edit_interval") or 0.8)
        self._cursor = str(settings.get("cursor") or " ▉")
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    def go_on_in(self, message_id: str | None) -> None:
        """Continue in the preview that an earlier process has shown, if there is one."""
        if self._adapter is not None and self._adapter.capabilities.edits:
            self.message_id = message_id
            if message_id is not None and self._adapter.capabilities.most_edits:
                self._edits = False  # how many are left nobody knows; one is for the answer

    def start(self) -> None:
        """Show that an answer is being made."""
        capabilities = self._adapter.capabilities if self._adapter else None
        if capabilities is not None and (capabilities.typing or self._edits):
            self._task = asyncio.ensure_future(self._show())

    def watch(self, event: Event) -> None:
        """Show the answer's text as it comes, and nothing else of the turn."""
        if type(event) is not TextStreamed or self._adapter is None:
            return
        if len(self._text) <= self._adapter.capabilities.max_length:
            self._text += event.text  # what comes later is not shown before the end

    async def stop(self) -> None:
        """The turn is over; what is shown stays until the whole answer takes its place."""
        if self._task is None:
            return
        self._over.set()
        # A preview that is being sent is waited for: if it were cancelled, its id would be unknown.
        _, late = await asyncio.wait([self._task], timeout=STOP_SECONDS)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def _show(self) -> None:
        adapter = self._adapter
        assert adapter is not None
        self._interval = max(self._interval, adapter.capabilities.edit_interval)
        last_typing: float | None = None
        while not self._over.is_set():
            now = time.monotonic()
            pause = self._interval if self._edits else TYPING_SECONDS
            if adapter.capabilities.typing and (
                last_typing is None or now - last_typing >= TYPING_SECONDS
            ):
                last_typing = now
                await self._type(adapter)
            if self._edits:
                pause = await self._grow_within_limits(adapter)
            try:
                async with asyncio.timeout(pause):
                    await self._over.wait()
            except TimeoutError:
                pass  # the turn goes on

    async def _type(self, adapter: PlatformAdapter) -> None:
        try:
            await adapter.typing(self._source.chat_id, self._source.thread_id)
        except (SendError, OSError) as error:
            log.info("No typing sign in %s: %s", self._source.chat_id, error)

    async def _grow_within_limits(self, adapter: PlatformAdapter) -> float:
        """Let the message grow; returns how long to wait before the next time."""
        try:
            await self._grow(adapter)
        except (SendError, OSError) as error:
            if isinstance(error, SendError) and error.retry_after is not None:
                self._interval *= 2
                return max(error.retry_after, self._interval)
            # Only a preview: the whole answer is delivered with its own attempts.
            log.info("The preview in %s is given up: %s", self._source.chat_id, error)
            self._edits = False
        return self._interval

    async def _grow(self, adapter: PlatformAdapter) -> None:
        room = adapter.capabilities.max_length - adapter.measure(self._cursor)
        text = split_message(self._text[: room + 1], room, adapter.measure)[0]
        if text == self._shown or len(text) < FIRST_CHARACTERS:
            return
        shown = adapter.format(text + self._cursor)
        if self.message_id is None:
            self.message_id = await adapter.send(
                self._source.chat_id, shown, thread_id=self._source.thread_id
            )
            if self.message_id is not None:
                await self._on_shown(self.message_id)
        else:
            await adapter.edit(self._source.chat_id, self.message_id, shown)
            self._spare_edits(adapter.capabilities.most_edits)
        self._shown = text

    def _spare_edits(self, most: int) -> None:
        """Where a message can be edited so often only: seldomer each time, and not the last."""
        if most:
            self._edited += 1
            self._interval *= LONGER
            self._edits = self._edited < most - 1
