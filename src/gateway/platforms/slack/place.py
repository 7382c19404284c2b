"""How far each chat has been read, kept for the next connection.

Slack delivers again what was not acknowledged, a few times within minutes. What a bot was away for
longer is in the chats' histories, which are read from the place that is kept here: in a file of the
home, or where several gateways share a store, there. It never runs ahead of the store.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hermes_base.files import write_private

from ..host import Shelf

log = logging.getLogger(__name__)

MOST_CHATS = 500
_NAME = "slack-place"


def micros(ts: str) -> int:
    """A message's place in its chat: Slack's id for it is a time with six decimals."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int(f"{fraction:0<6}"[:6] or 0)


def ts_of(value: int) -> str:
    """Slack's id for such a place."""
    return f"{value // 1_000_000}.{value % 1_000_000:06}"


def now() -> int:
    """This moment, by our clock."""
    return int(time.time() * 1_000_000)


@dataclass(slots=True)
class Place:
    """How far a workspace has been read."""

    account: str = ""
    since: int = 0
    """Whatever is older was read in every chat; 0 before the first connection."""
    chats: dict[str, int] = field(default_factory=dict)
    """The last message that was dealt with, by channel, and by channel and thread."""

    def begin(self) -> bool:
        """A first connection: what was written before it is not for us. Whether it is one."""
        is_first = not self.since
        if is_first:
            self.since = now()
        return is_first

    def pass_by(self, chat: str, value: int) -> None:
        """Everything in a chat up to this message is stored."""
        self.chats[chat] = max(self.chats.pop(chat, 0), value)  # the last used stands last

    def read_up_to(self, chat: str) -> int:
        """After what a chat was not read."""
        return self.chats.get(chat) or self.since

    def prune(self) -> None:
        """Forget the chats that were quiet the longest."""
        while len(self.chats) > MOST_CHATS:
            del self.chats[next(iter(self.chats))]

    def copy(self) -> Place:
        """As it is now."""
        return Place(self.account, self.since, dict(self.chats))


class Places:
    """A private file in `<home>/gateway`, or what the shared store keeps instead."""

    def __init__(self, home: Path, shelf: Shelf | None) -> None:
        self._path = home / "gateway" / f"{_NAME}.json"
        self._shelf = shelf

    def read(self, account: str) -> Place:
        """Where reading goes on; at the present if this account was never read."""
        kept = self._read()
        try:
            chats = {str(name): int(value) for name, value in kept["chats"].items()}
            place = Place(str(kept["account"]), int(kept["since"]), chats)
        except (KeyError, TypeError, ValueError, AttributeError):
            return Place(account)
        return place if place.account == account else Place(account)

    def write(self, place: Place) -> None:
        """Keep a place; LeaseLostError if another gateway has the platform by now."""
        if self._shelf is not None:
            self._shelf.write({_NAME: asdict(place)})
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._path, json.dumps(asdict(place)))

    def _read(self) -> dict[str, Any]:
        if self._shelf is not None:
            kept = self._shelf.read().get(_NAME)
            if isinstance(kept, dict):
                return kept
        try:
            state = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read and is begun anew: %s", self._path, error)
            return {}
        return state if isinstance(state, dict) else {}
