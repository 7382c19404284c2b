"""Answers on their way out: stored with the turn, sent in order, tried again, never sent twice.

What is owed to a chat is in the store's outbox. One task per chat empties it in order. A platform
that cannot be reached is tried again, at growing intervals; one that refuses for good is reported.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

from .config import Platform
from .platforms.base import PlatformAdapter, SendError
from .session import SessionSource
from .splitting import split_message

if TYPE_CHECKING:
    from .run import GatewayRunner
    from .streaming import Stream

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
GIVE_UP_AFTER = 60
"""Attempts after which a delivery counts as failed: about an hour."""
UNSURE = "⚠️ I was restarted while I was sending an answer. If you do not see one above, send /last."


class Delivery:
    """Sends what is owed to chats."""

    def __init__(self, runner: GatewayRunner) -> None:
        self._runner = runner
        self._chats: dict[str, asyncio.Task[None]] = {}
        self._streams: dict[str, Stream] = {}
        self.delivered = 0
        self.failed = 0

    async def say(self, source: SessionSource, session_key: str, text: str) -> None:
        """Owe a chat a text that is no answer of the model, and send it."""
        await self._runner._session_db.add_delivery(
            f"say:{os.urandom(8).hex()}",
            text,
            session_key=session_key,
            platform=source.platform.value,
            chat_id=source.chat_id,
            thread_id=source.thread_id,
        )
        self._wake(session_key)

    async def flush(self, session_key: str, stream: Stream | None = None) -> None:
        """Send what a chat is owed; `stream` holds what it has seen of it already."""
        if stream is not None and stream.message_id is not None:
            self._streams[session_key] = stream
        task = self._wake(session_key)
        await asyncio.wait([task], timeout=self._runner.config.drain_timeout)

    async def resume(self) -> None:
        """After a start: report what may have been sent, and send what was not."""
        db = self._runner._session_db
        for row in await db.list_deliveries(("sending",)):
            await db.finish_delivery(row["obligation_id"], "failed", "unknown: restarted")
            source = SessionSource(
                Platform(row["platform"]), row["chat_id"], thread_id=row["thread_id"]
            )
            await self.say(source, row["session_key"], UNSURE)
        for key in {row["session_key"] for row in await db.list_deliveries(("pending",))}:
            self._wake(key)
        await db.forget_delivered()

    async def resume_platform(self, platform: Platform) -> None:
        """A platform is connected (again): send what its chats are owed."""
        for row in await self._runner._session_db.list_deliveries(("pending",)):
            if row["platform"] == platform.value:
                self._wake(row["session_key"])

    def _wake(self, session_key: str) -> asyncio.Task[None]:
        running = self._chats.get(session_key)
        if running is None or running.done():
            running = self._chats[session_key] = self._runner.spawn(self._empty(session_key))
        return running

    async def _empty(self, session_key: str) -> None:
        db = self._runner._session_db
        try:
            while rows := await db.list_deliveries(("pending",), session_key):
                for row in rows:
                    if not await self._deliver(row):
                        return
        finally:
            self._chats.pop(session_key, None)
        if await db.list_deliveries(("pending",), session_key):
            self._wake(session_key)

    async def _deliver(self, row: dict[str, Any]) -> bool:
        """Send one text, however long its platform makes us wait; False if nobody can take it."""
        db = self._runner._session_db
        delivery_id = row["obligation_id"]
        sent = 0
        pause = FIRST_PAUSE
        for _ in range(GIVE_UP_AFTER):
            adapter = self._adapter(row["platform"])
            if adapter is None:
                return False  # not connected: it waits in the outbox
            if not await db.begin_delivery(delivery_id):
                return True  # somebody else has it
            try:
                sent = await self._send(adapter, row, sent)
            except SendError as error:
                sent = getattr(error, "sent", sent)
                if error.permanent:
                    break
                await db.finish_delivery(delivery_id, "pending", str(error))
                log.warning("%s does not take a message: %s", row["platform"], error)
                await asyncio.sleep(error.retry_after or pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                row = {**row, "last_error": str(error)}
                continue
            await db.finish_delivery(delivery_id, "delivered")
            self.delivered += 1
            return True
        self.failed += 1
        await db.finish_delivery(delivery_id, "failed", str(row.get("last_error")))
        log.error("An answer to %s could not be delivered", row["session_key"])
        return True

    async def _send(self, adapter: PlatformAdapter, row: dict[str, Any], done: int) -> int:
        """Send the parts of a text that were not sent yet; returns how many are."""
        parts = split_message(row["content"], adapter.capabilities.max_length)
        stream = self._streams.pop(row["session_key"], None) if done == 0 else None
        try:
            for number, part in enumerate(parts):
                if number < done:
                    continue
                text = adapter.format(part)
                if number == 0 and stream is not None and stream.message_id is not None:
                    await adapter.edit(row["chat_id"], stream.message_id, text)
                else:
                    await adapter.send(
                        row["chat_id"],
                        text,
                        thread_id=row["thread_id"],
                        key=f"{row['obligation_id']}:{number}",
                    )
                done = number + 1
        except SendError as error:
            error.sent = done
            raise
        return done

    def _adapter(self, platform: str) -> PlatformAdapter | None:
        try:
            return self._runner.adapters.get(Platform(platform))
        except ValueError:
            return None
