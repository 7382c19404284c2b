"""Approvals: requests and their decisions, each made once.

A pending approval is a row with a single-use token, of which only the hash is kept. The first
answer decides, in this process or another; no answer in time is a denial. Decided rows stay as the
record, beside those of decisions that nobody was asked about; `how` says what decided:

    person      somebody answered                  timeout     nobody did in time
    cancelled   the turn was stopped               nobody      nobody could be asked
    smart       a model judged it                  off         approvals are switched off
    granted     an earlier "session" or "always"   allow_list  the configuration allows it
    forbidden   nobody may allow it                deny_list   the configuration forbids it

The asking tool takes the answer (`taken_at`). An answer that came after a restart, when nothing
waited for it any more, is used for the next identical request in that conversation. Grants are the
"always" answers, by person and pattern.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any, NamedTuple

from hermes_base.redaction import redact

from .codec import decode_json, encode_json, encode_text
from .dialect import Connection, at_most, column, row, rows
from .lineage import SUB_AGENT
from .owners import asked_owner, owned, owner_key, stored_owner
from .persons import current_owner
from .sessions import require_session
from .webhooks import APPROVAL_WANTED, enqueue_event

CHOICES = ("once", "session", "always", "deny")
RECORDED = 20_000
"""Characters of a command that are kept of a decision nobody was asked about; the whole of it is in
the conversation."""


class NewApproval(NamedTuple):
    """A pending approval; only the front end that shows it knows the token."""

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
    """Store an approval request until it is decided or `ttl_seconds` have passed."""
    require_session(conn, session_id)
    approval_id, token, now = _new_id(), os.urandom(16).hex(), conn.now()
    owner = current_owner(conn, user_id)
    conn.execute(
        "INSERT INTO approvals (id, token_hash, session_id, session_key, user_id, command,"
        " description, pattern_keys, state, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)",
        (
            approval_id,
            _hash(token),
            encode_text(session_id, "session_id"),
            encode_text(session_key, "session_key"),
            encode_text(owner, "user_id"),
            encode_text(command, "command"),
            encode_text(description, "description"),
            encode_json(pattern_keys, "pattern_keys"),
            now,
            now + ttl_seconds,
        ),
    )
    facts = {
        "approval_id": approval_id, "session_id": session_id, "command": redact(command),
        "description": redact(description), "expires_at": now + ttl_seconds,
    }  # fmt: skip
    enqueue_event(conn, APPROVAL_WANTED, f"approval:{approval_id}", owner, facts)
    return NewApproval(approval_id, token, now + ttl_seconds)


def decide_approval(
    conn: Connection, approval_id: str, token: str, choice: str, decided_by: str | None = None
) -> bool:
    """Answer a pending approval; True for exactly one of those who try, in time, with the token."""
    if choice not in CHOICES:
        raise ValueError(f"choice must be one of {', '.join(CHOICES)}, not {choice!r}")
    pending = row(
        conn, "SELECT token_hash FROM approvals WHERE id = ?" + conn.lock_row, (approval_id,)
    )
    if pending is None or not hmac.compare_digest(pending["token_hash"], _hash(token)):
        return False
    return _answer(conn, approval_id, choice, decided_by, "person")


def settle_approval(
    conn: Connection,
    approval_id: str,
    choice: str,
    decided_by: str | None = None,
    how: str = "person",
) -> dict[str, Any] | None:
    """For the asking tool: decide with `choice`, unless it was decided already or has expired.

    Returns the approval as it then is, its answer taken; None if there is no such approval.
    """
    if choice not in CHOICES:
        raise ValueError(f"choice must be one of {', '.join(CHOICES)}, not {choice!r}")
    if not _answer(conn, approval_id, choice, decided_by, how):
        expire_approvals(conn)
    conn.execute(
        "UPDATE approvals SET taken_at = ? WHERE id = ? AND taken_at IS NULL",
        (conn.now(), approval_id),
    )
    is_taken_elsewhere = conn.changes() == 0
    approval = get_approval(conn, approval_id)
    if approval is not None and is_taken_elsewhere:
        approval |= {"state": "denied", "choice": "deny"}
    return approval


def _answer(
    conn: Connection, approval_id: str, choice: str, decided_by: str | None, how: str
) -> bool:
    now = conn.now()
    conn.execute(
        "UPDATE approvals SET state = ?, choice = ?, how = ?, decided_at = ?, decided_by = ?"
        " WHERE id = ? AND state = 'pending' AND expires_at > ?",
        (
            "denied" if choice == "deny" else "approved",
            choice,
            encode_text(how, "how"),
            now,
            encode_text(decided_by, "decided_by"),
            approval_id,
            now,
        ),
    )
    return conn.changes() > 0


def take_late_answer(
    conn: Connection,
    *,
    session_id: str,
    command: str,
    description: str,
    pattern_keys: list[str],
    user_id: str | None = None,
) -> dict[str, Any] | None:
    """A late answer to exactly this request, taken once.

    It counts for as long as the question itself would have waited. None if there is no answer.
    """
    now = conn.now()
    answers = column(
        conn,
        "SELECT a.id FROM approvals a JOIN sessions s ON s.id = a.session_id"
        " WHERE s.conversation_id = (SELECT conversation_id FROM sessions WHERE id = ?2)"
        " AND a.command = ?3 AND a.description = ?4 AND a.pattern_keys = ?5"
        " AND COALESCE(a.user_id, '') = ?6 AND a.how = 'person' AND a.taken_at IS NULL"
        " AND a.decided_at > ?1 - (a.expires_at - a.created_at)"
        " ORDER BY a.decided_at DESC",
        (
            now,
            session_id,
            encode_text(command, "command"),
            encode_text(description, "description"),
            encode_json(pattern_keys, "pattern_keys"),
            encode_text(owner_key(user_id), "user_id"),
        ),
    )
    for approval_id in answers:
        conn.execute(
            "UPDATE approvals SET taken_at = ? WHERE id = ? AND taken_at IS NULL",
            (now, approval_id),
        )
        if conn.changes():  # otherwise another process has just taken it
            return get_approval(conn, approval_id)
    return None


def renew_approval_token(
    conn: Connection, approval_id: str, owner: str | None
) -> NewApproval | None:
    """A new token for a pending approval of `owner`, e.g. after a restart; the old one is void.

    None if it is decided or expired, or somebody else's.
    """
    token = os.urandom(16).hex()
    pending = row(
        conn,
        "UPDATE approvals SET token_hash = ? WHERE id = ? AND state = 'pending'"
        " AND expires_at > ? AND COALESCE(user_id, '') = ? RETURNING expires_at",
        (_hash(token), approval_id, conn.now(), encode_text(owner_key(owner), "owner")),
    )
    return None if pending is None else NewApproval(approval_id, token, pending["expires_at"])


def decide_asked_approval(
    conn: Connection, approval_id: str, session_id: str, choice: str, decided_by: str | None
) -> bool:
    """Answer a pending approval of the turn in a session's conversation, or of its sub-agents.

    For whoever may write in the conversation, wherever the question was shown, without its token,
    also if nobody waits for the answer any more. "always" holds for a person, so only whose
    question it is may say it. True for exactly one of those who try.
    """
    if choice not in CHOICES:
        raise ValueError(f"choice must be one of {', '.join(CHOICES)}, not {choice!r}")
    asked = row(conn, "SELECT session_id, user_id FROM approvals WHERE id = ?", (approval_id,))
    if asked is None or not _is_asked_in(conn, asked["session_id"], session_id):
        return False
    if choice == "always" and (asked["user_id"] or "") != owner_key(decided_by):
        return False
    return _answer(conn, approval_id, choice, decided_by, "person")


def list_asked_approvals(conn: Connection, session_id: str) -> list[dict[str, Any]]:
    """What the turn in a session's conversation, or a sub-agent of it, waits for, oldest first."""
    pending = list_pending_approvals(conn)
    return [asked for asked in pending if _is_asked_in(conn, asked["session_id"], session_id)]


