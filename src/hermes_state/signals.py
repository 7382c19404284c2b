"""Signals from any process to the one that runs a conversation's turn.

The row is the truth. A notification says that there is one, and processes that run turns also poll
for them. The turn is named by its conversation and its beginning: a process that has taken it over
gets the signal, the conversation's next turn does not.

    waiting     taken_at is empty: nobody has seen it, and whoever sent it may withdraw it
    taken       the turn's owner acts on it
    settled     `outcome` says what became of it
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hermes_base.process import this_process

from .codec import decode_json, encode_json, encode_text
from .dialect import Connection, row, rows, value
from .formats import needed, understood
from .turns import TURN_RUNNING, is_ownerless

FORGET_SECONDS = 60.0
"""A signal of this age is deleted: its sender waits for seconds only."""


def send_signal(
    conn: Connection,
    session_id: str,
    kind: str,
    payload: Mapping[str, Any] | None = None,
    started_at: float | None = None,
    inbox_id: str | None = None,
) -> str | None:
    """Tell the owner of the turn that runs in a session's conversation; returns the signal's id.

    None if no turn runs there, or its owner is gone. With `started_at` only the turn that began
    then is told: None if it has ended, also if a later one runs. With `inbox_id` the signal is for
    the sake of a message of the inbox: None unless that waits, and came after the turn had begun.
    """
    now = conn.now()
    turn = row(
        conn,
        "SELECT t.* FROM turns t WHERE t.conversation_id ="
        " COALESCE((SELECT conversation_id FROM sessions WHERE id = ?1), ?1)",
        (session_id,),
    )
    if turn is None or turn["state"] != TURN_RUNNING or is_ownerless(turn, now):
        return None
    if started_at is not None and turn["started_at"] != started_at:
        return None
    if inbox_id is not None and not _came_after(conn, inbox_id, turn["started_at"]):
        return None
    conn.execute("DELETE FROM signals WHERE made_at < ?", (now - FORGET_SECONDS,))
    signal_id = os.urandom(12).hex()
    conn.execute(
        "INSERT INTO signals (id, conversation_id, started_at, kind, payload, made_at,"
        " needs_format) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            signal_id,
            turn["conversation_id"],
            turn["started_at"],
            encode_text(kind, "kind"),
            encode_json(dict(payload), "payload") if payload else None,
            now,
            needed("signal", (kind,)),
        ),
    )
    return signal_id


def _came_after(conn: Connection, inbox_id: str, started_at: float) -> bool:
    sql = "SELECT 1 FROM inbox WHERE id = ? AND state = 'waiting' AND received_at > ?"
    return value(conn, sql, (inbox_id, started_at)) is not None


def list_signals(conn: Connection) -> list[dict[str, Any]]:
    """The signals that wait for turns of this process, oldest first, each with the turn's
    `fence`."""
    signals = rows(
        conn,
        "SELECT s.*, t.fence FROM signals s JOIN turns t ON t.conversation_id = s.conversation_id"
        " AND t.started_at = s.started_at WHERE s.taken_at IS NULL AND t.owner = ?"
        f" AND t.state = 'running' AND s.made_at >= ? AND {understood('s.needs_format')}"
        " ORDER BY s.made_at, s.id",
        (this_process(), conn.now() - FORGET_SECONDS),
    )
    for signal in signals:
        signal["payload"] = decode_json(signal["payload"]) or {}
    return signals


def take_signal(conn: Connection, signal_id: str) -> bool:
    """Take a signal to act on it; False if it was withdrawn or taken."""
    conn.execute(
        "UPDATE signals SET taken_at = ? WHERE id = ? AND taken_at IS NULL", (conn.now(), signal_id)
    )
    return conn.changes() > 0


def settle_signal(conn: Connection, signal_id: str, outcome: str) -> None:
    """Store the outcome of a signal that was taken."""
    conn.execute(
        "UPDATE signals SET outcome = ? WHERE id = ?", (encode_text(outcome, "outcome"), signal_id)
    )


def get_signal_outcome(conn: Connection, signal_id: str) -> str | None:
    """The outcome of a signal; None while it is pending."""
    signal = row(conn, "SELECT outcome FROM signals WHERE id = ?", (signal_id,))
    return None if signal is None else signal["outcome"]


def withdraw_signal(conn: Connection, signal_id: str) -> bool:
    """Withdraw a signal that was not taken; True if it was taken already."""
    deleted = row(conn, "DELETE FROM signals WHERE id = ? RETURNING taken_at", (signal_id,))
    return deleted is not None and deleted["taken_at"] is not None
