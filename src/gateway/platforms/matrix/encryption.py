"""End-to-end encryption: the keys of this device, messages sealed and opened, and those that wait
for their key.

The device and its keys belong to the account, not to a machine: they are kept in the store, and
whichever gateway holds the platform goes on with them. What changed is written before it is relied
on: before a key is sent to anybody, and before a batch counts as read.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError

from ..base import SendError
from .cross_signing import Identity, signed_devices
from .events import UnreadableError
from .key_store import HELD, KeyStore
from .machine import Machine

if TYPE_CHECKING:
    import nio  # type: ignore[import-untyped]

    from ..host import Records
    from .adapter import MatrixAdapter

log = logging.getLogger(__name__)

KEY_SECONDS = 10.0
"""How long a message waits for its key before its sender is told: it often comes right after."""
HELD_SECONDS = 30 * 86_400.0
MOST_HELD = 500


class ForeignKeysError(Exception):
    """The server has keys for this device that are not ours."""


@dataclass(slots=True)
class Held:
    """A message whose key has not come."""

    room_id: str
    source: dict[str, Any]
    since: float
    told: bool = False

    @property
    def event_id(self) -> str:
        """The message's id."""
        return str(self.source.get("event_id"))


class Encryption:
    """The encryption of one connected device.

    `is_strict`: nothing is read from devices that were not verified, and they get no keys.
    """

    def __init__(
        self,
        adapter: MatrixAdapter,
        client: nio.AsyncClient,
        records: Records,
        is_strict: bool,
        verified_keys: Iterable[str],
    ) -> None:
        self._adapter, self._client, self._records = adapter, client, records
        self._verified_keys = frozenset(key.strip().rstrip("=") for key in verified_keys)
        self._signed: set[tuple[str, str, str]] = set()
        """Devices that a verified person has signed: person, device, key."""
        self.is_strict = is_strict
        self._store = KeyStore(
            client.user_id, client.device_id, records, self.is_trusted, not self.is_strict
        )
        self._machine: Machine
        self.held: dict[str, Held] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    # The device

    async def start(self, password: str) -> None:
        """Load the keys, or make them, and have the server know them."""
        client = self._client
        await self._store.load()
        if self._store.is_new:
            await self._store.copy_from_earlier(client.user_id)
        kept_held = self._store.take(HELD)
        machine = Machine(client.user_id, client.device_id, self._store)
        self._machine = client.olm = machine
        client.store = self._store
        client.encrypted_rooms = self._store.load_encrypted_rooms()
        self.held = {event_id: Held(**fields) for event_id, fields in kept_held.items()}
        answer = await self._query([client.user_id])
        listed = answer.get("device_keys", {}).get(client.user_id, {}).get(client.device_id)
        own = machine.account.identity_keys["ed25519"]
        if listed is not None and listed["keys"].get(f"ed25519:{client.device_id}") != own:
            raise ForeignKeysError
        if listed is None:
            machine.account.shared = False  # also one that was removed from the server
        if machine.should_upload_keys:
            await self._upload_keys()
        await self._sign_device(answer, password)
        await self.flush()

    async def flush(self) -> None:
        """Write what has changed."""
        await self._store.flush()

    def is_trusted(self, device: Any) -> bool:
        """Whether a device was verified: by its own key, or by that of the person who signed it."""
        key = device.ed25519
        return key in self._verified_keys or (device.user_id, device.id, key) in self._signed

    async def _upload_keys(self) -> None:
        import nio

        keys = self._machine.share_keys()
        self._machine.save_account()
        await self.flush()  # the server gives them to others at once
        answer = await self._post("keys/upload", keys)
        counts = answer.get("one_time_key_counts", {})
        self._machine.handle_response(
            nio.KeysUploadResponse(
                int(counts.get("curve25519", 0)), int(counts.get("signed_curve25519", 0))
            )
        )
        await self.flush()

    async def _sign_device(self, answer: dict[str, Any], password: str) -> None:
        """Have the account's identity sign this device; without one, make it."""
        client, name = self._client, f"{self._client.user_id} identity"
        kept = (await asyncio.to_thread(self._records.read, name)).get(name)
        known = answer.get("master_keys", {}).get(client.user_id, {}).get("keys", {})
        identity = Identity(client.user_id, json.loads(kept) if kept else None)
        if identity.public("master") not in known.values():
            if known:
                own_key = self._machine.account.identity_keys["ed25519"]
                log.warning(
                    "The Matrix account %s has an identity that was made elsewhere, so its device"
                    " %s (key %s) is not signed. Verify it in the client in which that was made.",
                    client.user_id, client.device_id, own_key,
                )  # fmt: skip
                return
            if not kept:
                await asyncio.to_thread(self._records.write, {name: json.dumps(identity.seeds)})
            if not await self._upload_identity(identity, password):
                return
        device = (await self._query([client.user_id])).get("device_keys", {})
        own = device.get(client.user_id, {}).get(client.device_id)
        signing = f"ed25519:{identity.public('self_signing')}"
        if own is None or signing in own.get("signatures", {}).get(client.user_id, {}):
            return
        signed = {client.user_id: {client.device_id: identity.sign_device(own)}}
        failures = (await self._post("keys/signatures/upload", signed)).get("failures")
        if failures:
            log.warning("The device could not be signed: %s", failures)

    async def _upload_identity(self, identity: Identity, password: str) -> bool:
        keys = identity.uploaded()
        status, answer = await self._adapter.request("POST", "keys/device_signing/upload", keys)
        if status == 401 and password and "session" in answer:
            keys["auth"] = {
                "type": "m.login.password", "session": answer["session"], "password": password,
                "identifier": {"type": "m.id.user", "user": self._client.user_id},
            }  # fmt: skip
            status, answer = await self._adapter.request("POST", "keys/device_signing/upload", keys)
        if status == 200:
            return True
        log.warning(
            "The Matrix account has no identity that could sign its device: %s. Other clients show"
            " it as not verified.", answer.get("error") or answer,
        )  # fmt: skip
        return False

    # Reading

    async def after_sync(self, response: nio.SyncResponse) -> None:
        """Do what a batch asks for: new keys for the server, devices that changed, sessions."""
        import nio

        client, machine = self._client, self._machine
        count = response.device_key_count.signed_curve25519
        if count is not None:
            machine.uploaded_key_count = count  # matrix-nio overlooks that there are none left
        await self.flush()
        if machine.should_upload_keys:
            await self._upload_keys()
        if machine.users_for_key_query:
            await self._query(sorted(machine.users_for_key_query))
        if machine.wedged_devices or machine.key_request_devices_no_session:
            answer = await self._adapter.ask(
                client.keys_claim(machine.get_users_for_key_claiming())
            )
            if isinstance(answer, nio.ErrorResponse):
                log.warning("Keys of devices cannot be had: %s", answer)
            await self.flush()
        for message in list(machine.outgoing_to_device_messages):
            await self.flush()
            answer = await self._adapter.ask(client.to_device(message))
            if isinstance(answer, nio.ErrorResponse):
                log.warning("A device could not be sent something: %s", answer)
                break
        await self.flush()

    async def open(self, room_id: str, source: Mapping[str, Any]) -> dict[str, Any]:
        """An event as it was before it was encrypted. Raises UnreadableError."""
        from nio.exceptions import EncryptionError  # type: ignore[import-untyped]

        try:
            opened, session = self._machine.open(room_id, dict(source))
        except EncryptionError as error:
            lacks_key = not self._machine.has_key(room_id, source)
            raise UnreadableError(str(error), lacks_key=lacks_key) from error
        if opened.get("type") == "m.room.encrypted":
            raise UnreadableError("it is encrypted twice")
        sender = str(source.get("sender"))
        device = self._device_of(sender, session)
        if device is None and sender != self._client.user_id:
            await self._query([sender])  # a device that is newer than what we know
            device = self._device_of(sender, session)
            if device is None:
                raise UnreadableError(f"its key belongs to no device of {sender}")
        if self.is_strict and device is not None and not self.is_trusted(device):
            raise UnreadableError(
                f"the device {device.id} of {sender} is not verified; its key is {device.ed25519}"
            )
        return opened

    def _device_of(self, user_id: str, session: Any) -> Any:
        """Whose key it is; also a device that was removed since."""
        for device in self._machine.device_store[user_id].values():
            if (device.curve25519, device.ed25519) == (session.sender_key, session.ed25519):
                return device
        return None

    # Messages that wait for their key

    def hold(self, room_id: str, source: Mapping[str, Any]) -> None:
        """Keep a message until its key comes."""
        held = Held(room_id, dict(source), time.time())
        if held.event_id in self.held:
            return
        for earlier in sorted(self.held.values(), key=lambda held: held.since):
            is_old = time.time() - earlier.since > HELD_SECONDS
            if not is_old and len(self.held) < MOST_HELD:
                break
            log.warning("The key of %s has not come; it is given up", earlier.event_id)
            self.release(earlier)
        self._keep(held)

    def release(self, held: Held) -> None:
        """A message has been handled, or is given up."""
        self.held.pop(held.event_id, None)
        self._store.put(HELD, held.event_id, None)

    def with_key(self) -> list[Held]:
        """The messages whose keys are here by now, oldest first."""
        found = [held for held in self.held.values() if self._has_key(held)]
        return sorted(found, key=lambda held: held.since)

    def _has_key(self, held: Held) -> bool:
        return self._machine.has_key(held.room_id, held.source)

    def to_tell(self) -> list[Held]:
        """One message for each room in which something cannot be read and nobody was told."""
        told = {held.room_id for held in self.held.values() if held.told}
        first: dict[str, Held] = {}
        for held in self.held.values():
            if held.room_id not in told and time.time() - held.since >= KEY_SECONDS:
                first.setdefault(held.room_id, held)
        return list(first.values())

    def note_told(self, held: Held) -> None:
        """Its sender knows that it cannot be read."""
        held.told = True
        self._keep(held)

    def _keep(self, held: Held) -> None:
        self.held[held.event_id] = held
        self._store.put(HELD, held.event_id, asdict(held))

    @property
    def next_telling(self) -> float | None:
        """In how many seconds somebody is to be told; None if nobody."""
        told = {held.room_id for held in self.held.values() if held.told}
        waiting = [held.since for held in self.held.values() if held.room_id not in told]
        return max(0.0, min(waiting) + KEY_SECONDS - time.time()) if waiting else None

    # Writing

    def note_encrypted(self, room_id: str) -> None:
        """A room is encrypted, and stays so whatever its server says later."""
        self._client.encrypted_rooms.add(room_id)
        self._store.save_encrypted_rooms([room_id])

    async def seal(
        self, room_id: str, kind: str, content: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """An event as it is sent into an encrypted room. Raises SendError."""
        if kind == "m.reaction":
            return kind, content  # servers count reactions, and cannot if they are encrypted
        lock = self._locks.setdefault(room_id, asyncio.Lock())
        async with lock:
            try:
                await self._share_key(room_id)
                sealed = self._machine.encrypt_for(room_id, kind, content)
            except StoreError as error:
                raise SendError(f"The keys of {room_id} cannot be kept: {error}") from error
        return "m.room.encrypted", sealed

    async def _share_key(self, room_id: str) -> None:
        """Give the devices in a room the key of what is written next."""
        import nio

        client, machine = self._client, self._machine
        room = client.rooms.get(room_id)
        if room is None:
            raise SendError(f"Who is in {room_id} is not known yet")
        if not room.members_synced:
            members = await self._adapter.ask(client.joined_members(room_id))
            if isinstance(members, nio.ErrorResponse):
                raise SendError(str(members))
        if machine.users_for_key_query:
            await self._query(sorted(machine.users_for_key_query))
        if not machine.should_share_group_session(room_id):
            return
        missing = machine.get_missing_sessions(list(room.users))
        if missing:
            await self._adapter.ask(client.keys_claim(missing))
        users = list(room.users)
        shares = list(machine.share_group_session_parallel(room_id, users, True))
        await self.flush()
        for devices, messages in shares:
            number = hashlib.sha256(json.dumps(messages).encode()).hexdigest()[:40]
            request = nio.Api.to_device(client.access_token, "m.room.encrypted", messages, number)
            answer = await self._adapter.ask(
                client._send(nio.ShareGroupSessionResponse, *request, (room_id, devices))
            )
            if isinstance(answer, nio.ErrorResponse):
                wait = answer.retry_after_ms
                raise SendError(
                    f"The key of {room_id} could not be given to its devices: {answer}",
                    retry_after=wait / 1000 if wait else None,
                )
        machine.outbound_group_sessions[room_id].shared = True

    # Requests

    async def _query(self, users: list[str]) -> dict[str, Any]:
        """Ask for the devices of people, and take them over."""
        import nio

        answer = await self._post("keys/query", {"device_keys": {user: [] for user in users}})
        for user_id in users:
            devices = answer.get("device_keys", {}).get(user_id, {})
            response = nio.KeysQueryResponse.from_dict({"device_keys": {user_id: devices}})
            if isinstance(response, nio.KeysQueryResponse):
                self._client._handle_olm_response(response)
            else:
                log.warning("The devices of %s cannot be read: %s", user_id, response)
            self._machine.users_for_key_query.discard(user_id)
            self._machine.tracked_users.add(user_id)
            master = answer.get("master_keys", {}).get(user_id, {}).get("keys", {})
            for key in self._verified_keys.intersection(map(str, master.values())):
                signed = signed_devices(user_id, answer, key, self._machine.verify_json)
                self._signed.update((user_id, device, own) for device, own in signed.items())
        await self.flush()
        return answer

    async def _post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        status, answer = await self._adapter.request("POST", path, content)
        if status != 200:
            raise ConnectionError(f"{path}: {answer.get('error') or status}")
        return answer
