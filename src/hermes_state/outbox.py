"""The outbox: deliveries to chats, stored with their answer until delivered or reported.

A delivery is pending, then sending (its owner is sending it), then delivered or failed. An
abandoned one in `sending` may or may not have been shown: an answer is reported, not sent again
blindly. Only its owner settles it, or another process once the owner is gone.

A pending delivery may be held: its platform shows it only after the person has written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hermes_base.process import this_process

from .codec import encode_text
from .dialect import Connection, rows
from .formats import needed, understood
from .replicas import PlatformLease, filter_abandoned, require_platform

OUTBOX = "_outbox"
"""Key under which a message says where it is to be delivered: id, platform, chat_id, …"""

KEPT_SECONDS = 7 * 86_400
_HELD = "held: "
"""How the reason of a pending delivery begins that waits for the person."""


def add_delivery(
    conn: Connection,
    delivery_id: str,
    content: str,
    *,
    session_key: str,
    platform: str,
    chat_id: str,
    thread_id: str | None = None,
) -> bool:
    """Insert a delivery to a chat; False if `delivery_id` is a duplicate."""
    now = conn.now()
    conn.execute(
        "INSERT INTO delivery_obligations (obligation_id, session_key, platform, chat_id,"
        " thread_id, content, state, attempts, created_at, updated_at, needs_format)"
        " VALUES (?, ?, ?, ?, ?, ?, 'pending', 0, ?, ?, ?)"
        " ON CONFLICT (obligation_id) DO NOTHING",
        (
            encode_text(delivery_id, "delivery_id"),
            encode_text(session_key, "session_key"),
            encode_text(platform, "platform"),
            encode_text(chat_id, "chat_id"),
            encode_text(thread_id, "thread_id"),
            encode_text(content, "content"),
            now,
            now,
            needed("delivery", (platform,)),
        ),
    )
    return conn.changes() > 0


def enqueue_deliveries(
    conn: Connection, messages: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Insert outbox rows for messages that carry an address; returns the messages without it.

    For the transaction that stores them.
    """
    kept: list[Mapping[str, Any]] = []
    for message in messages:
        target = message.get(OUTBOX)
        if target is None:
            kept.append(message)
            continue
        plain = {key: value for key, value in message.items() if key != OUTBOX}
        add_delivery(conn, target["id"], str(message["content"]), **target["to"])
        kept.append(plain)
    return kept


def revise_delivery(conn: Connection, delivery_id: str, content: str) -> None:
    """Replace the text of a delivery whose sending has not begun."""
    conn.execute(
        "UPDATE delivery_obligations SET content = ?"
        " WHERE obligation_id = ? AND state = 'pending' AND content <> ?",
        (encode_text(content, "content"), delivery_id, content),
    )


def begin_delivery(conn: Connection, delivery_id: str, lease: PlatformLease | None = None) -> bool:
    """Claim a delivery to send it; True for exactly one of those who try.

    Raises LeaseLostError if `lease`, under which the platform is held here, is somebody else's.
    """
    require_platform(conn, lease)
    conn.execute(
        "UPDATE delivery_obligations SET state = 'sending', attempts = attempts + 1,"
        " updated_at = ?, owner = ? WHERE obligation_id = ? AND state = 'pending'"
        f" AND {understood()}",
        (conn.now(), this_process(), delivery_id),
    )
    return conn.changes() > 0


def finish_delivery(
    conn: Connection, delivery_id: str, state: str, error: str | None = None
) -> None:
    """Settle a delivery as "delivered" or "failed", or make it "pending" again for a retry.

    One that another process is sending, or has settled meanwhile, stays as it is.
    """
    _require_outcome(state)
    conn.execute(
        "UPDATE delivery_obligations SET state = ?, last_error = ?, updated_at = ?"
        " WHERE obligation_id = ? AND state IN ('sending', 'pending')"
        " AND (owner IS NULL OR owner = ?)",
        (state, encode_text(error, "error"), conn.now(), delivery_id, this_process()),
    )


