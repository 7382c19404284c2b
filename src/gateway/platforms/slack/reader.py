"""Reading an app's events: each chat in order, each acknowledged only when it is stored.

An envelope that is not acknowledged is delivered again, a few times. After a longer absence the
chats' histories are read too, for what came meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes_state import LeaseLostError, StoreError

from ..base import SendError
from ..lanes import Lanes, hand_in
from .errors import FAILURES, code_of, wish_of
from .media import fetch_all
from .messages import (
    Incoming,
    MalformedEventError,
    read_command,
    read_event,
    read_press,
    thread_of,
)
from .place import Place, micros, now, ts_of

if TYPE_CHECKING:
    from .adapter import SlackAdapter

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
SAVE_SECONDS = 2.0
MISSED_SECONDS = 7 * 24 * 3600
"""How far back it is looked for what came while nobody was connected."""
PAGE, MOST_PAGES, MOST_CHATS = 200, 20, 200
REMEMBERED = 1000
BRIEF_SECONDS = 30.0
"""Being away for less is bridged by Slack, which tries again for some minutes."""
MARGIN = 60_000_000
"""Microseconds by which events of different chats may come in another order than their times."""
THREAD_SECONDS, MOST_THREADS = 24 * 3600, 20
"""Of one chat: the threads in which something was said last, of so long ago at most."""
_LIST = "(list of conversations)"
NOT_YOURS = "You may not use this here."

Acknowledge = Callable[[], Awaitable[None]]


class Reader:
    """Hands in what an app is told; it outlives connections, since its place does."""

    def __init__(self, adapter: SlackAdapter) -> None:
        self._adapter = adapter
        self._lanes = Lanes()
        self._caught_up: set[str] = set()
        """Chats whose history was read since we were away."""
        self._from_history: OrderedDict[str, None] = OrderedDict()
        """Messages that were read from a history, and may be delivered as well."""
        self.place = Place()
        self._before = Place()
        """How far chats were read when we came back."""
        self._is_first = False
        self._changed = False

    # What came

    def go_on_from(self, place: Place) -> None:
        """Where reading begins: at the present, if this account was never read."""
        self._is_first = place.begin()
        self.place = place
        self._changed = True

    def begin_session(self, away_seconds: float) -> None:
        """A new connection: what came before it may be in the histories only."""
        if away_seconds < BRIEF_SECONDS:
            return  # Slack delivers again what it could not deliver
        self._before = self.place.copy()
        self._caught_up.clear()
        if not self._is_first:  # else there is nothing that we were away for
            self._lanes.put(_LIST, self._look_through)
        self._is_first = False

    def put(self, kind: str, payload: Any, acknowledge: Acknowledge) -> None:
        """An envelope came."""
        if kind == "events_api":
            event = payload.get("event") or {}
            chat, work = str(event.get("channel", "")), partial(self._live, event)
        elif kind == "interactive" and payload.get("type") == "block_actions":
            chat = str((payload.get("channel") or {}).get("id", ""))
            work = partial(self._pressed, payload)
        elif kind == "slash_commands":
            chat, work = str(payload.get("channel_id", "")), partial(self._command, payload)
        else:
            chat, work = "", partial(_ignore, kind)

        async def take() -> None:
            try:
                await work()
            except MalformedEventError as error:
                log.warning("An event of Slack's cannot be read: %s", error)
            await acknowledge()

        # What finds no room is not acknowledged, and comes again.
        if not self._lanes.put(chat, take):
            log.warning("%s has too much to read; Slack delivers it again", chat)

    async def stop(self) -> None:
        """Drop what waits; it was not acknowledged, or is in the histories."""
        await self._lanes.stop()

    async def keep_place(self) -> None:
        """Keep the place whenever it has changed, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            await self.save()

    async def save(self) -> None:
        """Keep the place now."""
        if not self._changed:
            return
        self._changed = False
        self.place.prune()
        try:
            await asyncio.to_thread(self._adapter.places.write, self.place.copy())
        except LeaseLostError:
            pass  # the one who has the platform now reads from where we were
        except (StoreError, OSError) as error:
            self._changed = True
            log.warning("The place in Slack's chats is kept later: %s", error)

    # What came while nobody was there

    async def _look_through(self) -> None:
        """Read the histories of the chats that we are in."""
        began = now()
        channels = (await self._list())[:MOST_CHATS]
        pending = set(channels)
        for channel in channels:
            self._lanes.put(channel, partial(self._read_planned, channel, pending, began))

    async def _read_planned(self, channel: str, pending: set[str], began: int) -> None:
        await self._catch_up(channel)
        pending.discard(channel)
        if not pending:  # nothing is left anywhere that is older than this
            self.place.since = max(self.place.since, began - MARGIN)
            self._changed = True

    async def _list(self) -> list[str]:
        """The ids of the chats that we are in."""
        found: list[str] = []
        cursor = ""
        for _ in range(MOST_PAGES):
            answer = await self._ask(
                "users.conversations",
                types="public_channel,private_channel,mpim,im",
                exclude_archived=True,
                limit=PAGE,
                **({"cursor": cursor} if cursor else {}),
            )
            if answer is None:
                break
            found += [str(channel["id"]) for channel in answer.get("channels") or ()]
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
        known = [name for name in self._before.chats if ":" not in name]
        return [*reversed(known), *(name for name in found if name not in set(known))]

    async def _catch_up(self, channel: str) -> None:
        """Read what came in a chat since it was read last, once after we were away."""
        if channel and channel not in self._caught_up:
            self._caught_up.add(channel)
            await self._read_chat(channel)

    async def _read_chat(self, channel: str) -> None:
        oldest = now() - MISSED_SECONDS * 1_000_000
        after = max(self._before.read_up_to(channel), oldest)
        missed = await self._pages("conversations.history", channel, after)
        quiet = now() - THREAD_SECONDS * 1_000_000
        known = [
            (name.partition(":")[2], value)
            for name, value in self._before.chats.items()
            if name.startswith(f"{channel}:") and value >= quiet
        ]
        threads = dict(known[-MOST_THREADS:])
        for message in missed:
            if message.get("reply_count"):
                threads.setdefault(str(message["ts"]), after)
        for thread, read in threads.items():
            replies = await self._pages("conversations.replies", channel, read, ts=thread)
            missed += [reply for reply in replies if reply.get("ts") != thread]
        for message in sorted(missed, key=lambda message: micros(str(message["ts"]))):
            try:
                await self._take({**message, "channel": channel, "type": "message"})
            except MalformedEventError as error:
                log.warning("A message of %s cannot be read: %s", channel, error)
            self._from_history[f"{channel}:{message['ts']}"] = None
            while len(self._from_history) > REMEMBERED:
                self._from_history.popitem(last=False)

    async def _pages(
        self, method: str, channel: str, after: int, **more: Any
    ) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        cursor = ""
        for _ in range(MOST_PAGES):
            answer = await self._ask(
                method,
                channel=channel,
                oldest=ts_of(after),
                limit=PAGE,
                **more,
                **({"cursor": cursor} if cursor else {}),
            )
            if answer is None:
                break
            messages += answer.get("messages") or ()
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
        else:
            log.error("%s has more messages than were read; some are left out", channel)
        return [message for message in messages if micros(str(message["ts"])) > after]

    async def _ask(self, method: str, **options: Any) -> Any | None:
        """What Slack answers, however long it takes; None if it refuses."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._adapter.client.api_call(method, params=options)
            except FAILURES as error:
                wish = wish_of(error)
                if wish is None and code_of(error):
                    log.warning("%s: Slack refuses: %s", method, code_of(error))
                    return None
                log.info("%s is asked again: %s", method, error)
            except SendError:
                wish = None  # not connected at the moment
            await asyncio.sleep(wish or pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    # Messages

    async def _live(self, event: Mapping[str, Any]) -> None:
        channel = str(event.get("channel", ""))
        if event.get("type") not in ("message", "app_mention"):
            return
        await self._catch_up(channel)
        is_change = event.get("subtype") == "message_changed"
        if is_change or f"{channel}:{event.get('ts')}" not in self._from_history:
            await self._take(event)

    async def _take(self, event: Mapping[str, Any]) -> None:
        adapter = self._adapter
        incoming = read_event(event, adapter.listening)
        if incoming is not None:
            await self._hand_in(incoming)
        if event.get("subtype") not in ("message_changed", "message_deleted") and event.get("ts"):
            channel, value = str(event["channel"]), micros(str(event["ts"]))
            thread = thread_of(event)
            if thread is None:
                self.place.pass_by(channel, value)
            elif incoming is not None or f"{channel}:{thread}" in self.place.chats:
                self.place.pass_by(f"{channel}:{thread}", value)
            if thread is None and incoming is not None and incoming.event.source.thread_id:
                # The thread that begins with it is ours to read.
                self.place.pass_by(f"{channel}:{incoming.event.source.thread_id}", value)
            self._changed = True

    async def _hand_in(self, incoming: Incoming) -> None:
        adapter, event = self._adapter, incoming.event
        if not incoming.attachments:
            await self._name(event.source)
            await hand_in(adapter.on_message, event)
        elif await adapter.host.is_allowed(event.source):
            with adapter.host.expecting(event.source):
                await self._name(event.source)
                await fetch_all(adapter.host, incoming, adapter.config.token, adapter.base_url)
                await hand_in(adapter.on_message, event)
        else:
            if not event.text:
                event.text = f"[{incoming.attachments[0].name}]"
            await hand_in(adapter.on_message, event)

    async def _name(self, source: Any) -> None:
        source.user_name = await self._adapter.name_of(str(source.user_id))

    async def _pressed(self, payload: Mapping[str, Any]) -> None:
        adapter = self._adapter
        actions = payload.get("actions") or [{}]
        event = read_press(payload, str(actions[0].get("value") or ""), adapter.listening)
        may_talk = await adapter.host.is_allowed(event.source)
        if event.text:
            await hand_in(adapter.on_message, event)
        adapter.host.spawn(self._respond(payload, event.source, may_talk))

    async def _respond(self, payload: Mapping[str, Any], source: Any, may_talk: bool) -> None:
        """Take pressed buttons away, or say that they were not theirs."""
        sender = self._adapter.sender
        try:
            if may_talk:
                await sender.take_buttons(payload)
            else:
                await sender.whisper(source.chat_id, source.user_id, NOT_YOURS, source.thread_id)
        except SendError as error:
            log.info("A button in %s stays as it is: %s", source.chat_id, error)

    async def _command(self, payload: Mapping[str, Any]) -> None:
        adapter = self._adapter
        event = read_command(payload, adapter.listening)
        await self._name(event.source)
        await hand_in(adapter.on_message, event)


async def _ignore(kind: str) -> None:
    log.debug("%s is nothing to us", kind)
