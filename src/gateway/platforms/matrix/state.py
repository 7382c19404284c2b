"""What the Matrix adapter keeps: who it is logged in as, and how far it has read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..host import Shelf
from ..kept import KeptFacts

_LOGIN, _PLACE = "matrix-login", "matrix-sync"


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
    """The login, and the place in the stream of events."""

    def __init__(self, home: Path, shelf: Shelf | None = None) -> None:
        self._kept = KeptFacts(home, shelf)

    def login(self, homeserver: str, user_id: str) -> Login | None:
        """The kept login of an account; `user_id` may be the part before the colon."""
        fields = self._kept.read(_LOGIN)
        try:
            kept = Login(**fields)
        except TypeError:
            return None
        local = kept.user_id.removeprefix("@").partition(":")[0]
        fits = user_id in (kept.user_id, local) and kept.homeserver == homeserver
        return kept if fits else None

    def keep_login(self, login: Login) -> None:
        """Keep a login, readable by its owner alone."""
        self._kept.write(_LOGIN, asdict(login))

    def place(self, homeserver: str, user_id: str) -> Place:
        """Where reading goes on; at the present if this account was never read."""
        try:
            kept = Place(**self._kept.read(_PLACE))
        except TypeError:
            kept = Place()
        if (kept.homeserver, kept.user_id) == (homeserver, user_id):
            return kept
        return Place(homeserver, user_id)

    def keep_place(self, place: Place) -> None:
        """Everything before this place is stored."""
        self._kept.write(_PLACE, asdict(place))
