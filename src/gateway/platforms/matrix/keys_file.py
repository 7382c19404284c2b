"""The keys of encrypted rooms as a file that other Matrix clients read and write too, and what
there is to know of devices.

A gateway that runs has read the keys already: what is added counts from its next start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .key_store import ACCOUNT, DEVICE, GROUP, group_name, group_record, read_group_record

if TYPE_CHECKING:
    from hermes_state import SessionDB

PLATFORM = "matrix"
ROUNDS = 100_000
"""How hard it is made to guess the passphrase."""


class KeysFileError(ValueError):
    """A file cannot be read, or there is no device for its keys; says what to do."""


class Device(NamedTuple):
    """A device, its own or another's."""

    user_id: str
    device_id: str
    name: str
    key: str
    is_ours: bool


def export_keys(db: SessionDB, path: Path, passphrase: str) -> int:
    """Write all keys of rooms to a file, encrypted; returns how many."""
    from nio.crypto import Olm  # type: ignore[import-untyped]

    sessions = {
        (kept["room"], kept["sender_key"], name.rpartition(" ")[2]): read_group_record(kept)
        for name, kept in _records(db, GROUP)
    }
    Olm.export_keys_static(sessions.values(), str(path), passphrase, ROUNDS)
    path.chmod(0o600)
    return len(sessions)


def import_keys(db: SessionDB, path: Path, passphrase: str) -> tuple[int, int]:
    """Add the keys in a file to those that are kept; returns how many are new, of how many."""
    from nio.crypto import Olm
    from nio.exceptions import EncryptionError  # type: ignore[import-untyped]

    owners = [name.removesuffix(f"{ACCOUNT} ") for name, _ in _records(db, ACCOUNT)]
    if not owners:
        raise KeysFileError(
            "There is no device to add them to. Start the gateway once with Matrix."
        )
    try:
        sessions = Olm.import_keys_static(str(path), passphrase)
    except (EncryptionError, ValueError, IndexError) as error:
        raise KeysFileError(f"{path} cannot be read: {error} Is the passphrase right?") from error
    found = {
        f"{owner}{group_name(session)}": json.dumps(group_record(session))
        for session in sessions
        for owner in owners
    }
    return db.add_platform_records(PLATFORM, found), len(found)


def read_devices(db: SessionDB) -> list[Device]:
    """Our own devices, then those of others."""
    from nio.crypto import OlmAccount

    devices = []
    for name, kept in _records(db, ACCOUNT):
        user_id, device_id, *_ = name.split(" ")
        account = OlmAccount.from_pickle(kept["pickle"].encode())
        key = account.identity_keys["ed25519"]
        devices.append(Device(user_id, device_id, "Hermes", key, True))
    for _, kept in _records(db, DEVICE):
        if not kept["deleted"]:
            devices.append(
                Device(kept["user"], kept["device"], kept["name"], kept["ed25519"], False)
            )
    return list(dict.fromkeys(devices))


def _records(db: SessionDB, wanted: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, value in db.get_platform_records(PLATFORM).items():
        _, _, kind, *_ = [*name.split(" ", 3), "", ""]
        if kind == wanted:
            found.append((name, json.loads(value)))
    return found
