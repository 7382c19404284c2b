"""Reading an account: each chat in order, each message counted as read only when it is stored.

What was said while nobody was here is in the archives, and is read first; what comes meanwhile
waits behind it. The place in each archive is kept, never ahead of the store.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from hermes_state import LeaseLostError, StoreError

from ...media import MediaTooLargeError
from ...session import SessionSource
from ..base import MessageEvent, SendError
from ..lanes import Lanes, hand_in
from ..typed import as_command
from . import stanzas
from .archive import CLOCK_SECONDS, Archive, Kept
from .client import Arrival, BrokenError, Client, RefusedError
from .media import FetchError, fetch_file, name_of
from .messages import Said, is_sure, read_message, without_address
from .place import NAME, Mark, Place, Progress, now, read_place
from .rooms import Room, invitation

if TYPE_CHECKING:
    from .adapter import XmppAdapter

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
SAVE_SECONDS = 2.0
ROOMS_SECONDS = 60.0
"""Between two looks whether we are in our rooms (XEP-0410)."""
MISSED = timedelta(days=7)
"""What is older than that is not answered any more."""
REMEMBERED = 2000
TELL_AGAIN_SECONDS = 300.0
MOST_TOLD = 1000
MOST_INVITED = 50
ENCRYPTED = (
    "🔒 I cannot read encrypted messages (OMEMO, OTR, PGP), and this was one. Switch encryption off"
    " for this chat, and write again."
)
UNKNOWN = (
    "I cannot tell who you are in this room: it hides people's addresses. Write to me directly, or"
    " have the room show addresses to everybody."
)
PRIVATE = "Write to me directly, please: in a room's private messages I do not know who you are."


class Reader:
    """Hands in what an account is told; it outlives connections, since its place does."""

    def __init__(self, adapter: XmppAdapter) -> None:
        self._adapter = adapter
        self._lanes = Lanes()
        self._handed: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        """What was handed in last: it may be in an archive as well."""
        self._told: dict[str, float] = {}
        self._wishes: set[str] = set()
        """Who wants to see whether we are there, and was not known when they asked."""
        self.place = Place("")
        self._kept: Mapping[str, Any] = {}
        self._gates: dict[str, asyncio.Event] = {}
        """Open once the archive is read of what was missed, by its address."""
        self._progress: dict[str, Progress] = {}
        self._overflowing = asyncio.Event()

    # Connections

    async def go_on_from(self, facts: Mapping[str, Any], client: Client) -> None:
        """Where reading begins: at the present, if this account was never read."""
        me = self._adapter.jid
        self.place = read_place(me, facts)
        self._kept = facts
        self._gates = {}
        self._progress = {}
        self._overflowing.clear()
        for jid in self.place.invited:
            self._adapter.rooms.add(jid)
        if self._adapter.has_archive and me not in self.place.archives:
            self.place.archives[me] = await self._end_of(Archive(client, me))

    async def run(self, client: Client) -> None:
        """Read until cancelled; raises BrokenError."""
        archive = Archive(client, self._adapter.jid)
        await self.save()  # what comes from now on is for us, whatever happens
        client.post(stanzas.presence())
        works = (self._read_own(archive), self._keep_rooms(client), self._watch_overflow())
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _watch_overflow(self) -> None:
        await self._overflowing.wait()
        raise BrokenError("too much is waiting to be read; it is read from the archive")

    async def stop(self) -> None:
        """Drop what waits; it is in the archives."""
        await self._lanes.stop()

    async def keep_place(self) -> None:
        """Keep the place whenever it has changed, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            await self.save()

    async def save(self) -> None:
        """Keep the place now."""
        facts = self.place.facts()
        if facts == self._kept:
            return
        try:
            await asyncio.to_thread(self._adapter.kept.write, NAME, facts)
            self._kept = facts
        except LeaseLostError:
            self._kept = facts  # the one who has the platform now reads from where we were
        except (StoreError, OSError) as error:
            log.warning("The place in XMPP's archives is kept later: %s", error)

    # What comes

    def receive(self, client: Client, xml: ET.Element, arrival: Arrival) -> None:
        """A stanza came; in the order of the stream, so that it is still true who is who."""
        adapter = self._adapter
        bare = xml.get("from", "").partition("/")[0]
        room = adapter.rooms.get(bare)
        if xml.tag.endswith("}presence"):
            if room is not None:
                room.on_presence(xml)
            elif xml.get("type") == "subscribe":
                adapter.host.spawn(self._wished(client, bare))
            return
        invited = invitation(xml)
        if invited is not None:
            adapter.host.spawn(self._invited(client, *invited))
        said = read_message(xml, adapter.jid) if invited is None else None
        if said is None or said.is_private or said.in_room != (room is not None):
            if said is not None and room is not None:
                self._tell_later(f"{bare}/{said.nick}", PRIVATE, "", private=said.sender)
            client.settle(arrival)
            return
        identity, is_old = said.chat, False
        if room is not None:
            is_old = said.when is not None
            if said.nick == room.nick:
                room.note_shown(said.own_id)
                client.settle(arrival)
                return
            if is_old and room.has_archive:
                client.settle(arrival)
                return
            identity = room.identify(said, archived=is_old)
        elif said.when is not None and said.archive_id and adapter.has_archive:
            client.settle(arrival)  # kept for who was offline; it is read from the archive
            return
        archive = said.chat if said.in_room else adapter.jid
        progress = self._progress.setdefault(archive, Progress())
        step = progress.begin(said.archive_id, now())

        async def work() -> None:
            gate = self._gates.setdefault(archive, asyncio.Event())
            await gate.wait()
            await self._take(said, identity)
            client.settle(arrival)
            if (mark := progress.finish(step)) is not None:
                self._move(archive, mark)

        if not self._lanes.put(said.chat, work):
            self._overflowing.set()

    def _move(self, archive: str, mark: Mark) -> None:
        before = self.place.archives.get(archive)
        if not mark.id and before is not None:
            mark.id = before.id
        self.place.archives[archive] = mark

    # What came while nobody was here

    async def _end_of(self, archive: Archive) -> Mark:
        try:
            return await archive.last()
        except RefusedError as error:
            log.warning("The archive of %s cannot be read: %s", archive.jid, error)
            return Mark("", now())

    async def _read_own(self, archive: Archive) -> None:
        gate = self._gates.setdefault(archive.jid, asyncio.Event())
        if self._adapter.has_archive:
            await self._read_missed(archive, None)
        gate.set()

    async def _read_missed(self, archive: Archive, room: Room | None) -> None:
        mark = self.place.archives.get(archive.jid)
        if mark is None:
            return
        try:
            async for page in archive.after(mark):
                for kept in page:
                    await self._take_kept(kept, room)
                    self.place.archives[archive.jid] = Mark(kept.id, _seconds(kept) or now())
        except RefusedError as error:
            log.warning("The archive of %s cannot be read: %s", archive.jid, error)

    async def _take_kept(self, kept: Kept, room: Room | None) -> None:
        me = self._adapter.jid
        if kept.when is not None and kept.when < datetime.now(UTC) - MISSED:
            return
        said = read_message(kept.message, me, archived_as=kept.id, when=kept.when)
        if said is None or said.in_room != (room is not None):
            return
        if room is None:
            # A nickname in a room is nobody, also where the room has left its mark out.
            if not said.is_private and self._adapter.rooms.get(said.chat) is None:
                await self._take(said, said.chat)
        elif said.chat == room.jid:
            if said.nick == room.nick:
                room.note_shown(said.own_id)
            else:
                await self._take(said, room.identify(said, archived=True))

    # Rooms

    async def _keep_rooms(self, client: Client) -> None:
        """Be in every room, and come back into those that have lost us."""
        while True:
            for room in self._adapter.rooms:
                try:
                    if room.nick and not await self._is_in(client, room):
                        room.leave()
                    if not room.nick:
                        await self._enter(client, room)
                except BrokenError as error:
                    if not client.is_connected:
                        raise
                    log.warning("The room %s is tried again: %s", room.jid, error)
            await asyncio.sleep(ROOMS_SECONDS)

    async def _is_in(self, client: Client, room: Room) -> bool:
        try:
            ping = stanzas.element("ping", stanzas.PING)
            await client.ask(f"{room.jid}/{room.nick}", ping)
        except RefusedError as error:
            # Anything else was said by our own client, which the room has reached.
            return error.condition != "not-acceptable"
        return True

    async def _enter(self, client: Client, room: Room) -> None:
        rooms, archive = self._adapter.rooms, Archive(client, room.jid)
        gate = self._gates[room.jid] = asyncio.Event()
        if not await rooms.look(client, room):
            return
        mark, since = self.place.archives.get(room.jid), None
        if mark is None:
            is_kept = room.has_archive
            self.place.archives[room.jid] = (
                await self._end_of(archive) if is_kept else Mark("", now())
            )
            await self.save()
        elif mark.at:
            since = datetime.fromtimestamp(mark.at - CLOCK_SECONDS, UTC)
        if not await rooms.enter(client, room, since):
            return
        if room.has_archive:
            await self._read_missed(archive, room)
        gate.set()

    async def _invited(self, client: Client, jid: str, inviter: str, password: str) -> None:
        adapter = self._adapter
        source = SessionSource(adapter.platform, inviter, user_id=inviter)
        domain = jid.rpartition("@")[2]
        if adapter.rooms.get(jid) or "@" not in jid or not await adapter.host.is_allowed(source):
            return
        try:
            ours = set(await client.services())
            if domain not in ours:
                # Who runs a room says who is in it. Our own server we believe anyhow.
                text = f"I follow no invitation to {domain}; list the room under rooms."
                self._tell_later(inviter, text, inviter)
                return
            room = adapter.rooms.add(jid, password)
            await self._enter(client, room)
        except (BrokenError, RefusedError) as error:
            log.warning("The invitation into %s cannot be followed: %s", jid, error)
            return
        if room.nick and jid not in self.place.invited:
            self.place.invited = [*self.place.invited, jid][-MOST_INVITED:]
        elif not room.nick:
            adapter.rooms.drop(jid)

    # People

    async def _wished(self, client: Client, jid: str) -> None:
        """Somebody wants to see whether we are there."""
        source = SessionSource(self._adapter.platform, jid, user_id=jid)
        if not await self._adapter.host.is_allowed(source):
            if len(self._wishes) < MOST_TOLD:
                self._wishes.add(jid)  # until they are
            return
        self._wishes.discard(jid)
        try:
            client.post(stanzas.presence(jid, "subscribed"))
            client.post(stanzas.presence(jid, "subscribe"))
        except BrokenError:
            pass  # the server tells of it again

    def _tell_later(self, whom: str, text: str, chat: str, *, private: str = "") -> None:
        """Tell somebody why nothing happens; seldom."""
        moment = time.monotonic()
        self._told = {
            name: when for name, when in self._told.items() if moment - when < TELL_AGAIN_SECONDS
        }
        if whom in self._told or len(self._told) >= MOST_TOLD:
            return
        self._told[whom] = moment

        async def tell() -> None:
            adapter = self._adapter
            try:
                if private:
                    name = secrets.token_hex(16)
                    adapter.client.post(stanzas.message(private, "chat", name, text))
                else:
                    await adapter.send(chat, text)
            except (SendError, BrokenError) as error:
                log.info("%s could not be told: %s", whom, error)

        self._adapter.host.spawn(tell())

    # Messages

    async def _take(self, said: Said, identity: str) -> None:
        adapter = self._adapter
        room = adapter.rooms.get(said.chat) if said.in_room else None
        text = said.text
        is_for_us = room is None or not adapter.require_mention
        if room is not None:
            addressed = without_address(text, room.nick or room.wanted)
            is_answer = said.answers_whom == f"{room.jid}/{room.nick}"
            is_for_us = is_for_us or addressed is not None or is_answer
            text = addressed or text
        source = SessionSource(
            adapter.platform,
            said.chat,
            chat_name=said.chat.partition("@")[0] if room is not None else None,
            chat_type="dm" if room is None else "group",
            user_id=identity,
            user_name=(said.nick if room is not None else said.chat.partition("@")[0]) or None,
        )
        event = MessageEvent(
            as_command(text) or text,
            source,
            self._name_of(said, identity),
            reply_to=said.answers or None,
            # Of an edit it is a part of its name, and must be the same from an archive.
            timestamp=None if said.replaces else said.when or datetime.now(UTC),
            is_edit=bool(said.replaces),
            # Clients send each file by itself, and what is said of it in another message.
            split_with="\n" if said.urls else None,
        )
        if not (is_for_us or adapter.host.expects(event)):
            return
        if not identity:
            if said.when is None:
                self._tell_later(said.chat, UNKNOWN, said.chat)
            return
        known = (said.chat, identity, said.name)
        if said.name and known in self._handed:
            return
        if said.is_encrypted:
            await self._tell_encrypted(source)
            return
        if not (event.text or said.urls):
            return
        if not await self._hand_in(event, said):
            return
        if said.name:
            self._handed[known] = None
            while len(self._handed) > REMEMBERED:
                self._handed.popitem(last=False)
        self._confirm(said)

    def _name_of(self, said: Said, identity: str) -> str:
        corrected = said.replaces if is_sure(said.replaces) else ""
        name = corrected or said.name or f"unnamed:{secrets.token_hex(12)}"
        # Nobody can keep somebody else's message from being read by using its id.
        return f"{identity}:{name}" if said.in_room else name

    async def _hand_in(self, event: MessageEvent, said: Said) -> bool:
        """Have a message stored, with its files; False if it never can be."""
        adapter = self._adapter
        if said.urls and await adapter.host.is_allowed(event.source):
            with adapter.host.expecting(event.source):
                await self._fetch(event, said)
                return await hand_in(adapter.on_message, event)
        event.text = event.text or f"[{name_of(said.urls[0])}]"
        return await hand_in(adapter.on_message, event)

    async def _fetch(self, event: MessageEvent, said: Said) -> None:
        """Fetch a message's files; one that cannot be had is named in its text."""
        adapter, pause = self._adapter, FIRST_PAUSE
        # The address of a file is its whole text, where a client knows nothing better.
        event.text = "" if event.text in said.urls else event.text
        whose = str(event.source.user_id) if "#" not in str(event.source.user_id) else ""
        for url in said.urls:
            while True:
                try:
                    path = await fetch_file(
                        adapter.host, said.chat, url, adapter.media_hosts, whose
                    )
                    event.media.append(str(path))
                except (FetchError, MediaTooLargeError) as error:
                    event.unread.append(f"{name_of(url)} could not be fetched: {error}")
                    note = f"[The file {event.unread[-1]}]"
                    event.text = f"{event.text}\n{note}".strip()
                except (StoreError, OSError) as error:
                    # As its message would: nothing counts as read while the store fails.
                    log.warning("A file of %s waits: %s", said.chat, error)
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)
                    continue
                break

    def _confirm(self, said: Said) -> None:
        """Say that a message is stored (XEP-0184), and that they may see us, if they wished to."""
        if said.in_room:
            return
        adapter = self._adapter
        try:
            if said.wants_receipt:
                adapter.client.post(stanzas.receipt(said.sender, said.attribute_id))
            if said.chat in self._wishes:
                adapter.host.spawn(self._wished(adapter.client, said.chat))
        except BrokenError as error:
            log.info("%s gets no receipt: %s", said.sender, error)

    async def _tell_encrypted(self, source: SessionSource) -> None:
        host = self._adapter.host
        is_stranger = not await host.is_allowed(source)
        if is_stranger and (source.chat_type != "dm" or not host.limits.gives_pairing_codes):
            return
        self._tell_later(f"🔒{source.chat_id}", ENCRYPTED, source.chat_id)


def _seconds(kept: Kept) -> int:
    return int(kept.when.timestamp()) if kept.when is not None else 0
