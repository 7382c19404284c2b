"""Receiving: what the daemon hands out is put down at once, and handed in chat by chat.

signal-cli hands a message out once, and tells Signal's servers so: nothing comes again. So it is
read as soon as it comes, and lies on disk until the gateway has stored it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError

from ...session import SessionSource
from .. import lanes
from ..lanes import Lanes, hand_in
from .client import Connection, RpcError, SignalError
from .media import fetch_all
from .messages import GROUP, Incoming, MalformedEnvelopeError, identity, name_of, read_envelope
from .unstored import Unstored

if TYPE_CHECKING:
    from .adapter import SignalAdapter

log = logging.getLogger(__name__)

REMEMBERED = 1000
SUBSCRIBE_SECONDS = 30.0
ROOM_SECONDS = 0.05


class Reader:
    """Hands in what the daemon says; it outlives connections, since what it has seen does."""

    def __init__(self, adapter: SignalAdapter) -> None:
        self._adapter = adapter
        self._lanes = Lanes()
        self._waiting = 0
        """Messages that are being handed in."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        """Messages that were read: the daemon may say one twice, to two subscriptions."""
        self._subscription: int | None = None

    @property
    def _unstored(self) -> Unstored:
        return Unstored(self._adapter.host.home)

    async def _subscribe(self, connection: Connection, params: Mapping[str, Any]) -> None:
        """Have the daemon receive: one that was started with --receive-mode=manual waits for it."""
        name = connection.write("subscribeReceive", params)
        await connection.drain()
        self._subscription = None
        async with asyncio.timeout(SUBSCRIBE_SECONDS):
            while True:
                given = await connection.read()
                if given.get("id") != name:
                    await self._take_up(connection, given)
                    continue
                if given.get("error") is not None:
                    raise SignalError(f"signal-cli does not receive: {RpcError(given['error'])}")
                result = given.get("result")
                self._subscription = result if isinstance(result, int) else None
                return

    async def run(self, connection: Connection, whose: Mapping[str, Any]) -> None:
        """Receive until cancelled; raises BrokenError at the end of the connection. `whose` says
        for which account of the daemon's."""
        self._waiting = 0
        try:
            for envelope in self._unstored.read():
                await self._hand_on(envelope)
            # Only now, since from now on all that comes is read at once.
            await self._subscribe(connection, whose)
            while True:
                await self._take_up(connection, await connection.read())
        finally:
            await self._lanes.stop()

    async def _take_up(self, connection: Connection, given: Mapping[str, Any]) -> None:
        envelope = self._put_down(connection, given)
        if envelope is not None:
            await self._hand_on(envelope)

    def _put_down(
        self, connection: Connection, given: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Keep what came until it is stored; None if it is nothing to us."""
        if given.get("method") != "receive":
            return None
        params = given.get("params")
        try:
            envelope, account = identity(params if isinstance(params, Mapping) else {})
            if account and not self._adapter.is_ours(account):
                return None  # for another account of the same daemon
            self._note_mode(connection, params or {})
            name = name_of(envelope)
            if name in self._seen or read_envelope(envelope, self._adapter.listening) is None:
                return None
        except MalformedEnvelopeError as error:
            log.warning("signal-cli said something that cannot be read: %s", error)
            return None
        self._unstored.add(envelope)
        self._seen[name] = None
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return envelope

    def _note_mode(self, connection: Connection, params: Mapping[str, Any]) -> None:
        if "subscription" in params or self._subscription is None:
            return
        # It says everything to us anyway, so everything twice.
        log.warning(
            "signal-cli's daemon receives whether we are there or not: what comes while the"
            " gateway is away is lost. Start it with --receive-mode=manual."
        )
        connection.write("unsubscribeReceive", {"subscription": self._subscription})
        self._subscription = None

    async def _hand_on(self, envelope: Mapping[str, Any]) -> None:
        try:
            incoming = read_envelope(envelope, self._adapter.listening)
        except MalformedEnvelopeError as error:
            log.warning("A message that was kept cannot be read: %s", error)
            incoming = None
        if incoming is None:
            return
        self._waiting += 1
        work = partial(self._take, incoming)
        while not self._lanes.put(incoming.event.source.chat_id, work):
            await asyncio.sleep(ROOM_SECONDS)  # meanwhile the daemon waits

    async def _take(self, incoming: Incoming) -> None:
        try:
            taken = self._answer(incoming) if incoming.reaction else incoming
            if taken is not None:
                await self._hand_in(taken)
        except Exception:
            # Whatever one message meets, it is not to be met again at every start.
            log.exception("A message of %s could not be taken", incoming.author)
        self._waiting -= 1
        if not self._waiting:
            self._unstored.clear()

    def _answer(self, incoming: Incoming) -> Incoming | None:
        """A reaction under a question of ours, as its answer; any other says nothing."""
        event = incoming.event
        data = self._adapter.sender.asked.answer_of(str(event.reply_to), incoming.reaction)
        if data is None:
            return None
        event.text = event.button = data
        return incoming

    async def _hand_in(self, incoming: Incoming) -> None:
        adapter, event = self._adapter, incoming.event
        may_talk = await self._may_talk(event.source)
        if incoming.attachments and may_talk:
            with adapter.host.expecting(event.source):
                await fetch_all(adapter, incoming)
                is_stored = await hand_in(adapter.on_message, event)
        else:
            if incoming.attachments and not event.text:
                event.text = f"[{incoming.attachments[0].name}]"
            is_stored = await hand_in(adapter.on_message, event)
        if is_stored and may_talk and self._tells_read(incoming):
            adapter.host.spawn(adapter.sender.tell_read(incoming.author, incoming.sent_at))

    async def _may_talk(self, source: SessionSource) -> bool:
        """Whether somebody may talk, however long the store takes to say it: a message that is
        passed over is not handed out again."""
        pause = lanes.FIRST_PAUSE
        while True:
            try:
                return await self._adapter.host.is_allowed(source)
            except (StoreError, OSError) as error:
                log.warning("It cannot be looked up who may talk, and is tried again: %s", error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, lanes.LONGEST_PAUSE)

    def _tells_read(self, incoming: Incoming) -> bool:
        adapter, is_group = self._adapter, incoming.event.source.chat_id.startswith(GROUP)
        is_message = not is_group and not incoming.reaction
        return adapter.read_receipts and is_message and not adapter.listening.note_to_self
