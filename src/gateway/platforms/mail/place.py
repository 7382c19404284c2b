"""How far the mailbox has been read, kept for the next connection.

IMAP numbers the mails of a folder upwards, as long as the folder's UIDVALIDITY stays. If that
changes, the numbers mean nothing: it is read again from the day of the last mail, and what was
taken is known by its Message-ID.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..kept import KeptFacts

NAME = "email-place"
MOST_RECENT = 500


@dataclass(slots=True)
class Place:
    """How far a folder of an account was read."""

    account: str = ""
    validity: int = 0
    """0 before the first connection."""
    uid: int = 0
    """Everything up to it was dealt with."""
    day: str = ""
    """The day on which the last of those arrived, as IMAP writes it."""
    recent: list[str] = field(default_factory=list)
    """By what the last of those are known."""

    def pass_by(self, uid: int, day: str, known_as: str) -> None:
        """A mail was dealt with."""
        self.uid, self.day = max(self.uid, uid), day or self.day
        if known_as and known_as not in self.recent[-50:]:
            self.recent = [*self.recent[-(MOST_RECENT - 1) :], known_as]


class Places:
    """Where the place is kept."""

    def __init__(self, facts: KeptFacts) -> None:
        self._facts = facts

    def read(self, account: str) -> Place:
        """Where reading goes on; a new place if this folder was never read."""
        kept = self._facts.read(NAME)
        try:
            place = Place(
                str(kept["account"]),
                int(kept["validity"]),
                int(kept["uid"]),
                str(kept["day"]),
                [str(each) for each in kept["recent"]],
            )
        except (KeyError, TypeError, ValueError):
            return Place(account)
        return place if place.account == account else Place(account)

    def write(self, place: Place) -> None:
        """Keep a place; LeaseLostError if another gateway has the platform by now."""
        facts: dict[str, Any] = asdict(place)
        self._facts.write(NAME, facts)