def _is_asked_in(conn: Connection, asking_id: str, session_id: str) -> bool:
    """Whether whoever asks works for the turn in a session's conversation."""
    wanted = row(conn, "SELECT conversation_id FROM sessions WHERE id = ?", (session_id,))
    asking: str | None = asking_id
    while asking is not None and wanted is not None:
        session = row(
            conn,
            "SELECT conversation_id, source, parent_session_id FROM sessions WHERE id = ?",
            (asking,),
        )
        if session is None or session["conversation_id"] == wanted["conversation_id"]:
            return session is not None
        asking = session["parent_session_id"] if session["source"] == SUB_AGENT else None
    return False


def record_approval(
    conn: Connection,
    *,
    session_id: str,
    command: str,
    description: str,
    pattern_keys: list[str],
    approved: bool,
    how: str,
    choice: str | None = None,
    user_id: str | None = None,
    decided_by: str | None = None,
) -> bool:
    """Record a decision that was made without asking; False if there is no such session."""
    now = conn.now()
    if len(command) > RECORDED:
        command = f"{command[:RECORDED]} [… {len(command) - RECORDED:,} characters more]"
    conn.execute(
        "INSERT INTO approvals (id, token_hash, session_id, session_key, user_id, command,"
        " description, pattern_keys, state, choice, how, created_at, expires_at, decided_at,"
        " decided_by, taken_at)"
        " SELECT ?1, '', id, session_key, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?9, ?10, ?9"
        " FROM sessions WHERE id = ?11",
        (
            _new_id(),
            encode_text(stored_owner(user_id), "user_id"),
            encode_text(command, "command"),
            encode_text(description, "description"),
            encode_json(pattern_keys, "pattern_keys"),
            "approved" if approved else "denied",
            encode_text(choice, "choice"),
            encode_text(how, "how"),
            now,
            encode_text(decided_by, "decided_by"),
            encode_text(session_id, "session_id"),
        ),
    )
    return conn.changes() > 0


