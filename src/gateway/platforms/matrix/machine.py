"""matrix-nio's encryption, with what others send kept from ending the connection.

Anybody on the network may send a device keys and messages that are not what they claim. In
matrix-nio some of that raises out of the request which brought it, and would do so again whenever
the request is repeated. Here it is logged and left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from nio.crypto import Olm  # type: ignore[import-untyped]
from nio.events import Event, MegolmEvent  # type: ignore[import-untyped]
from nio.exceptions import EncryptionError  # type: ignore[import-untyped]
from nio.responses import KeysClaimResponse, KeysQueryResponse  # type: ignore[import-untyped]

log = logging.getLogger(__name__)


class Machine(Olm):
    """The keys of one device, and what is done with them."""

    _message_index_store_size = 10_000
    """How many messages are remembered, to know one that is played again as another."""

    def handle_to_device_event(self, event: Any) -> Any:
        """Take what a device sent to this one; None if it is not understood."""
        try:
            return super().handle_to_device_event(event)
        except Exception:
            # Written by a stranger's client: whatever it raises concerns this one event.
            log.warning("A message between devices was left out", exc_info=True)
            return None

    def _decrypt_megolm_no_error(self, event: Any, room_id: str | None = None) -> None:
        """Nothing: `open` decrypts when the message is handled, and knows what to say of it."""
        return

    def decrypt_megolm_event(self, event: Any, room_id: str | None = None) -> Any:
        """A room's event as it was before it was encrypted; raises EncryptionError."""
        try:
            return super().decrypt_megolm_event(event, room_id)
        except EncryptionError:
            raise
        except Exception as error:
            # What was encrypted is any bytes that somebody in the room chose.
            raise EncryptionError(f"what it holds is not a message: {_name(error)}") from error

    def open(self, room_id: str, source: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """A room's event as it was before it was encrypted, and its key; raises EncryptionError."""
        content = source.get("content")
        algorithm = content.get("algorithm") if isinstance(content, dict) else None
        event = Event.parse_encrypted_event(source) if algorithm else None
        if not isinstance(event, MegolmEvent):
            raise EncryptionError("it is encrypted in a way that is not known here")
        event.room_id = room_id
        opened = self.decrypt_megolm_event(event, room_id)
        session = self.inbound_group_store.get(room_id, event.sender_key, event.session_id)
        return dict(opened.source), session

    def has_key(self, room_id: str, source: Mapping[str, Any]) -> bool:
        """Whether the key of a room's event is here."""
        content = source.get("content") or {}
        key, session = content.get("sender_key"), content.get("session_id")
        if not (isinstance(key, str) and isinstance(session, str)):
            return False
        return self.inbound_group_store.get(room_id, key, session) is not None

    def encrypt_for(self, room_id: str, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """An event encrypted with the key that the room's devices were given."""
        session = self.outbound_group_sessions[room_id]
        payload = {"type": kind, "content": content, "room_id": room_id}
        # Not escaped: it would be three times as long, and no longer fit.
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        sealed: dict[str, Any] = {
            "algorithm": self._megolm_algorithm,
            "sender_key": self.account.identity_keys["curve25519"],
            "ciphertext": session.encrypt(text.encode("utf-8", "replace").decode()),
            "session_id": session.id,
            "device_id": self.device_id,
        }
        if "m.relates_to" in content:  # servers put threads and edits together by it
            sealed["m.relates_to"] = content["m.relates_to"]
        return sealed

    def verify_json(self, json: Any, user_key: Any, user_id: str, device_id: str) -> bool:
        """Whether a key signed something; False also for what is no key and no signature."""
        try:
            return bool(super().verify_json(json, user_key, user_id, device_id))
        except (ValueError, TypeError, AttributeError) as error:
            log.warning("Keys of %s are not what they claim: %s", user_id, _name(error))
            return False

    def create_session(self, one_time_key: str, curve_key: str) -> Any:
        """A session with a device; None if its keys are none."""
        try:
            return super().create_session(one_time_key, curve_key)
        except ValueError as error:
            log.warning("No session could be made with a device: %s", _name(error))
            return None

    def _handle_key_query(self, response: Any) -> None:
        changed: dict[str, Any] = {}
        for user_id, devices in response.device_keys.items():
            one = KeysQueryResponse({user_id: devices}, {})
            try:
                super()._handle_key_query(one)
            except Exception:
                # Another server's answer, about one person: the others' devices still count.
                log.warning("The devices of %s cannot be read", user_id, exc_info=True)
                self.users_for_key_query.discard(user_id)
            changed.update(one.changed)
        response.changed = changed

    def _handle_key_claiming(self, response: Any) -> None:
        for user_id, devices in response.one_time_keys.items():
            for device_id, keys in devices.items():
                claim = KeysClaimResponse({user_id: {device_id: keys}}, {})
                try:
                    super()._handle_key_claiming(claim)
                except Exception:
                    # As above: one device, and whatever its server tells of it.
                    log.warning("A key of %s was left out", user_id, exc_info=True)


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
