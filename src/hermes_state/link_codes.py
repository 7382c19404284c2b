"""Codes that are given in one place and taken in another: once, soon, and not by guessing.

With one kind a chat lets another into its conversation; with another somebody proves that two
doors are theirs, and the persons behind them become one; a third lets a device in (`devices`).

Only hashes are kept. Limits count over all processes that use the store, by the store's clock. A
used code stays a row until it would have expired, because it counts among those that a person was
given.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
from typing import NamedTuple

from .codec import encode_text
from .dialect import Connection, row, value
from .person_merges import Merge, join_persons
from .sessions import get_meta, set_meta

CODE_SECONDS = 600.0
CODES_PER_PERSON = 5
"""Codes that one person is given within `CODE_SECONDS`."""
CODES_AT_ONCE = 200
WRONG_TRIES = 5
"""Wrong codes of one person within `CODE_SECONDS`, after which theirs are not looked at."""
WRONG_TRIES_OF_ALL = 100
LONG_CODE_SECONDS = 120.0
LONG_CODES_PER_PERSON = 30
_LONG = 26
"""Characters of a code that nobody can guess."""
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_TRIES_KEY = "link:wrong_tries"


class LinkOffer(NamedTuple):
    """What a code stands for."""

    session_key: str
    """The chat that gave it."""
    session_id: str
    """A session of the conversation that it lets into."""
    owner: str
    scope: str | None = None
    """What a device may do that it lets in."""


class NoLink(enum.Enum):
    """Why a code is not taken."""

    WRONG = "wrong, used or expired"
    TOO_MANY_TRIES = "too many wrong codes"


def offer_link(conn: Connection, session_key: str, session_id: str, owner: str) -> str | None:
    """A code for a conversation; None if its owner was given too many, or all people were."""
    return _offer(conn, "link", session_key, session_id, owner)


def offer_person_code(conn: Connection, person_id: str) -> str | None:
    """A code by which another door becomes this person's; None if they were given too many."""
    return _offer(conn, "person", "", "", person_id)


def join_by_code(conn: Connection, code: str, person_id: str) -> Merge | NoLink | None:
    """Make one person of whoever gave a code and who takes it; None if they are one already."""
    offer = _take(conn, "person", code, person_id)
    return offer if isinstance(offer, NoLink) else join_persons(conn, offer.owner, person_id)


def offer_device(conn: Connection, person_id: str, scope: str, *, typed: bool) -> str | None:
    """A code for a device of a person: short if people type it in, else one that nobody guesses."""
    kind = "device" if typed else "long device"
    return _offer(conn, kind, "", "", person_id, scope)


def take_device(conn: Connection, code: str, taker: str) -> LinkOffer | NoLink:
    """Whose device a code lets in; it is used up."""
    is_long = len(code.strip()) == _LONG
    return _take(conn, "long device" if is_long else "device", code, taker)


def _offer(
    conn: Connection, kind: str, session_key: str, session_id: str, owner: str,
    scope: str | None = None,
) -> str | None:  # fmt: skip
    now, is_long = conn.now(), kind.startswith("long")
    conn.execute("DELETE FROM link_codes WHERE expires_at <= ?", (now,))
    given = value(
        conn,
        "SELECT COUNT(*) FROM link_codes WHERE owner = ?"
        f" AND scope IS {'NULL' if scope is None else 'NOT NULL'}",
        (owner,),
    )
    unused = value(conn, "SELECT COUNT(*) FROM link_codes WHERE used_at IS NULL")
    most = LONG_CODES_PER_PERSON if is_long else CODES_PER_PERSON
    if given >= most or unused >= CODES_AT_ONCE:
        return None
    length, seconds = (_LONG, LONG_CODE_SECONDS) if is_long else (8, CODE_SECONDS)
    code = "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(length))
    conn.execute(
        "INSERT INTO link_codes (code_hash, session_key, session_id, owner, expires_at, scope)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            _hash(kind, code),
            encode_text(session_key, "session_key"),
            encode_text(session_id, "session_id"),
            encode_text(owner, "owner"),
            now + seconds,
            scope,
        ),
    )
    return code


def take_link(conn: Connection, code: str, taker: str) -> LinkOffer | NoLink:
    """What a code stands for; it is used up."""
    return _take(conn, "link", code, taker)


def _take(conn: Connection, kind: str, code: str, taker: str) -> LinkOffer | NoLink:
    now, taker = conn.now(), encode_text(taker, "taker") or ""
    # Strangers who come by the web page must not keep people from linking their chats; and nobody
    # guesses a long code, so that wrong ones need not be counted.
    tries_key = f"{kind}:wrong_tries" if "device" in kind else _TRIES_KEY
    is_counted = not kind.startswith("long")
    tries = [
        (tried_at, who)
        for tried_at, who in json.loads((is_counted and get_meta(conn, tries_key)) or "[]")
        if now - CODE_SECONDS < tried_at <= now
    ]
    if sum(who == taker for _, who in tries) >= WRONG_TRIES or len(tries) >= WRONG_TRIES_OF_ALL:
        return NoLink.TOO_MANY_TRIES
    code_hash = _hash(kind, code.strip().upper())
    offer = row(
        conn,
        "SELECT session_key, session_id, owner, scope FROM link_codes"
        " WHERE code_hash = ? AND used_at IS NULL AND expires_at > ?",
        (code_hash, now),
    )
    if offer is None:
        if is_counted:
            set_meta(conn, tries_key, json.dumps([*tries, (now, taker)]))
        return NoLink.WRONG
    conn.execute("UPDATE link_codes SET used_at = ? WHERE code_hash = ?", (now, code_hash))
    return LinkOffer(**offer)


def _hash(kind: str, code: str) -> str:
    return hashlib.sha256(f"hermes-{kind}:{code}".encode(errors="surrogatepass")).hexdigest()
