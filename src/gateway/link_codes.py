"""Codes with which one chat lets another into its conversation: once, soon, and not by guessing.

Only hashes are kept, in memory: a restart makes every code worthless, which costs a new `/link`.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

CODE_SECONDS = 600.0
CODES_PER_PERSON = 5
"""Codes that one person is given within `CODE_SECONDS`."""
CODES_AT_ONCE = 200
WRONG_TRIES = 5
"""Wrong codes of one person within `CODE_SECONDS`, after which theirs are not looked at."""
WRONG_TRIES_OF_ALL = 100
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


class LinkCodeError(ValueError):
    """A code that is not given or not taken; the message says why."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a code stands for."""

    session_key: str
    """The chat that gave it."""
    session_id: str
    """A session of the conversation that it lets into."""
    owner: str
    expires: float


class LinkCodes:
    """The codes that were given and not used."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._offers: dict[str, Offer] = {}
        self._given: deque[tuple[float, str]] = deque()
        self._wrong: deque[tuple[float, str]] = deque()

    def offer(self, session_key: str, session_id: str, owner: str) -> str:
        """A code for a conversation. Raises LinkCodeError if its owner was given too many."""
        self._forget_old()
        given = sum(giver == owner for _, giver in self._given)
        if given >= CODES_PER_PERSON or len(self._offers) >= CODES_AT_ONCE:
            raise LinkCodeError("Too many codes were asked for. Try again in ten minutes.")
        code = "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(8))
        now = self._now()
        self._offers[_hash(code)] = Offer(session_key, session_id, owner, now + CODE_SECONDS)
        self._given.append((now, owner))
        return code

    def take(self, code: str, taker: str) -> Offer:
        """What a code stands for; it is used up. Raises LinkCodeError."""
        self._forget_old()
        tried = sum(guesser == taker for _, guesser in self._wrong)
        if tried >= WRONG_TRIES or len(self._wrong) >= WRONG_TRIES_OF_ALL:
            raise LinkCodeError("Too many wrong codes were tried. Try again in ten minutes.")
        offer = self._offers.pop(_hash(code.strip().upper()), None)
        if offer is None:
            self._wrong.append((self._now(), taker))
            raise LinkCodeError(
                "That code is wrong, used or too old. Write /link in the chat you want to join."
            )
        return offer

    def _forget_old(self) -> None:
        now = self._now()
        self._offers = {name: offer for name, offer in self._offers.items() if offer.expires > now}
        for noted in (self._given, self._wrong):
            while noted and noted[0][0] <= now - CODE_SECONDS:
                noted.popleft()


def _hash(code: str) -> str:
    return hashlib.sha256(f"hermes-link:{code}".encode()).hexdigest()
