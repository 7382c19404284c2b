"""Codes with which one chat lets another into its conversation, in words for people.

They are rows of the store, so that a code that one gateway gives is taken by any of those that
share it, and guessing is counted over all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_state import NoLink

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB, LinkOffer

_WORDS = {
    NoLink.WRONG: "That code is wrong, used or too old. Write /link in the chat you want to join.",
    NoLink.TOO_MANY_TRIES: "Too many wrong codes were tried. Try again in ten minutes.",
}


class LinkCodeError(ValueError):
    """A code that is not given or not taken; the message says why."""


async def offer_code(db: AsyncSessionDB, session_key: str, session_id: str, owner: str) -> str:
    """A code for a conversation. Raises LinkCodeError if its owner was given too many."""
    code = await db.offer_link(session_key, session_id, owner)
    if code is None:
        raise LinkCodeError("Too many codes were asked for. Try again in ten minutes.")
    return code


async def take_code(db: AsyncSessionDB, code: str, taker: str) -> LinkOffer:
    """What a code stands for; it is used up. Raises LinkCodeError."""
    taken = await db.take_link(code, taker)
    if isinstance(taken, NoLink):
        raise LinkCodeError(_WORDS[taken])
    return taken
