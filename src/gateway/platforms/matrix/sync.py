"""Reading a Matrix account: batch after batch, each kept as read only when all of it is stored.

A batch that leaves events out (there were too many) is completed from the room's history. Rooms
are joined when somebody who may talk invites; whatever came after the invitation is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError

from ...session import SessionSource
from ..base import MessageEvent, SendError
from ..typed import as_command
from .events import (
    Incoming,
    UnreadableError,
    is_addressed,
    membership_change,
    read_event,
    without_address,
)
from .media import MediaError, fetch
from .state import Place

if TYPE_CHECKING:
    import nio  # type: ignore[import-untyped]

    from .adapter import MatrixAdapter
    from .encryption import Encryption

log = logging.getLogger(__name__)

POLL_MS = 30_000
SYNC_SECONDS = 180.0
"""After which a server that says nothing counts as gone; the first batch may be large."""
PAGE = 100
MOST_PAGES = 100
"""How much of one room's history completes a batch: 10,000 events."""
JOIN_ATTEMPTS = 20
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
ATTEMPTS = 3
"""At a message that cannot be stored although the store is well."""
_TIMELINE = {
    "limit": PAGE,
    "types": ["m.room.message", "m.room.encrypted", "m.room.member", "m.room.encryption"],
}
_STATE = [
    "m.room.member", "m.room.name", "m.room.canonical_alias", "m.room.create", "m.room.encryption",
]  # fmt: skip
FILTER: dict[str, Any] = {
    "presence": {"types": []},
    "account_data": {"types": []},
    "room": {
        "timeline": _TIMELINE,
        "state": {"types": _STATE},
        "ephemeral": {"types": []},
        "account_data": {"types": []},
    },
}
NO_KEY = (
    "🔒 A message of yours cannot be read here: its key has not come. It is answered when the key"
    " comes; or write it once more."
)
UNREADABLE = "🔒 A message of yours cannot be read here. Please write it once more."


