"""The keys of a Matrix device, as matrix-nio asks for them, kept record by record.

Nothing here waits for a disk or a server: what changes is noted, and `flush` writes all of it at
once before anything that depends on it is sent or acknowledged. A session that was used and not
written would be used a second time after a crash, and its receiver could not read that message.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from nio.crypto import (  # type: ignore[import-untyped]
    DeviceStore,
    GroupSessionStore,
    InboundGroupSession,
    OlmAccount,
    OlmDevice,
    OutgoingKeyRequest,
    Session,
    SessionStore,
)

from ..host import Records

ACCOUNT, OLM, GROUP, DEVICE = "account", "olm", "group", "device"
ENCRYPTED, REQUEST, HELD = "encrypted", "request", "held"


def owner_prefix(user_id: str, device_id: str) -> str:
    """How the names of all records of a device begin."""
    return f"{user_id} {device_id} "


def group_record(session: Any) -> dict[str, Any]:
    """A key of a room as it is kept."""
    return {
        "room": session.room_id, "sender_key": session.sender_key, "ed25519": session.ed25519,
        "chain": session.forwarding_chain, "pickle": session.pickle().decode(),
    }  # fmt: skip


def group_name(session: Any) -> str:
    """Under which name, behind the prefix, a key of a room is kept."""
    return f"{GROUP} {session.room_id} {session.sender_key} {session.id}"


def read_group_record(kept: dict[str, Any]) -> Any:
    """The key of a room that was kept."""
    return InboundGroupSession.from_pickle(
        kept["pickle"].encode(), kept["ed25519"], kept["sender_key"], kept["room"], "",
        list(kept["chain"]),
    )  # fmt: skip


class KeyStore:
    """What matrix-nio calls a store: it loads once, and saves each change."""

    def __init__(
        self,
        user_id: str,
        device_id: str,
        records: Records,
        is_trusted: Callable[[Any], bool],
        gives_to_all: bool,
    ) -> None:
        """`is_trusted` says which devices were verified; `gives_to_all` whether the others get the
        keys of our messages too."""
        self._prefix = owner_prefix(user_id, device_id)
        self._records = records
        self._is_trusted = is_trusted
        self._gives_to_all = gives_to_all
        self._pending: dict[str, str | None] = {}
        self._kept: dict[str, dict[str, dict[str, Any]]] = {}
        self._rooms: set[str] = set()
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read what was kept."""
        found = await asyncio.to_thread(self._records.read, self._prefix)
        self._kept = {}
        for name, value in found.items():
            kind, _, rest = name.removeprefix(self._prefix).partition(" ")
            self._kept.setdefault(kind, {})[rest] = json.loads(value)

    @property
    def is_new(self) -> bool:
        """Whether this device has no keys yet."""
        return ACCOUNT not in self._kept

    async def copy_from_earlier(self, user_id: str) -> None:
        """Take over from the account's earlier devices which rooms are encrypted, their keys, and
        the messages that wait for one."""
        found = await asyncio.to_thread(self._records.read, f"{user_id} ")
        for name, value in found.items():
            _, device, kind, rest = [*name.split(" ", 3), "", "", ""][:4]
            if device and kind in (GROUP, ENCRYPTED, HELD):
                self._kept.setdefault(kind, {})[rest] = json.loads(value)
                self._pending[f"{self._prefix}{kind} {rest}"] = value

    async def flush(self) -> None:
        """Write what has changed; raises StoreError if that cannot be, and keeps it."""
        async with self._lock:
            if not self._pending:
                return
            changes, self._pending = self._pending, {}
            try:
                await asyncio.to_thread(self._records.write, changes)
            except BaseException:
                self._pending = {**changes, **self._pending}
                raise

    def put(self, kind: str, name: str, value: dict[str, Any] | None) -> None:
        """Note a record that has changed; None deletes it."""
        text = None if value is None else json.dumps(value)
        self._pending[f"{self._prefix}{kind} {name}"] = text

    def take(self, kind: str) -> dict[str, dict[str, Any]]:
        """The records of a kind as they were when the store was loaded, by name; once."""
        return self._kept.pop(kind, {})

    # What matrix-nio calls

    def load_account(self) -> Any:
        """The device's own keys; None if it has none yet."""
        kept = self.take(ACCOUNT).get("")
        if kept is None:
            return None
        return OlmAccount.from_pickle(kept["pickle"].encode(), "", kept["shared"])

    def save_account(self, account: Any) -> None:
        """The device's own keys have changed."""
        kept = {"pickle": account.pickle().decode(), "shared": account.shared}
        self.put(ACCOUNT, "", kept)

    def load_sessions(self) -> Any:
        """Sessions with single devices."""
        sessions = SessionStore()
        for kept in self.take(OLM).values():
            session = Session.from_pickle(
                kept["pickle"].encode(),
                datetime.fromisoformat(kept["made"]),
                "",
                datetime.fromisoformat(kept["used"]),
            )
            sessions.add(kept["key"], session)
        return sessions

    def save_session(self, curve_key: str, session: Any) -> None:
        """A session with a device was made or used."""
        kept = {
            "key": curve_key,
            "pickle": session.pickle().decode(),
            "made": session.creation_time.isoformat(),
            "used": session.use_time.isoformat(),
        }
        self.put(OLM, f"{curve_key} {session.id}", kept)

    def load_inbound_group_sessions(self) -> Any:
        """The keys of rooms."""
        sessions = GroupSessionStore()
        for kept in self.take(GROUP).values():
            sessions.add(read_group_record(kept))
        return sessions

    def save_inbound_group_session(self, session: Any) -> None:
        """A key of a room has come."""
        kind, _, name = group_name(session).partition(" ")
        self.put(kind, name, group_record(session))

    def load_device_keys(self) -> Any:
        """The devices of others."""
        devices = DeviceStore()
        for kept in self.take(DEVICE).values():
            keys = {"ed25519": kept["ed25519"], "curve25519": kept["curve25519"]}
            devices.add(
                OlmDevice(kept["user"], kept["device"], keys, kept["name"], kept["deleted"])
            )
        return devices

    def save_device_keys(self, changed: dict[str, dict[str, Any]]) -> None:
        """Devices of others came, changed or went."""
        for devices in changed.values():
            for device in devices.values():
                kept = {
                    "user": device.user_id, "device": device.id, "ed25519": device.ed25519,
                    "curve25519": device.curve25519, "name": device.display_name,
                    "deleted": device.deleted,
                }  # fmt: skip
                self.put(DEVICE, f"{device.user_id} {device.id}", kept)

    def load_encrypted_rooms(self) -> set[str]:
        """Rooms that are encrypted: they are for good, whatever a server says later."""
        self._rooms = set(self.take(ENCRYPTED))
        return set(self._rooms)

    def save_encrypted_rooms(self, rooms: Iterable[str]) -> None:
        """Rooms were encrypted."""
        for room_id in set(rooms) - self._rooms:
            self._rooms.add(room_id)
            self.put(ENCRYPTED, room_id, {})

    def load_outgoing_key_requests(self) -> dict[str, Any]:
        """Keys that were asked for."""
        kept = self.take(REQUEST)
        return {name: OutgoingKeyRequest(**fields) for name, fields in kept.items()}

    def add_outgoing_key_request(self, request: Any) -> None:
        """A key was asked for."""
        fields = ("request_id", "session_id", "room_id", "algorithm")
        kept = {name: getattr(request, name) for name in fields}
        self.put(REQUEST, request.request_id, kept)

    def remove_outgoing_key_request(self, request: Any) -> None:
        """A key that was asked for has come."""
        self.put(REQUEST, request.request_id, None)

    def is_device_verified(self, device: Any) -> bool:
        """Whether a device is one of those that were verified."""
        return self._is_trusted(device)

    def is_device_blacklisted(self, device: Any) -> bool:
        """Whether a device gets no keys."""
        return not (self._gives_to_all or self._is_trusted(device))

    def is_device_ignored(self, device: Any) -> bool:
        """Whether a device that was not verified gets keys all the same."""
        return self._gives_to_all

    def ignore_devices(self, devices: list[Any]) -> None:
        """Nothing: the setting says it for all devices."""
