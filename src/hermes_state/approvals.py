"""Approvals: what was asked, who decided, once.

A pending approval is a row with a single-use token, of which only the hash is kept. Whoever answers
first decides, in this process or another; nobody answering in time is a denial. Decided rows stay
as the record. Grants are the "always" answers, by person and pattern.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from typing import Any, NamedTuple

from .codec import decode_json, encode_json, encode_text
from .connection import Connection, row, rows, tuples
from .sessions import require_session

CHOICES = ("once", "session", "always", "deny")


class NewApproval(NamedTuple):
    """A pending approval; the token is known to whoever shows the question, and to nobody else."""

    id: str
    token: str
    expires_at: float


def create_approval(
    conn: Connection,
    *,
    session_id: str,
    command: str,
    description: str,
    pattern_keys: list[str],
    ttl_seconds: float = 300.0,
    session_key: str | None = None,
    user_id: str | None = None,
) -> NewApproval:
    """Keep a question until it is decided or `ttl_seconds` have passed."""
    require_session(conn, session_id)
    approval_id, token, now = f"apr_{os.urandom(6).hex()}", os.urandom(16).hex(), time.time()
    conn.execute(
        "INSERT INTO approvals (id, token_hash, session_id, session_key, user_id, command,"
        " description, pattern_keys, state, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)",
        (
            approval_id,
            _hash(token),
            encode_text(session_id, "session_id"),
            encode_text(session_key, "session_key"),
            encode_text(user_id, "user_id"),
            encode_text(command, "command"),
            encode_text(description, "description"),
            encode_json(pattern_keys, "pattern_keys"),
            now,
            now + ttl_seconds,
        ),
    )
    return NewApproval(approval_id, token, now + ttl_seconds)


def decide_approval(
    conn: Connection, approval_id: str, token: str, choice: str, decided_by: str | None = None
) -> bool:
    """Answer a pending approval; True for exactly one of those who try, in time, with the token."""
    if choice not in CHOICES:
        raise ValueError(f"choice must be one of {', '.join(CHOICES)}, not {choice!r}")
    found = row(conn, "SELECT token_hash FROM approvals WHERE id = ?", (approval_id,))
    if found is None or not hmac.compare_digest(found["token_hash"], _hash(token)):
        return False
    now = time.time()
    conn.execute(
        "UPDATE approvals SET state = ?, choice = ?, decided_at = ?, decided_by = ?"
        " WHERE id = ? AND state = 'pending' AND expires_at > ?",
        (
            "denied" if choice == "deny" else "approved",
            choice,
            now,
            encode_text(decided_by, "decided_by"),
            approval_id,
            now,
        ),
    )
    return conn.changes() > 0


def cancel_approval(conn: Connection, approval_id: str) -> bool:
    """Withdraw a question that nobody needs answered any more."""
    conn.execute(
        "UPDATE approvals SET state = 'cancelled', choice = 'deny', decided_at = ?"
        " WHERE id = ? AND state = 'pending'",
        (time.time(), approval_id),
    )
    return conn.changes() > 0


def expire_approvals(conn: Connection, now: float | None = None) -> int:
    """Deny what nobody answered in time; returns how many that were."""
    at = time.time() if now is None else now
    conn.execute(
        "UPDATE approvals SET state = 'expired', choice = 'deny', decided_at = ?1"
        " WHERE state = 'pending' AND expires_at <= ?1",
        (at,),
    )
    return conn.changes()


def get_approval(conn: Connection, approval_id: str) -> dict[str, Any] | None:
    """An approval without its token, or None; one whose time has passed is shown as expired."""
    found = row(conn, f"SELECT {_SHOWN} FROM approvals WHERE id = ?", (approval_id,))
    return None if found is None else _shown(found)


def list_pending_approvals(
    conn: Connection, session_id: str | None = None, user_id: str | None = None
) -> list[dict[str, Any]]:
    """What waits for an answer, oldest first; of one session or one owner, if given."""
    found = rows(
        conn,
        f"SELECT {_SHOWN} FROM approvals WHERE state = 'pending' AND expires_at > ?1"
        " AND (?2 IS NULL OR session_id = ?2) AND (?3 IS NULL OR user_id = ?3)"
        " ORDER BY created_at, id",
        (time.time(), session_id, user_id),
    )
    return [_shown(one) for one in found]


def grant_patterns(conn: Connection, pattern_keys: list[str], granted_by: str | None) -> None:
    """Remember an "always"; it holds for whoever said it, and for nobody else."""
    conn.executemany(
        "INSERT INTO approval_grants (pattern_key, granted_at, granted_by) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [
            (
                encode_text(key, "pattern_key"),
                time.time(),
                encode_text(granted_by or "", "granted_by"),
            )
            for key in pattern_keys
        ],
    )


def list_granted_patterns(conn: Connection) -> list[str]:
    """The patterns that somebody has always allowed."""
    found = tuples(conn, "SELECT DISTINCT pattern_key FROM approval_grants ORDER BY 1")
    return [key for (key,) in found]


def list_patterns_granted_by(conn: Connection, user_id: str | None) -> list[str]:
    """The patterns that this person has always allowed."""
    found = tuples(
        conn,
        "SELECT pattern_key FROM approval_grants WHERE COALESCE(granted_by, '') = ? ORDER BY 1",
        (user_id or "",),
    )
    return [key for (key,) in found]


def revoke_pattern(conn: Connection, pattern_key: str) -> bool:
    """Ask again about a pattern, whoever allowed it; True if somebody had."""
    conn.execute("DELETE FROM approval_grants WHERE pattern_key = ?", (pattern_key,))
    return conn.changes() > 0


_SHOWN = (
    "id, session_id, session_key, user_id, command, description, pattern_keys, state, choice,"
    " created_at, expires_at, decided_at, decided_by"
)


def _shown(found: dict[str, Any]) -> dict[str, Any]:
    found["pattern_keys"] = decode_json(found["pattern_keys"])
    if found["state"] == "pending" and found["expires_at"] <= time.time():
        found |= {"state": "expired", "choice": "deny"}
    return found


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
