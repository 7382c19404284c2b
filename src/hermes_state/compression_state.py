"""Stored state of compression: its lock, its cool-down, its streak of fall-backs."""

from __future__ import annotations

from typing import Any

from .changes import touch
from .codec import encode_text
from .dialect import Connection, row, value


def try_acquire_compression_lock(
    conn: Connection, session_id: str, holder: str, ttl_seconds: float = 300.0
) -> bool:
    """Take the session's compression lock; True if it was free, expired or already ours."""
    now = conn.now()
    conn.execute(
        "INSERT INTO compression_locks (session_id, holder, acquired_at, expires_at)"
        " VALUES (?1, ?2, ?3, ?4) ON CONFLICT (session_id) DO UPDATE SET holder = ?2,"
        " acquired_at = ?3, expires_at = ?4 WHERE compression_locks.expires_at <= ?3"
        " OR compression_locks.holder = ?2",
        (session_id, encode_text(holder, "holder"), now, now + ttl_seconds),
    )
    return conn.changes() > 0


def refresh_compression_lock(
    conn: Connection, session_id: str, holder: str, ttl_seconds: float = 300.0
) -> bool:
    """Hold the lock for longer; False if it is not ours any more."""
    now = conn.now()
    conn.execute(
        "UPDATE compression_locks SET expires_at = ?"
        " WHERE session_id = ? AND holder = ? AND expires_at > ?",
        (now + ttl_seconds, session_id, holder, now),
    )
    return conn.changes() > 0


def release_compression_lock(conn: Connection, session_id: str, holder: str) -> None:
    """Give the lock back, if it is still ours."""
    conn.execute(
        "DELETE FROM compression_locks WHERE session_id = ? AND holder = ?", (session_id, holder)
    )


def get_compression_lock_holder(conn: Connection, session_id: str) -> str | None:
    """Who holds the lock now, or None."""
    return value(
        conn,
        "SELECT holder FROM compression_locks WHERE session_id = ? AND expires_at > ?",
        (session_id, conn.now()),
    )


def record_compression_failure_cooldown(
    conn: Connection, session_id: str, cooldown_until: float, error: str | None = None
) -> None:
    """Do not try to compress this session again before `cooldown_until`, because of `error`."""
    _set_cooldown(conn, session_id, float(cooldown_until), error)


def clear_compression_failure_cooldown(conn: Connection, session_id: str) -> None:
    """Compression may be tried again at once."""
    _set_cooldown(conn, session_id, None, None)


def _set_cooldown(
    conn: Connection, session_id: str, until: float | None, error: str | None
) -> None:
    conn.execute(
        "UPDATE sessions SET compression_failure_cooldown_until = ?, compression_failure_error = ?"
        " WHERE id = ?",
        (until, encode_text(error, "error"), session_id),
    )
    touch(conn, session_id)


def get_compression_failure_cooldown(conn: Connection, session_id: str) -> dict[str, Any] | None:
    """`cooldown_until`, `remaining_seconds` and `error` while a cooldown runs, else None."""
    cooldown = row(
        conn,
        "SELECT compression_failure_cooldown_until AS cooldown_until,"
        " compression_failure_error AS error FROM sessions WHERE id = ?",
        (session_id,),
    )
    if cooldown is None or cooldown["cooldown_until"] is None:
        return None
    remaining = cooldown["cooldown_until"] - conn.now()
    return {**cooldown, "remaining_seconds": remaining} if remaining > 0 else None


def get_compression_fallback_streak(conn: Connection, session_id: str) -> int:
    """How often in a row compression had to do without a model."""
    return int(
        value(conn, "SELECT compression_fallback_streak FROM sessions WHERE id = ?", (session_id,))
        or 0
    )


def set_compression_fallback_streak(conn: Connection, session_id: str, streak: int) -> None:
    """Keep how often in a row compression had to do without a model."""
    conn.execute(
        "UPDATE sessions SET compression_fallback_streak = ? WHERE id = ?",
        (max(0, int(streak)), session_id),
    )
    touch(conn, session_id)
