"""Web devices: browsers and phones that come by a key of their own, each a door of its person.

A device is made by a one-time code that its person was given where they are known already. What it
may do stands in its row and came with the code; a client never says it. Of keys and codes only
hashes are kept. A revoked device is gone, so whoever looks its key up at each use lets it in no
longer.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import NamedTuple

from . import link_codes, persons
from .codec import encode_text
from .dialect import Connection, row, rows
from .errors import PersonError
from .link_codes import NoLink
from .owners import Everyone, Owner
from .persons import Person

WEB = "web"
"""The kind of door."""
DEVICE_SCOPES = ("full", "read")
"""What a device may do: whatever its person may, or only look."""
USED_SECONDS = 60.0
"""When a device was last used is written at most this often."""

_DEVICES = (
    "SELECT v.id AS device_id, v.scope, v.made_at, v.used_at, d.name AS device_name,"
    " d.person_id AS door_of, p.* FROM web_devices v"
    " JOIN doors d ON d.kind = 'web' AND d.identifier = v.id"
    " LEFT JOIN persons p ON p.id = d.person_id"
)


class Device(NamedTuple):
    """A browser or phone that may come in."""

    id: str
    name: str
    person: Person
    scope: str
    """One of DEVICE_SCOPES."""
    made_at: float
    used_at: float | None

    @property
    def door(self) -> str:
        """Its name among the doors of its person."""
        return f"{WEB}:{self.id}"


class NewDevice(NamedTuple):
    """A device that was just made."""

    device: Device
    key: str
    """What it shows from now on; it is told once and not kept."""


def offer_device_code(
    conn: Connection, person_id: str, scope: str = "full", *, typed: bool = False
) -> str | None:
    """A code that makes one device of this person; None if they were given too many.

    Without `typed` it has 128 bits and holds two minutes, for an address or a picture; with it
    eight characters and ten minutes, for people to type in. Raises PersonError.
    """
    if persons.get_person(conn, person_id) is None:
        raise PersonError(f"There is no person {person_id!r}. See: hermes people list")
    return link_codes.offer_device(conn, person_id, _known_scope(scope), typed=typed)


def make_device(conn: Connection, code: str, name: str, taker: str) -> NewDevice | NoLink:
    """Let in whoever has a code; it is used up.

    `taker` is where they come from, such as an address: wrong codes that people could guess are
    counted by it.
    """
    offer = link_codes.take_device(conn, code, taker)
    if isinstance(offer, NoLink):
        return offer
    device_id, key = os.urandom(6).hex(), secrets.token_urlsafe(32)
    conn.execute(
        "INSERT INTO web_devices (id, key_hash, scope, made_at) VALUES (?, ?, ?, ?)",
        (device_id, _hash(key), offer.scope, conn.now()),
    )
    persons.add_door(conn, f"{WEB}:{device_id}", offer.owner, _cleaned(name))
    device = find_device(conn, key)
    assert device is not None
    return NewDevice(device, key)


def find_device(conn: Connection, key: str) -> Device | None:
    """The device that has this key; None if there is none, or it was revoked."""
    return _device(row(conn, f"{_DEVICES} WHERE v.key_hash = ?", (_hash(key),)))


def get_device(conn: Connection, device_id: str) -> Device | None:
    """The device of an id; None if there is none, or it was revoked."""
    given = encode_text(device_id, "device_id")
    return _device(row(conn, f"{_DEVICES} WHERE v.id = ?", (given,)))


def list_devices(conn: Connection, owner: Owner) -> list[Device]:
    """The devices of a person, or (EVERYONE) of all, the first one first."""
    condition, values = _of(owner)
    found = rows(conn, f"{_DEVICES} WHERE 1 = 1{condition} ORDER BY v.made_at, v.id", values)
    return [device for kept in found if (device := _device(kept)) is not None]


def note_device_used(conn: Connection, device_id: str) -> None:
    """Remember that a device came in, if that was not written a moment ago."""
    now = conn.now()
    conn.execute(
        "UPDATE web_devices SET used_at = ? WHERE id = ? AND (used_at IS NULL OR used_at < ?)",
        (now, encode_text(device_id, "device_id"), now - USED_SECONDS),
    )


def rename_device(conn: Connection, device_id: str, name: str, owner: Owner) -> bool:
    """Call a device by another name; False if there is none, or it is another's."""
    if not _is_of(conn, device_id, owner):
        return False
    conn.execute(
        "UPDATE doors SET name = ? WHERE kind = 'web' AND identifier = ?",
        (_cleaned(name), encode_text(device_id, "device_id")),
    )
    return True


def revoke_device(conn: Connection, device_id: str, owner: Owner) -> bool:
    """Let a device in no longer; False if there is none, or it is another's."""
    if not _is_of(conn, device_id, owner):
        return False
    given = encode_text(device_id, "device_id")
    conn.execute("DELETE FROM web_devices WHERE id = ?", (given,))
    conn.execute("DELETE FROM doors WHERE kind = 'web' AND identifier = ?", (given,))
    return True


def _is_of(conn: Connection, device_id: str, owner: Owner) -> bool:
    condition, values = _of(owner)
    given = encode_text(device_id, "device_id")
    return row(conn, f"{_DEVICES} WHERE v.id = ?{condition}", (given, *values)) is not None


def _of(owner: Owner) -> tuple[str, tuple[str, ...]]:
    # Other than a row of theirs, a door names its person by their id, also the operator.
    return ("", ()) if isinstance(owner, Everyone) else (" AND d.person_id = ?", (owner,))


def _device(kept: dict[str, object] | None) -> Device | None:
    if kept is None:
        return None
    person = persons.person_of_door(kept, str(kept["door_of"]))
    if person is None:
        return None
    used_at = kept["used_at"]
    assert isinstance(kept["made_at"], float)
    assert used_at is None or isinstance(used_at, float)
    return Device(
        str(kept["device_id"]), str(kept["device_name"] or ""), person, str(kept["scope"]),
        kept["made_at"], used_at,
    )  # fmt: skip


def _known_scope(scope: str) -> str:
    if scope not in DEVICE_SCOPES:
        raise PersonError(f"A device may do one of {', '.join(DEVICE_SCOPES)}, not {scope!r}.")
    return scope


def _cleaned(name: str) -> str:
    printed = "".join(char if char.isprintable() else " " for char in encode_text(name, "") or "")
    return " ".join(printed.split())[: persons.LONGEST_NAME].strip() or "web device"


def _hash(key: str) -> str:
    return hashlib.sha256(f"hermes-device:{key}".encode(errors="surrogatepass")).hexdigest()
