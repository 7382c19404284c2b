"""Delivery of answers: stored with the turn, sent in order, retried, never sent twice.

What is owed to a chat is in the store's outbox. One task per chat empties it in order. A platform
that cannot be reached is tried again, at growing intervals; one that refuses for good is reported.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conversation.mirror import MIRRORED
from conversation.patience import retry_until_stored
from hermes_state import LeaseLostError, StoreError, StoreOutcomeUnknownError

from .config import GatewayConfig, Platform
from .media import FILE, FILE_MARKS, outgoing, sent_file
from .platforms.base import PlatformAdapter, SendError
from .session import SessionSource
from .splitting import split_message

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB, PlatformLease

    from .streaming import Stream

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
LAST_SECONDS = 2.0
"""How long the end of the gateway waits for a message that is being sent."""
TAKE_BACK_ATTEMPTS, TAKE_BACK_PAUSE = 30, 1.0
GIVE_UP_AFTER = 60
"""Attempts after which a delivery counts as failed: about an hour."""
UNSURE = "⚠️ I was restarted while I was sending an answer. If you do not see one above, send /last."
BROKEN = (
    "⚠️ The connection broke while I was sending an answer. If you do not see one above, send /last."
)

_TURN_OF = re.compile(r"(~\d+)?(:cut-off)?:\d+$")
"""What the name of an answer, or of the notice that there is none, has behind its turn's."""