def cancel_approval(conn: Connection, approval_id: str) -> bool:
    """Cancel an approval request, also one that was answered just now."""
    now = conn.now()
    conn.execute(
        "UPDATE approvals SET state = 'cancelled', choice = 'deny', how = 'cancelled',"
        " decided_at = ? WHERE id = ? AND state = 'pending'",
        (now, approval_id),
    )
    is_withdrawn = conn.changes() > 0
    conn.execute(
        "UPDATE approvals SET taken_at = ? WHERE id = ? AND taken_at IS NULL", (now, approval_id)
    )
    return is_withdrawn


def expire_approvals(conn: Connection, now: float | None = None) -> int:
    """Deny expired requests; returns how many that were."""
    at = conn.now() if now is None else now
    conn.execute(
        "UPDATE approvals SET state = 'expired', choice = 'deny', how = 'timeout', decided_at = ?1"
        " WHERE state = 'pending' AND expires_at <= ?1",
        (at,),
    )
    return conn.changes()


def delete_approvals(conn: Connection, session_id: str) -> None:
    """Delete the record of a session, which is going too."""
    conn.execute("DELETE FROM approvals WHERE session_id = ?", (session_id,))


def get_approval(conn: Connection, approval_id: str) -> dict[str, Any] | None:
    """An approval without its token, or None; one whose time has passed is shown as expired."""
    approval = row(conn, f"SELECT {_SHOWN} FROM approvals WHERE id = ?", (approval_id,))
    return None if approval is None else _shown(conn, approval)


