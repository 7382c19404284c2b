"""Who was let in on a chat platform, and the codes by which strangers ask.

A code is short-lived and kept only as a hash. An account is given a few per hour at most, whatever
others do: however many strangers ask, nobody is refused a code because of them. How many codes are
kept is bounded for each platform; the oldest make room. Guessing is answered with a pause.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, NamedTuple

from .codec import encode_text
from .dialect import Connection, row, rows, value
from .person_merges import join_door
from .person_rest import rest_person
from .persons import ensure_person, find_person, list_doors, resolve_person

CODE_SECONDS = 3600.0
CODE_PAUSE = 1200.0
"""Seconds after which an account that writes again is given another code; the first stays valid."""
KEPT_PER_PLATFORM = 5000
"""A code is good until so many newer ones were given out on its platform within its hour."""
SHOWN = 50
"""Of those who ask, how many are listed, newest first."""
WRONG_TRIES = 10
"""Wrong codes within an hour after which none is taken for the rest of it."""
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_TRIES_KEY = "pairing:wrong_tries"


class Paired(NamedTuple):
    """Somebody who was let in."""

    platform: str
    user_id: str
    user_name: str | None


def offer_pairing(
    conn: Connection, platform: str, user_id: str, user_name: str | None = None
) -> str | None:
    """A code for a stranger; None if they were given one a moment ago."""
    now = conn.now()
    conn.execute("DELETE FROM pairing_codes WHERE expires_at <= ?", (now,))
    if not user_id:
        return None
    latest = value(
        conn,
        "SELECT MAX(created_at) FROM pairing_codes WHERE platform = ? AND user_id = ?",
        (platform, user_id),
    )
    if latest is not None and now - CODE_PAUSE < float(latest) <= now:
        return None
    oldest_kept = value(
        conn,
        "SELECT created_at FROM pairing_codes WHERE platform = ?"
        " ORDER BY created_at DESC LIMIT 1 OFFSET ?",
        (platform, KEPT_PER_PLATFORM - 2),
    )
    if oldest_kept is not None:
        conn.execute(
            "DELETE FROM pairing_codes WHERE platform = ? AND created_at < ?",
            (platform, oldest_kept),
        )
    code = "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(8))
    conn.execute(
        "INSERT INTO pairing_codes (code_hash, platform, user_id, user_name, created_at,"
        " expires_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            _hash(code),
            encode_text(platform, "platform"),
            encode_text(user_id, "user_id"),
            encode_text(user_name, "user_name"),
            now,
            now + CODE_SECONDS,
        ),
    )
    return code


def approve_pairing(conn: Connection, code: str, person: str | None = None) -> Paired | None:
    """Let in whoever was given this code; None for a code that is wrong or too old.

    They are a new person, called `person` if that is given, unless somebody has that name: then
    this is another of their doors.
    """
    now = conn.now()
    if _wrong_tries(conn, now) >= WRONG_TRIES:
        return None
    request = row(
        conn,
        "SELECT * FROM pairing_codes WHERE code_hash = ? AND expires_at > ?",
        (_hash(code.strip().upper()), now),
    )
    if request is None:
        _note_wrong_try(conn, now)
        return None
    conn.execute(
        "INSERT INTO paired_users (platform, user_id, user_name, approved_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (platform, user_id) DO UPDATE SET user_name = excluded.user_name",
        (request["platform"], request["user_id"], request["user_name"], now),
    )
    conn.execute(
        "DELETE FROM pairing_codes WHERE platform = ? AND user_id = ?",
        (request["platform"], request["user_id"]),
    )
    door = f"{request['platform']}:{request['user_id']}"
    known = resolve_person(conn, person) if person is not None else None
    if known is not None:
        join_door(conn, door, known.id, request["user_name"])
    else:
        ensure_person(conn, door, person or request["user_name"])
    return Paired(request["platform"], request["user_id"], request["user_name"])


def pairing_pause(conn: Connection) -> float:
    """Seconds for which no code is taken, because too many wrong ones were tried; usually 0."""
    now = conn.now()
    if _wrong_tries(conn, now) < WRONG_TRIES:
        return 0.0
    kept = value(conn, "SELECT value FROM state_meta WHERE key = ?", (_TRIES_KEY,))
    return max(0.0, float(str(kept).partition(":")[0]) + 3600 - now)


def is_paired(conn: Connection, platform: str, user_id: str) -> bool:
    """Whether somebody was let in."""
    return bool(
        value(
            conn,
            "SELECT 1 FROM paired_users WHERE platform = ? AND user_id = ?",
            (platform, user_id),
        )
    )


def list_paired(conn: Connection) -> list[dict[str, Any]]:
    """Everybody who was let in, and (with `waiting`) who asks: the latest of them."""
    paired = rows(
        conn,
        "SELECT platform, user_id, user_name, approved_at FROM paired_users"
        " ORDER BY platform, approved_at",
    )
    asking = rows(
        conn,
        "SELECT platform, user_id, user_name FROM (SELECT platform, user_id, user_name, created_at,"
        "  ROW_NUMBER() OVER (PARTITION BY platform, user_id ORDER BY created_at DESC) AS nth"
        "  FROM pairing_codes WHERE expires_at > ?) AS asked"
        " WHERE nth = 1 ORDER BY created_at DESC LIMIT ?",
        (conn.now(), SHOWN),
    )
    return [
        *({**person, "waiting": False} for person in paired),
        *(
            {name: person[name] for name in ("platform", "user_id", "user_name")}
            | {"approved_at": None, "waiting": True}
            for person in asking
        ),
    ]


def revoke_pairing(conn: Connection, platform: str, user_id: str) -> bool:
    """Let somebody in no longer; False if they were not. If they have no other door, what goes on
    for them by itself is paused."""
    conn.execute("DELETE FROM paired_users WHERE platform = ? AND user_id = ?", (platform, user_id))
    if not conn.changes():
        return False
    door = f"{platform}:{user_id}"
    person = find_person(conn, door)
    if person is not None and list_doors(conn, person.id) == [door]:
        rest_person(conn, person.id, [door])
    return True


def _hash(code: str) -> str:
    return hashlib.sha256(f"hermes-pairing:{code}".encode()).hexdigest()


def _wrong_tries(conn: Connection, now: float) -> int:
    kept = value(conn, "SELECT value FROM state_meta WHERE key = ?", (_TRIES_KEY,))
    if not kept:
        return 0
    since, _, count = str(kept).partition(":")
    return int(count) if float(since) > now - 3600 else 0


def _note_wrong_try(conn: Connection, now: float) -> None:
    count = _wrong_tries(conn, now) + 1
    kept = value(conn, "SELECT value FROM state_meta WHERE key = ?", (_TRIES_KEY,))
    since = str(kept).partition(":")[0] if kept and count > 1 else str(now)
    conn.execute(
        "INSERT INTO state_meta (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_TRIES_KEY, f"{since}:{count}"),
    )
