"""How far each channel has been read, kept for the next connection.

Discord does not ask for a receipt: what a bot was not there for is in the channels' histories. So
the id of the last message that was stored is kept for each channel, in a file of the home, or where
several gateways share a store, there. It never runs ahead of the store: at worst messages are read
again, and known.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_base.files import write_private

from ..host import Shelf

log = logging.getLogger(__name__)

EPOCH_MS = 1_420_070_400_000
"""The beginning of Discord's time, from which its ids count."""
MOST_CHANNELS = 500
MOST_DIRECT = 200
_NAME = "discord-place"


def id_at(seconds: float) -> int:
    """The smallest id that Discord gives at a time."""
    return max(0, int(seconds * 1000) - EPOCH_MS) << 22


@dataclass(slots=True)
class Place:
    """How far an account has been read."""

    account: str = ""
    since: int = 0
    """Whatever is older than this id was read in every channel; 0 before the first connection."""
    channels: dict[str, int] = field(default_factory=dict)
    """The last message of a channel that was dealt with."""
    direct: dict[str, int] = field(default_factory=dict)
    """The same for direct chats, which Discord does not list."""

    def begin(self) -> None:
        """A first connection: what was written before it is not for us."""
        if not self.since:
            self.since = id_at(time.time())

    def pass_by(self, channel_id: int, message_id: int, *, is_direct: bool) -> None:
        """Everything in a channel up to this message is stored."""
        of = self.direct if is_direct else self.channels
        name = str(channel_id)
        of[name] = max(of.pop(name, 0), message_id)  # the last used stands last

    def read_up_to(self, channel_id: int) -> int:
        """The id after which a channel was not read."""
        name = str(channel_id)
        return self.direct.get(name) or self.channels.get(name) or self.since

    def settle(self, since: int) -> None:
        """Everything before `since` was read in every channel."""
        self.since = max(self.since, since)
        kept = [item for item in self.channels.items() if item[1] > self.since]
        self.channels = dict(kept[-MOST_CHANNELS:])
        self.direct = dict(list(self.direct.items())[-MOST_DIRECT:])

    def copy(self) -> Place:
        """As it is now."""
        return Place(self.account, self.since, dict(self.channels), dict(self.direct))


class Places:
    """A private file in `<home>/gateway`, or what the shared store keeps instead."""

    def __init__(self, home: Path, shelf: Shelf | None) -> None:
        self._path = home / "gateway" / f"{_NAME}.json"
        self._shelf = shelf

    def read(self, account: str) -> Place:
        """Where reading goes on; at the present if this account was never read."""
        kept = self._read()
        try:
            place = Place(
                str(kept["account"]),
                int(kept["since"]),
                {str(name): int(number) for name, number in kept["channels"].items()},
                {str(name): int(number) for name, number in kept["direct"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return Place(account)
        return place if place.account == account else Place(account)

    def write(self, place: Place) -> None:
        """Keep a place; LeaseLostError if another gateway has the platform by now."""
        value = {
            "account": place.account,
            "since": place.since,
            "channels": place.channels,
            "direct": place.direct,
        }
        if self._shelf is not None:
            self._shelf.write({_NAME: value})
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._path, json.dumps(value))

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