class Reader:
    """Hands the events of an account in, in order."""

    def __init__(self, adapter: MatrixAdapter, client: nio.AsyncClient, place: Place) -> None:
        self._adapter = adapter
        self._client = client
        self._place = place
        self._unreadable: set[str] = set()
        """Rooms that were told of a message for which no key will come."""

    async def run(self) -> None:
        """Read until cancelled; raises when the server cannot be reached."""
        from nio import SyncResponse

        self._client.next_batch = ""
        for number in itertools.count():
            # Who is in which room is known to the client only from the first batch. A server may
            # take that from a cache, so the second, which waits for nothing, brings it up to date.
            async with asyncio.timeout(SYNC_SECONDS):
                response = await self._adapter.ask(
                    self._client.sync(
                        self._poll_ms() if number > 1 else 0,
                        FILTER,
                        since=self._place.since or None,
                        full_state=number == 0,
                    )
                )
            if not isinstance(response, SyncResponse):
                raise ConnectionError(f"Matrix: {response}")
            encryption = self._adapter.encryption
            if encryption is not None:
                await encryption.after_sync(response)
            if number > 0:
                self._adapter.rooms_known.set()
            await self._take(response)
            if encryption is not None:
                await self._take_held(encryption)

    def _poll_ms(self) -> int:
        encryption = self._adapter.encryption
        wait = None if encryption is None else encryption.next_telling
        return POLL_MS if wait is None else min(POLL_MS, int(wait * 1000) + 1)

    async def _take(self, response: nio.SyncResponse) -> None:
        place = self._place
        before = (place.since, {room: dict(facts) for room, facts in place.invites.items()})
        for room_id, invited in response.rooms.invite.items():
            self._invited(room_id, invited.invite_state)
        for room_id in (*response.rooms.leave, *response.rooms.join):
            place.invites.pop(room_id, None)
        if place.since:  # else everything is older than we are
            for room_id, info in response.rooms.join.items():
                for source in await self._events(room_id, info.timeline):
                    await self._event(room_id, source)
        await self._join_invited()
        place.since = response.next_batch
        if self._adapter.encryption is not None:
            await self._adapter.encryption.flush()
        if (place.since, place.invites) != before:
            await asyncio.to_thread(self._adapter.keep, place)

    # Rooms

    def _invited(self, room_id: str, state: list[Any]) -> None:
        from nio import InviteMemberEvent

        for event in state:
            if not isinstance(event, InviteMemberEvent) or event.membership != "invite":
                continue
            if event.state_key == self._adapter.user_id:
                direct = event.content.get("is_direct") is True
                self._place.invites[room_id] = {
                    "by": event.sender, "direct": direct, "attempts": 0,
                }  # fmt: skip

    async def _join_invited(self) -> None:
        from nio import JoinResponse

        for room_id, facts in list(self._place.invites.items()):
            inviter = str(facts.get("by"))
            # A stranger's direct chat is where they are given their code.
            if not await self._adapter.may_talk(inviter) and not (
                facts.get("direct") and self._adapter.host.limits.gives_pairing_codes
            ):
                log.info("%s invites into %s and is not known; not joined", inviter, room_id)
                del self._place.invites[room_id]
                continue
            answer = await self._adapter.ask(self._client.join(room_id))
            if isinstance(answer, JoinResponse):
                del self._place.invites[room_id]
                continue
            facts["attempts"] = int(facts.get("attempts") or 0) + 1
            log.warning("%s could not be joined: %s", room_id, answer)
            gone = answer.status_code in ("M_FORBIDDEN", "M_NOT_FOUND")
            if gone or facts["attempts"] >= JOIN_ATTEMPTS:
                del self._place.invites[room_id]

    async def _events(self, room_id: str, timeline: Any) -> list[Mapping[str, Any]]:
        """What happened in a room since the last batch, oldest first, as far as it concerns us."""
        events = [event.source for event in timeline.events]
        token = timeline.prev_batch if timeline.limited else None
        for _ in range(MOST_PAGES):
            if not token or self._joined_at(events) is not None:
                break
            page = await self._earlier(room_id, token)
            events[:0] = [event.source for event in reversed(page.chunk)]
            token = page.end if page.end != token else None
        else:
            log.error("%s has more events than were read; the oldest are left out", room_id)
        joined = self._joined_at(events)
        if joined is None:
            return events
        changes = [membership_change(event, self._adapter.user_id) for event in events[:joined]]
        invited = [number for number, change in enumerate(changes) if change == "invite"]
        return events[invited[-1] :] if invited else events[joined:]

    def _joined_at(self, events: list[Mapping[str, Any]]) -> int | None:
        me = self._adapter.user_id
        numbers = [n for n, event in enumerate(events) if membership_change(event, me) == "join"]
        return numbers[-1] if numbers else None

    async def _earlier(self, room_id: str, token: str) -> Any:
        from nio import MessageDirection, RoomMessagesResponse

        answer = await self._adapter.ask(
            self._client.room_messages(
                room_id, token, self._place.since, MessageDirection.back, PAGE, _TIMELINE
            )
        )
        if not isinstance(answer, RoomMessagesResponse):
            raise ConnectionError(f"The history of {room_id} cannot be read: {answer}")
        return answer

    # Messages

    async def _event(self, room_id: str, source: Mapping[str, Any]) -> None:
        incoming = read_event(source)
        if incoming is None or incoming.sender == self._adapter.user_id:
            return
        if incoming.encrypted:
            opened = await self._open(room_id, source, incoming.sender)
            incoming = read_event(opened) if opened is not None else None
            if incoming is None:
                return
        elif not self._may_be_plain(room_id, incoming):
            return
        if incoming.replaces is not None and not await self._follow_original(room_id, incoming):
            return
        room = self._client.rooms.get(room_id)
        is_direct = room is not None and self._is_direct(room, incoming.sender)
        if not is_direct and not await self._is_for_us(room_id, incoming):
            return
        names = (self._adapter.user_id, *self._adapter.names)
        text = incoming.text if is_direct else without_address(incoming.text, names)
        chat = SessionSource(
            self._adapter.platform,
            room_id,
            chat_name=room.display_name if room else None,
            chat_type="dm" if is_direct else "group",
            user_id=incoming.sender,
            user_name=(room.user_name(incoming.sender) if room else None) or incoming.sender,
            thread_id=incoming.thread_id,
        )
        with self._adapter.expecting(chat, incoming.attachment is not None):
            text, media, unread = await self._with_file(room_id, as_command(text) or text, incoming)
            await self._hand_in(
                MessageEvent(
                    text,
                    chat,
                    incoming.replaces or incoming.event_id,  # what people see, and react to
                    media,
                    unread,
                    reply_to=incoming.reply_to,
                    timestamp=incoming.timestamp,
                    is_edit=incoming.replaces is not None,
                    # Clients send each of several files, and what is said of them, by itself.
                    split_with="\n" if incoming.attachment is not None else None,
                    raw=source,
                )
            )

    async def _hand_in(self, event: MessageEvent) -> None:
        """Have a message stored, however long the store takes to be well again."""
        pause = FIRST_PAUSE
        for attempt in itertools.count(1):
            try:
                await self._adapter.on_message(event)
                return
            except Exception as error:
                # A fault that only this one message meets must not keep all others out.
                passing = isinstance(error, StoreError | OSError)
                if attempt >= ATTEMPTS and (not passing or isinstance(error, ValueError)):
                    log.exception("%s is given up", event.message_id)
                    return
                log.warning("%s waits: %s", event.message_id, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _is_direct(self, room: nio.MatrixRoom, sender: str) -> bool:
        """Whether two people are alone, and the other is who it was from the beginning.

        Rooms outlive their members: whoever takes another's place does not get their history.
        """
        if len(room.users) > 2:
            return False
        return self._place.partners.setdefault(room.room_id, sender) == sender

    async def _is_for_us(self, room_id: str, incoming: Incoming) -> bool:
        adapter = self._adapter
        if not adapter.require_mention or is_addressed(incoming, adapter.user_id, adapter.names):
            return True
        if as_command(incoming.text) is not None:
            return True
        if incoming.reply_to is None:
            return False
        answered = await self._original(room_id, incoming.reply_to)
        return answered.get("sender") == adapter.user_id

    async def _follow_original(self, room_id: str, incoming: Incoming) -> bool:
        """Put an edit where its message was; False if it is not its writer's."""
        original = await self._original(room_id, str(incoming.replaces))
        if original.get("sender") not in (None, incoming.sender):
            return False
        first = read_event(original)
        if first is not None:
            incoming.thread_id, incoming.reply_to = first.thread_id, first.reply_to
        return True

    async def _original(self, room_id: str, event_id: str) -> Mapping[str, Any]:
        from nio import RoomGetEventResponse

        answer = await self._adapter.ask(self._client.room_get_event(room_id, event_id))
        if not isinstance(answer, RoomGetEventResponse):
            return {}
        source: Mapping[str, Any] = answer.event.source
        if source.get("type") == "m.room.encrypted" and self._adapter.encryption is not None:
            with contextlib.suppress(UnreadableError):  # who wrote it, and where, is told openly
                return await self._adapter.encryption.open(room_id, source)
        return source

    async def _with_file(
        self, room_id: str, text: str, incoming: Incoming
    ) -> tuple[str, list[str], list[str]]:
        attachment = incoming.attachment
        if attachment is None or not await self._adapter.may_talk(incoming.sender):
            return text, [], []
        adapter, pause = self._adapter, FIRST_PAUSE
        while True:
            try:
                path = await fetch(
                    adapter.homeserver,
                    self._client.access_token,
                    attachment,
                    adapter.host,
                    room_id,
                )
            except MediaError as error:
                log.warning("A file was left out: %s", error)
                return f"{text}\n[The file {error}.]".strip(), [], [str(error)]
            except StoreError as error:
                # As its message would: nothing is acknowledged while the store fails.
                log.warning("%s waits for its file: %s", incoming.event_id, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return text, [str(path)], []

    # Encryption

    async def _open(
        self, room_id: str, source: Mapping[str, Any], sender: str
    ) -> Mapping[str, Any] | None:
        """An encrypted event as it was written; None if it cannot be read, now or at all."""
        encryption = self._adapter.encryption
        if encryption is None:
            log.warning("%s is encrypted, and platforms.matrix.encryption is off", room_id)
            return None
        try:
            return await encryption.open(room_id, source)
        except UnreadableError as error:
            if not await self._adapter.may_talk(sender):
                return None
            log.warning("A message of %s in %s cannot be read: %s", sender, room_id, error)
            if error.lacks_key:
                encryption.hold(room_id, source)
            elif not encryption.is_strict and room_id not in self._unreadable:
                self._unreadable.add(room_id)
                await self._tell(room_id, source, UNREADABLE)
            return None

    def _may_be_plain(self, room_id: str, incoming: Incoming) -> bool:
        """Whether a message counts that is not encrypted: where only verified devices do, one in an
        encrypted room could be anybody's."""
        encryption, room = self._adapter.encryption, self._client.rooms.get(room_id)
        if encryption is None or not encryption.is_strict or room is None or not room.encrypted:
            return True
        log.warning("A message in %s is not encrypted; it is left out", room_id)
        return False

    async def _take_held(self, encryption: Encryption) -> None:
        """Handle messages whose keys have come, and tell whoever waits for one that does not."""
        for held in encryption.with_key():
            await self._event(held.room_id, held.source)
            encryption.release(held)
        for held in encryption.to_tell():
            if await self._tell(held.room_id, held.source, NO_KEY):
                encryption.note_told(held)
        await encryption.flush()

    async def _tell(self, room_id: str, source: Mapping[str, Any], text: str) -> bool:
        """Say something of a message that cannot be read; False if it could not be said."""
        room, sender = self._client.rooms.get(room_id), str(source.get("sender"))
        is_ours = room is not None and self._is_direct(room, sender)
        if self._adapter.require_mention and not is_ours:
            return True  # among several people, nobody knows whom it was for
        try:
            await self._adapter.send(room_id, text, key=f"unreadable:{source.get('event_id')}")
        except SendError as error:
            log.warning("%s could not be told of a message: %s", sender, error)
            return error.permanent
        return True