def list_pending_approvals(
    conn: Connection, session_id: str | None = None, user_id: str | None = None
) -> list[dict[str, Any]]:
    """What waits for an answer, oldest first; of one session or one person, if given."""
    condition, values = owned("user_id", asked_owner(user_id))
    pending = rows(
        conn,
        f"SELECT {_SHOWN} FROM approvals WHERE state = 'pending' AND expires_at > ?1"
        " AND (CAST(?2 AS TEXT) IS NULL OR session_id = ?2)"
        f"{condition.replace('?', '?3')} ORDER BY created_at, id",
        (conn.now(), session_id, *values),
    )
    return [_shown(conn, approval) for approval in pending]


def list_approvals(
    conn: Connection,
    session_id: str | None = None,
    user_id: str | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """The record, newest first: every question and decision of a session or a person, if given."""
    condition, values = owned("user_id", asked_owner(user_id))
    approvals = rows(
        conn,
        f"SELECT {_SHOWN} FROM approvals WHERE (CAST(?1 AS TEXT) IS NULL OR session_id = ?1)"
        f"{condition.replace('?', '?3')} ORDER BY created_at DESC, id LIMIT ?2",
        (session_id, at_most(limit), *values),
    )
    return [_shown(conn, approval) for approval in approvals]


def grant_patterns(conn: Connection, pattern_keys: list[str], granted_by: str | None) -> None:
    """Store a permanent approval; it holds for the person who gave it only."""
    conn.executemany(
        "INSERT INTO approval_grants (pattern_key, granted_at, granted_by) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [
            (
                encode_text(key, "pattern_key"),
                conn.now(),
                encode_text(owner_key(current_owner(conn, granted_by)), "granted_by"),
            )
            for key in pattern_keys
        ],
    )


def list_granted_patterns(conn: Connection) -> list[str]:
    """The patterns that somebody has always allowed."""
    return column(conn, "SELECT DISTINCT pattern_key FROM approval_grants ORDER BY 1")


def list_patterns_granted_by(conn: Connection, user_id: str | None) -> list[str]:
    """The patterns that this person has always allowed."""
    return column(
        conn,
        "SELECT pattern_key FROM approval_grants WHERE COALESCE(granted_by, '') = ? ORDER BY 1",
        (owner_key(user_id),),
    )


def list_grants(conn: Connection, owner: str | None = None) -> list[dict[str, Any]]:
    """The permanent approvals, oldest first: `pattern_key`, `granted_by` and `granted_at` of each.

    Of one person, if given; the operator is the empty name in `granted_by`.
    """
    condition, values = owned("granted_by", asked_owner(owner))
    return rows(
        conn,
        f"SELECT pattern_key, granted_by, granted_at FROM approval_grants WHERE 1 = 1{condition}"
        " ORDER BY granted_at, granted_by, pattern_key",
        values,
    )


def revoke_grant(conn: Connection, pattern_key: str, owner: str) -> bool:
    """Revoke one person's permanent approval: it is asked again at once, in every process.

    False if that person had not allowed it.
    """
    conn.execute(
        "DELETE FROM approval_grants WHERE pattern_key = ? AND granted_by = ?",
        (pattern_key, owner_key(owner)),
    )
    return conn.changes() > 0


def revoke_pattern(conn: Connection, pattern_key: str) -> bool:
    """Revoke a pattern for everybody; True if somebody had approved it."""
    conn.execute("DELETE FROM approval_grants WHERE pattern_key = ?", (pattern_key,))
    return conn.changes() > 0


_SHOWN = (
    "id, session_id, session_key, user_id, command, description, pattern_keys, state, choice,"
    " how, created_at, expires_at, decided_at, decided_by"
)


def _shown(conn: Connection, approval: dict[str, Any]) -> dict[str, Any]:
    approval["pattern_keys"] = decode_json(approval["pattern_keys"])
    if approval["state"] == "pending" and approval["expires_at"] <= conn.now():
        approval |= {"state": "expired", "choice": "deny", "how": "timeout"}
    return approval


def _new_id() -> str:
    return f"apr_{os.urandom(6).hex()}"


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
