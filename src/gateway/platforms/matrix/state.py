"""What the Matrix adapter keeps: who it is logged in as, and how far it has read.

In files of the home; where several gateways share a store, there, for whoever is connected next.

The place in the stream of events is written only after everything before it was stored, and is
flushed to the disk before it takes the old one's place: at worst events come again.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hermes_base.files import write_private

from ..host import Shelf

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Login:
    """An access token that a password was exchanged for."""

    homeserver: str
    user_id: str
    device_id: str
    access_token: str = field(repr=False)


@dataclass(slots=True)
class Place:
    """How far an account has been read."""

    homeserver: str = ""
    user_id: str = ""
    since: str = ""
    """Empty before the first sync."""
    invites: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Rooms that could not be joined yet: who invites, and how often it was tried."""
    partners: dict[str, str] = field(default_factory=dict)
    """With whom a room is a direct chat."""


class MatrixState:
    """Two private files in `<home>/gateway`, or what the shared store keeps instead."""

    def __init__(self, home: Path, shelf: Shelf | None = None) -> None:
        self._login = home / "gateway" / "matrix-login.json"
        self._place = home / "gateway" / "matrix-sync.json"
        self._shelf = shelf

    def login(self, homeserver: str, user_id: str) -> Login | None:
        """The kept login of an account; `user_id` may be the part before the colon."""
        fields = self._read(self._login)
        try:
            kept = Login(**fields)
        except TypeError:
            return None
        local = kept.user_id.removeprefix("@").partition(":")[0]
        fits = user_id in (kept.user_id, local) and kept.homeserver == homeserver
        return kept if fits else None

    def keep_login(self, login: Login) -> None:
        """Keep a login, readable by its owner alone."""
        self._write(self._login, asdict(login))

    def place(self, homeserver: str, user_id: str) -> Place:
        """Where reading goes on; at the present if this account was never read."""
        try:
            kept = Place(**self._read(self._place))
        except TypeError:
            kept = Place()
        if (kept.homeserver, kept.user_id) == (homeserver, user_id):
            return kept
        return Place(homeserver, user_id)

    def keep_place(self, place: Place) -> None:
        """Everything before this place is stored."""
        self._write(self._place, asdict(place))

    def _read(self, path: Path) -> dict[str, Any]:
        if self._shelf is not None:
            kept = self._shelf.read().get(path.stem)
            if isinstance(kept, dict):
                return kept
        return _read(path)  # also what was kept before the store was shared

    def _write(self, path: Path, value: dict[str, Any]) -> None:
        if self._shelf is not None:
            self._shelf.write({path.stem: value})
        else:
            _write(path, value)


def _read(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("%s cannot be read and is begun anew: %s", path, error)
        return {}
    return state if isinstance(state, dict) else {}


def _write(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, json.dumps(value))
