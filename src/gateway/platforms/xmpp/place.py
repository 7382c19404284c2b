"""How far each archive has been read, kept for the next connection.

An account has one archive for its direct chats, and each room has one. The place in an archive is
the id of the last message before which everything is stored; it never runs ahead of the store.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

log = logging.getLogger(__name__)

NAME = "xmpp-place"


@dataclass(slots=True)
class Mark:
    """A place in one archive."""

    id: str = ""
    """Of the last message that was dealt with; empty: none was there."""
    at: int = 0
    """About when that was, in seconds: for an archive that knows the id no more."""


@dataclass(slots=True)
class Place:
    """The places of one account."""

    account: str
    archives: dict[str, Mark] = field(default_factory=dict)
    """By the address of the archive: the account's, or a room's."""
    invited: list[str] = field(default_factory=list)
    """Rooms into which somebody has invited us."""

    def facts(self) -> dict[str, Any]:
        """As it is kept."""
        return {
            "account": self.account,
            "archives": {name: [mark.id, mark.at] for name, mark in self.archives.items()},
            "invited": list(self.invited),
        }


def read_place(account: str, facts: Mapping[str, Any]) -> Place:
    """The place of an account, from what was kept; at the present if this one was never read."""
    try:
        if facts["account"] != account:
            return Place(account)
        archives = {
            str(name): Mark(str(kept[0]), int(kept[1])) for name, kept in facts["archives"].items()
        }
        return Place(account, archives, [str(room) for room in facts["invited"]])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if facts:
            log.warning("The place in XMPP's archives cannot be read and is begun anew: %s", error)
        return Place(account)


def now() -> int:
    """This moment, by our clock."""
    return int(datetime.now(UTC).timestamp())


@dataclass(slots=True)
class _Step:
    id: str
    at: int
    is_done: bool = False


class Progress:
    """Messages of one archive that came in order, and are stored in any order."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []

    def begin(self, archive_id: str, at: int) -> _Step:
        """A message came."""
        step = _Step(archive_id, at)
        self._steps.append(step)
        return step

    def finish(self, step: _Step) -> Mark | None:
        """It is stored; the last message before which everything is, if that has moved on."""
        step.is_done = True
        last = None
        while self._steps and self._steps[0].is_done:
            last = self._steps.pop(0)
        return Mark(last.id, last.at) if last is not None else None