class Delivery:
    """Sends what is owed to chats."""

    def __init__(
        self,
        db: AsyncSessionDB,
        adapters: Mapping[Platform, PlatformAdapter],
        config: GatewayConfig,
        home: Path,
        spawn: Callable[[Coroutine[Any, Any, object]], asyncio.Task[Any]],
        may_see: Callable[[str], Awaitable[bool]],
        lease_of: Callable[[Platform], PlatformLease | None] = lambda platform: None,
    ) -> None:
        """`adapters` are those that are connected at the time; `may_see` says whether a chat may be
        shown what was said elsewhere in its conversation; `lease_of` gives the lease under which a
        platform is held."""
        self._db = db
        self._adapters = adapters
        self._config = config
        self._home = home
        self._spawn = spawn
        self._may_see = may_see
        self._lease_of = lease_of
        self._chats: dict[str, asyncio.Task[None]] = {}
        self._streams: dict[str, Stream] = {}
        """What chats see of answers before their end, by the turn or the delivery."""
        self._sent: dict[str, int] = {}
        """How many parts of an unfinished delivery were sent."""
        self._under_way: set[str] = set()
        """Deliveries that are being sent just now."""
        self._left: list[dict[str, Any]] = []
        """Deliveries that dead processes were sending; settled when their platform is connected."""
        self.working_directory = Path(os.getcwd())  # noqa: PTH109 - as the agents are built
        self.folder_of: Callable[[str], Path | None] = lambda session_key: None
        """Where the agent works in a chat, if that is not the same for all."""
        self.delivered = 0
        self.failed = 0

    async def say(
        self,
        source: SessionSource,
        session_key: str,
        text: str,
        stream: Stream | None = None,
        *,
        name: str | None = None,
    ) -> None:
        """Enqueue a text for a chat that is no answer of the model, and send it.

        It takes the place of what `stream` has shown. If the store cannot take it, it is sent at
        once, and once: nobody is left without a word because there is no room for it. Under one
        `name` it is said once.
        """
        delivery_id = f"say:{name or os.urandom(8).hex()}"
        if stream is not None:
            self._streams[delivery_id] = stream
        to: dict[str, Any] = {
            "session_key": session_key,
            "platform": source.platform.value,
            "chat_id": source.chat_id,
            "thread_id": source.thread_id,
        }
        try:
            await self._db.add_delivery(delivery_id, text, **to)
        except StoreError as error:
            log.error("A notice for %s could not be stored: %s", session_key, error)
            await self._send_once({"obligation_id": delivery_id, "content": text, **to})
            return
        self.wake_chat(session_key)

    async def look(self) -> None:
        """Send what other processes owe to chats whose platform is connected, and settle what those
        were sending that are gone."""
        for row in await self._db.list_abandoned_deliveries():
            if self._adapter(row["platform"]) is not None:
                await self._settle_unsure(row)
        for row in await self._db.list_due_deliveries():
            if self._adapter(row["platform"]) is not None:
                self.wake_chat(row["session_key"])

    async def _send_once(self, row: dict[str, Any]) -> None:
        """Send a text that is in no store; never raises."""
        adapter = self._adapter(row["platform"])
        try:
            if adapter is None:
                raise SendError("the platform is not connected")
            await self._send(adapter, row)
            self.delivered += 1
        except Exception:
            # Whatever the platform's library raises: the log is all that is left.
            self.failed += 1
            log.exception("Could not send a notice to %s: %s", row["session_key"], row["content"])
        finally:
            self._sent.pop(row["obligation_id"], None)
            self._streams.pop(row["obligation_id"], None)

    def follow(self, turn: str, stream: Stream) -> None:
        """The answer of a turn, whenever it is sent, takes the place of what `stream` shows."""
        self._streams[turn] = stream

    async def note_preview(self, turn: str, message_id: str) -> None:
        """Store the id of a preview's message, for a process that takes the turn over."""
        try:
            await self._db.note_preview(turn, message_id)
        except StoreError as error:
            # Without it a crash now would only leave the preview in the chat.
            log.warning("The preview of %s could not be noted: %s", turn, error)

    async def preview_of(self, turn: str) -> str | None:
        """The message that shows a turn's answer already, if that is known."""
        try:
            message_id: str | None = await self._db.get_preview(turn)
            return message_id
        except StoreError as error:
            log.warning("The preview of %s is not known now: %s", turn, error)
            return None

    async def forget_preview(self, turn: str) -> None:
        """Nothing is to take its place any more."""
        try:
            await self._db.forget_preview(turn)
        except StoreError as error:
            log.warning("The preview of %s is forgotten later: %s", turn, error)

    async def flush(self, session_key: str, turn: str | None = None) -> None:
        """Send what a chat is owed; with it ends what was followed for a turn."""
        task = self.wake_chat(session_key)
        await asyncio.wait([task], timeout=self._config.drain_timeout)
        if turn is None or not task.done():
            return
        # What waits for its platform to come back still takes the place of its preview.
        if not await self._db.list_due_deliveries(session_key):
            self._streams.pop(turn, None)

    async def drain(self) -> None:
        """Before the end: wait until deliveries that are being sent are recorded."""
        deadline = time.monotonic() + LAST_SECONDS
        while self._under_way and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    async def resume(self) -> None:
        """After a start: send what was not sent; `resume_platform` settles what may have been."""
        db = self._db
        self._left = await db.list_abandoned_deliveries(with_own=True)
        for key in {row["session_key"] for row in await db.list_due_deliveries()}:
            self.wake_chat(key)
        await db.forget_delivered()

    async def resume_platform(self, platform: Platform) -> None:
        """A platform is connected (again): send what its chats are owed.

        What an earlier run was sending is sent again if it is a notice or is shown once, else
        reported.
        """
        left, self._left = self._left, []
        for row in left:
            if row["platform"] == platform.value:
                await self._settle_unsure(row)
            else:
                self._left.append(row)
        for row in await self._db.list_due_deliveries():
            if row["platform"] == platform.value:
                self.wake_chat(row["session_key"])

    async def _settle_unsure(self, row: dict[str, Any]) -> None:
        db, repeats = self._db, await self._may_repeat(row)
        if not repeats:
            await self._tell_unsure(row, UNSURE)
        state, reason = ("pending", "restarted") if repeats else ("failed", "unknown: restarted")
        await retry_until_stored(
            lambda: db.settle_delivery(row["obligation_id"], row["owner"], state, reason),
            f"Recording a delivery as {state}",
            is_repeatable=True,
        )

    async def _tell_unsure(self, row: dict[str, Any], text: str) -> None:
        """Notify the chat before the delivery is settled, once: a crash between loses no notice."""
        source = SessionSource(
            Platform(row["platform"]), row["chat_id"], thread_id=row["thread_id"]
        )
        await self.say(source, row["session_key"], text, name=f"{row['obligation_id']}:unsure")

    async def _may_repeat(self, row: dict[str, Any]) -> bool:
        """Whether a text is sent again that may have been shown.

        A notice always is: twice does no harm, and /last could not bring it back. An answer is
        where it cannot be shown twice: a preview may have become the answer by an edit, and a file
        has no key.
        """
        if row["obligation_id"].startswith("say:"):
            return True
        adapter = self._adapter(row["platform"])
        if adapter is None or not adapter.capabilities.repeatable:
            return False
        if adapter.capabilities.edits and self._config.streaming.get("enabled"):
            return False
        if not adapter.capabilities.media or adapter.capabilities.attaches:
            return True
        return not (await self._outgoing(row["content"], row["session_key"]))[1]

    def wake_chat(self, session_key: str) -> asyncio.Task[None]:
        """Have what a chat is owed sent now."""
        running = self._chats.get(session_key)
        if running is None or running.done():
            running = self._chats[session_key] = self._spawn(self._empty(session_key))
        return running

    async def _empty(self, session_key: str) -> None:
        db = self._db
        try:
            while rows := await retry_until_stored(
                lambda: db.list_due_deliveries(session_key), "Reading the outbox"
            ):
                for row in rows:
                    if not await self._deliver(row):
                        return
        finally:
            self._chats.pop(session_key, None)
        if await db.list_due_deliveries(session_key):
            self.wake_chat(session_key)

    async def _deliver(self, row: dict[str, Any]) -> bool:
        """Send one text, however long its platform makes us wait; False if nobody can take it."""
        delivery_id = row["obligation_id"]
        pause = FIRST_PAUSE
        reason = "no more attempts"
        for _ in range(GIVE_UP_AFTER):
            adapter = self._adapter(row["platform"])
            if adapter is None:
                return False  # not connected: it waits in the outbox
            self._under_way.add(delivery_id)
            try:
                if not await self._begin(delivery_id, Platform(row["platform"])):
                    return True  # another process is sending it
                if delivery_id.startswith(MIRRORED) and not await self._may_see(row["session_key"]):
                    await self._finish(delivery_id, "failed", "this chat may not see it any more")
                    return True
                await self._send_or_say_why(adapter, row)
                await self._finish(delivery_id, "delivered")
            except LeaseLostError:
                return False  # another replica holds the platform, and sends it
            except SendError as error:
                reason = str(error)
                if error.unsure and not error.held and not delivery_id.startswith("say:"):
                    await self._report_unsure(row, reason)
                    return True
                if error.held:
                    await self._hold(delivery_id, reason)
                    return True
                if error.permanent:
                    break
                await self._finish(delivery_id, "pending", reason)
                self._under_way.discard(delivery_id)
                log.warning("%s does not take a message: %s", row["platform"], reason)
                await asyncio.sleep(error.retry_after or pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            finally:
                self._under_way.discard(delivery_id)
            self._sent.pop(delivery_id, None)
            self.delivered += 1
            return True
        self.failed += 1
        self._sent.pop(delivery_id, None)
        await self._finish(delivery_id, "failed", reason)
        log.error("An answer to %s could not be delivered: %s", row["session_key"], reason)
        return True

    async def _finish(self, delivery_id: str, state: str, reason: str | None = None) -> None:
        """Record what became of a delivery, with retries: otherwise it would be sent again."""
        db = self._db
        await retry_until_stored(
            lambda: db.finish_delivery(delivery_id, state, reason),
            f"Recording a delivery as {state}",
            is_repeatable=True,
        )

    async def _hold(self, delivery_id: str, reason: str) -> bool:
        """Keep a delivery until the person has written."""
        db = self._db
        log.info("%s is held: %s", delivery_id, reason)
        return await retry_until_stored(
            lambda: db.hold_delivery(delivery_id, reason), "Holding a delivery", is_repeatable=True
        )

    async def take_back(self, key: str, reason: str, *, held: bool) -> None:
        """Its platform says that the text of a key was not shown, although it had taken it: it is
        held, or failed. Another replica may be about to note that it was delivered."""
        delivery_id, db = key.rpartition(":")[0], self._db
        self._sent.pop(delivery_id, None)
        for _ in range(TAKE_BACK_ATTEMPTS):
            settled = delivery_id not in self._under_way and await (
                self._hold(delivery_id, reason)
                if held
                else retry_until_stored(
                    lambda: db.reject_delivery(delivery_id, reason),
                    "Recording a delivery as failed",
                    is_repeatable=True,
                )
            )
            if settled:
                log.warning("%s was not shown: %s", delivery_id, reason)
                return
            await asyncio.sleep(TAKE_BACK_PAUSE)
        log.warning("%s was not shown (%s), and is not known any more", delivery_id, reason)

    async def _begin(self, delivery_id: str, platform: Platform) -> bool:
        """Record that a delivery is about to be sent; False if another process sends it.

        Raises LeaseLostError if the platform is another replica's by now.
        """
        lease = self._lease_of(platform)
        while True:
            try:
                return await retry_until_stored(
                    lambda: self._db.begin_delivery(delivery_id, lease), "A delivery"
                )
            except StoreOutcomeUnknownError:
                # Nobody but us sends to our chats, and we have sent nothing of it yet.
                await self._finish(delivery_id, "pending")

    async def _send_or_say_why(self, adapter: PlatformAdapter, row: dict[str, Any]) -> None:
        try:
            await self._send(adapter, row)
        except SendError:
            raise
        except Exception as error:
            # Not the adapter's to raise; but the chats must not wait for a restart because of it.
            log.exception("%s failed while it was sending", row["platform"])
            reason = f"{type(error).__name__}: {error}"
            raise SendError(reason, unsure=True, permanent=True) from error

    async def _report_unsure(self, row: dict[str, Any], reason: str) -> None:
        """An answer may have been shown or not: say so rather than send it twice."""
        self.failed += 1
        self._sent.pop(row["obligation_id"], None)
        log.warning("Whether an answer to %s arrived is unknown: %s", row["session_key"], reason)
        await self._tell_unsure(row, BROKEN)
        await self._finish(row["obligation_id"], "failed", f"unknown: {reason}")

    async def _send(self, adapter: PlatformAdapter, row: dict[str, Any]) -> None:
        """Send the parts of a text, then its files, that were not sent yet."""
        delivery_id = row["obligation_id"]
        text: str = row["content"]
        if delivery_id.startswith(FILE):
            file = await asyncio.to_thread(sent_file, self._home, text)
            if file is None:
                raise SendError(f"{Path(text).name} is not here to be sent", permanent=True)
            if adapter.capabilities.attaches:
                await adapter.send_with_files(
                    row["chat_id"], "", [file], thread_id=row["thread_id"], key=delivery_id
                )
            else:
                await adapter.send_media(row["chat_id"], str(file), thread_id=row["thread_id"])
            return
        files: list[Path] = []
        if adapter.capabilities.media and not delivery_id.startswith("say:"):
            text, files = await self._outgoing(text, row["session_key"])
        parts = split_message(text, adapter.capabilities.max_length, adapter.measure)
        attached, files = (files, []) if adapter.capabilities.attaches else ([], files)
        if files and not text:
            parts = []
        for number in range(self._sent.get(delivery_id, 0), len(parts) + len(files)):
            if number >= len(parts):
                await adapter.send_media(
                    row["chat_id"], str(files[number - len(parts)]), thread_id=row["thread_id"]
                )
            elif attached and number == len(parts) - 1:
                await adapter.send_with_files(
                    row["chat_id"],
                    adapter.format(parts[number]),
                    attached,
                    thread_id=row["thread_id"],
                    key=f"{delivery_id}:{number}",
                )
            elif number > 0 or not await self._replace_preview(adapter, row, parts[0]):
                await adapter.send(
                    row["chat_id"],
                    adapter.format(parts[number]),
                    thread_id=row["thread_id"],
                    key=f"{delivery_id}:{number}",
                )
            self._sent[delivery_id] = number + 1

    async def _replace_preview(
        self, adapter: PlatformAdapter, row: dict[str, Any], part: str
    ) -> bool:
        """Let the beginning of a text take the place of its preview; False if there is none."""
        # An answer is named after its turn and the number of its step.
        names = (row["obligation_id"], row["obligation_id"].rpartition(":")[0])
        stream = next((self._streams[name] for name in names if name in self._streams), None)
        if stream is None:
            return await self._replace_earlier_preview(adapter, row, part)
        await stream.stop()  # from here on it does not grow
        if stream.message_id is not None:
            try:
                await adapter.edit(row["chat_id"], stream.message_id, adapter.format(part))
            except SendError as error:
                if not error.permanent:
                    error.unsure = False  # an edit may be repeated
                    raise
                log.info("The preview in %s cannot be replaced: %s", row["chat_id"], error)
                stream.message_id = None  # deleted by somebody: the answer is a new message
        self._streams = {
            name: other for name, other in self._streams.items() if other is not stream
        }
        return stream.message_id is not None

    async def _replace_earlier_preview(
        self, adapter: PlatformAdapter, row: dict[str, Any], part: str
    ) -> bool:
        """The same for the preview of a turn that was taken over."""
        turn = _TURN_OF.sub("", row["obligation_id"])
        if turn == row["obligation_id"] or not adapter.capabilities.edits:
            return False
        message_id = await self.preview_of(turn)
        if message_id is None:
            return False
        try:
            await adapter.edit(row["chat_id"], message_id, adapter.format(part))
        except SendError as error:
            if not error.permanent:
                error.unsure = False  # an edit may be repeated
                raise
            log.info("The preview in %s cannot be replaced: %s", row["chat_id"], error)
            message_id = None
        await self.forget_preview(turn)
        return message_id is not None

    async def _outgoing(self, text: str, session_key: str) -> tuple[str, list[Path]]:
        """An answer, and the files that it names, in the folder in which the agent works."""
        if not any(mark in text for mark in FILE_MARKS):
            return text, []
        folder = await self._db.at_hand(self.folder_of, session_key)
        return outgoing(text, folder or self.working_directory, self._home)

    def _adapter(self, platform: str) -> PlatformAdapter | None:
        try:
            return self._adapters.get(Platform(platform))
        except ValueError:
            return None
