"""People with clients that encrypt: matrix-nio as it is, which shares no keys with the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import nio
from nio.store import SqliteMemoryStore

from .synapse import Person, Synapse, shown_in

ENCRYPTED = {
    "type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"},
}  # fmt: skip


class Client:
    """One device of a person, which reads as long as it is used."""

    def __init__(self, server: Synapse, person: Person) -> None:
        config = nio.AsyncClientConfig(store=SqliteMemoryStore, encryption_enabled=True)
        self.person = person
        self.nio = nio.AsyncClient(server.url, person.user_id, config=config)
        self._changed = asyncio.Event()
        self._members: dict[str, set[str]] = {}
        self.events: dict[str, list[dict[str, Any]]] = {}

    async def log_in(self) -> None:
        answer = await self.nio.login(self.person.password)
        assert isinstance(answer, nio.LoginResponse), answer
        await self.nio.keys_upload()

    async def read(self) -> None:
        """Read for good."""
        while True:
            answer = await self.nio.sync(5000, full_state=not self.nio.rooms)
            assert isinstance(answer, nio.SyncResponse), answer
            if self.nio.should_upload_keys:
                await self.nio.keys_upload()
            if self.nio.should_query_keys:
                await self.nio.keys_query()
            for room_id, info in answer.rooms.join.items():
                for event in info.timeline.events:
                    self.events.setdefault(room_id, []).append({
                        **event.source, "is_open": not isinstance(event, nio.MegolmEvent),
                        "was_encrypted": event.decrypted,
                    })  # fmt: skip
            self._changed.set()

    async def room(self, *invited: Person, **more: Any) -> str:
        """An encrypted room, as a client makes a direct chat."""
        body = {"is_direct": True, "initial_state": [ENCRYPTED], **more}
        room = await self.person.room(*invited, **{"direct": body.pop("is_direct"), **body})
        self._members[room] = {self.person.user_id, *(one.user_id for one in invited)}
        return room

    async def put(self, room_id: str, content: dict[str, Any]) -> str:
        """Send something, encrypted for all devices in the room."""
        await self.until(lambda: self._is_ready(room_id))
        answer = await self.nio.room_send(
            room_id, "m.room.message", content, ignore_unverified_devices=True
        )
        assert isinstance(answer, nio.RoomSendResponse), answer
        return str(answer.event_id)

    def _is_ready(self, room_id: str) -> bool:
        """Whether it is known whom to encrypt for: everybody who was invited is there."""
        room, machine = self.nio.rooms.get(room_id), self.nio.olm
        if room is None or not room.encrypted or room.invited_users:
            return False
        members = self._members.get(room_id, set())
        return members <= set(room.users) and machine.tracked_users >= set(room.users)

    async def say(self, room_id: str, text: str, **more: Any) -> str:
        """Write something."""
        return await self.put(room_id, {"msgtype": "m.text", "body": text, **more})

    def keep_key(self, room_id: str) -> dict[str, Any]:
        """Begin a key for a room and give it to nobody; what it is, for `give_key`."""
        machine = self.nio.olm
        machine.create_outbound_group_session(room_id)
        session = machine.outbound_group_sessions[room_id]
        session.shared = True
        return {
            "algorithm": "m.megolm.v1.aes-sha2", "room_id": room_id, "session_id": session.id,
            "session_key": session.session_key,
        }  # fmt: skip

    async def give_key(self, person: Person, key: dict[str, Any]) -> None:
        """Give a key to the devices of somebody."""
        machine = self.nio.olm
        for device in machine.device_store.active_user_devices(person.user_id):
            session = machine.session_store.get(device.curve25519)
            content = machine._olm_encrypt(session, device, "m.room_key", key)
            await self.person.call(
                "PUT", f"sendToDevice/m.room.encrypted/{uuid.uuid4().hex}",
                {"messages": {person.user_id: {device.id: content}}},
            )  # fmt: skip

    def shown(self, room_id: str, by: str) -> list[dict[str, Any]]:
        """What somebody's messages say now; what cannot be opened is not there."""
        found = [event for event in self.events.get(room_id, []) if event["is_open"]]
        return shown_in(found, by)

    def texts(self, room_id: str, by: str) -> list[str]:
        """Only what they say."""
        return [one["content"]["body"] for one in self.shown(room_id, by)]

    async def wait_for(self, room_id: str, by: str, fits: Callable[[list[str]], bool]) -> list[str]:
        """Wait until what somebody's messages say is as wished."""
        await self.until(lambda: fits(self.texts(room_id, by)), lambda: self.texts(room_id, by))
        return self.texts(room_id, by)

    async def until(
        self, fits: Callable[[], bool], shown: Callable[[], Any] = lambda: None
    ) -> None:
        try:
            async with asyncio.timeout(60):
                while not fits():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"It shows {shown()}") from None


@asynccontextmanager
async def client_of(server: Synapse, person: Person) -> AsyncIterator[Client]:
    """A new device of a person, logged in and reading."""
    client = Client(server, person)
    await client.log_in()
    reading = asyncio.create_task(client.read())
    try:
        yield client
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
        await client.nio.close()