def settle_delivery(
    conn: Connection, delivery_id: str, owner: str | None, state: str, error: str | None = None
) -> bool:
    """Settle an abandoned delivery, which `owner` was sending; False if another was first."""
    _require_outcome(state)
    conn.execute(
        "UPDATE delivery_obligations SET state = ?, last_error = ?, updated_at = ?, owner = NULL"
        " WHERE obligation_id = ? AND state = 'sending' AND owner IS NOT DISTINCT FROM ?",
        (state, encode_text(error, "error"), conn.now(), delivery_id, owner),
    )
    return conn.changes() > 0


def hold_delivery(conn: Connection, delivery_id: str, reason: str) -> bool:
    """Keep a delivery until `release_deliveries`: one that this process is sending, or one of which
    its platform said too late that it was not shown. False if it is neither."""
    conn.execute(
        "UPDATE delivery_obligations SET state = 'pending', last_error = ?, updated_at = ?,"
        " owner = NULL WHERE obligation_id = ? AND (state = 'delivered' OR"
        " (state IN ('sending', 'pending') AND (owner IS NULL OR owner = ?)))",
        (encode_text(f"{_HELD}{reason}", "reason"), conn.now(), delivery_id, this_process()),
    )
    return conn.changes() > 0


def reject_delivery(conn: Connection, delivery_id: str, reason: str) -> bool:
    """Record that a delivered text was not shown after all, and never will be; False if it does not
    count as delivered."""
    conn.execute(
        "UPDATE delivery_obligations SET state = 'failed', last_error = ?, updated_at = ?"
        " WHERE obligation_id = ? AND state = 'delivered'",
        (encode_text(reason, "reason"), conn.now(), delivery_id),
    )
    return conn.changes() > 0


def release_deliveries(conn: Connection, platform: str, chat_id: str) -> list[str]:
    """Let what was held for a chat be sent; returns the keys of its conversations."""
    found = conn.execute(
        "UPDATE delivery_obligations SET last_error = NULL WHERE platform = ? AND chat_id = ?"
        " AND state = 'pending' AND last_error LIKE ? RETURNING session_key",
        (encode_text(platform, "platform"), encode_text(chat_id, "chat_id"), f"{_HELD}%"),
    )
    return sorted({str(row[0]) for row in found})


def _require_outcome(state: str) -> None:
    if state not in ("delivered", "failed", "pending"):
        raise ValueError(f"a delivery cannot become {state!r}")


def list_abandoned_deliveries(conn: Connection, with_own: bool = False) -> list[dict[str, Any]]:
    """Abandoned deliveries, whose owner is gone, oldest first; `with_own` as in `list_others`."""
    return filter_abandoned(conn, list_deliveries(conn, ("sending",)), with_own)


def list_deliveries(
    conn: Connection, states: Iterable[str] = ("pending",), session_key: str | None = None
) -> list[dict[str, Any]]:
    """Deliveries in these states, oldest first; without those that only a newer release
    understands."""
    wanted = list(states)
    if not wanted:
        return []
    where = f"state IN ({', '.join('?' * len(wanted))}) AND {understood()}"
    given: list[Any] = list(wanted)
    if session_key is not None:
        where += " AND session_key = ?"
        given.append(session_key)
    return rows(
        conn,
        f"SELECT * FROM delivery_obligations WHERE {where} ORDER BY created_at, rowid",
        given,
    )


def list_due_deliveries(conn: Connection, session_key: str | None = None) -> list[dict[str, Any]]:
    """Pending deliveries that are not held, oldest first."""
    return [
        row
        for row in list_deliveries(conn, ("pending",), session_key)
        if not str(row["last_error"] or "").startswith(_HELD)
    ]


def forget_delivered(conn: Connection) -> None:
    """Delete deliveries that were settled long ago."""
    conn.execute(
        "DELETE FROM delivery_obligations WHERE state IN ('delivered', 'failed')"
        " AND updated_at < ?",
        (conn.now() - KEPT_SECONDS,),
    )
