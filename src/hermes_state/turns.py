"""The turn of each conversation: its lease, its state and its outcome.

A turn is held by a lease: an owner, a fencing number that only grows, and a heartbeat. Every step
is written under owner and number; once another process has taken the turn over they are stale, and
nothing can be written under them, however late the old process wakes up. (The number alone would
not do: a database server that went on from a copy which lacked the last commits may give a number
out twice.) One row per conversation: the next turn takes the place of the last.

A turn is abandoned when its owner has ended, or has not been heard of for LEASE_SECONDS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hermes_base.process import is_gone, this_process

from .codec import decode_json, encode_json
from .dialect import Connection, column, row, rows, value
from .errors import ConversationBusyError, LeaseLostError
from .formats import names_in, needed, understands

LEASE_SECONDS = 20.0
"""After so long without a heartbeat, another process may take a turn over."""

TURN_RUNNING = "running"


class Lease(NamedTuple):
    """The right to write the steps of a conversation's turn."""

    conversation_id: str
    fence: int
    owner: str


def take_lease(
    conn: Connection,
    conversation_id: str,
    session_id: str,
    deliver_to: Mapping[str, Any] | None = None,
    given_up: Lease | None = None,
) -> Lease:
    """Begin a turn; ConversationBusyError while another process, or another turn here, runs one.

    `deliver_to` is the address of its answer, for the process that takes it over. `given_up` is a
    lease that the caller held and has stopped working under.
    """
    now = conn.now()
    turn = row(
        conn,
        "SELECT fence, state, owner, heartbeat_at, needs_format FROM turns"
        " WHERE conversation_id = ?",
        (conversation_id,),
    )
    is_held = turn is not None and turn["state"] == TURN_RUNNING and not is_abandoned(turn, now)
    if is_held and turn is not None and not _is_of(given_up, conversation_id, turn):
        raise ConversationBusyError(conversation_id)
    fence = 1 if turn is None else turn["fence"] + 1
    owner = this_process()
    conn.execute(
        "INSERT INTO turns (conversation_id, session_id, state, owner, fence, heartbeat_at,"
        " started_at, attempts, deliver_to, needs_format)"
        " VALUES (?1, ?2, 'running', ?3, ?4, ?5, ?5, 1, ?6, ?7)"
        " ON CONFLICT (conversation_id) DO UPDATE SET session_id = ?2, state = 'running',"
        " owner = ?3, fence = ?4, heartbeat_at = ?5, started_at = ?5, attempts = 1,"
        " attempts_without_progress = 0, deliver_to = ?6, needs_format = ?7"
        " WHERE turns.fence = ?4 - 1",
        (
            conversation_id,
            session_id,
            owner,
            fence,
            now,
            encode_json(dict(deliver_to), "deliver_to") if deliver_to else None,
            needed("turn", names_in(deliver_to)),
        ),
    )
    if not conn.changes():  # another process was first: the number is taken
        raise ConversationBusyError(conversation_id)
    return Lease(conversation_id, fence, owner)


def _is_of(lease: Lease | None, conversation_id: str, turn: Mapping[str, Any]) -> bool:
    return lease == (conversation_id, turn["fence"], turn["owner"])


def require_lease(conn: Connection, lease: Lease) -> None:
    """Raise LeaseLostError unless the turn is still run under this lease."""
    if not holds(conn, lease):
        raise LeaseLostError(lease.conversation_id)


def holds(conn: Connection, lease: Lease) -> bool:
    """Whether the turn is still run under this lease."""
    return (
        value(
            conn,
            "SELECT 1 FROM turns WHERE conversation_id = ? AND fence = ? AND owner = ?"
            " AND state = 'running'",
            lease,
        )
        is not None
    )


def note_progress(conn: Connection, lease: Lease) -> None:
    """Record progress (a tool has finished): earlier attempts did not fail because of this turn."""
    conn.execute(
        "UPDATE turns SET attempts_without_progress = 0"
        " WHERE conversation_id = ? AND fence = ? AND owner = ? AND attempts_without_progress > 0",
        lease,
    )


def raise_format(conn: Connection, lease: Lease, needs_format: int) -> None:
    """A turn has taken in what only some releases understand: it is theirs to go on with."""
    conn.execute(
        "UPDATE turns SET needs_format = ?1 WHERE conversation_id = ?2 AND fence = ?3"
        " AND owner = ?4 AND (needs_format IS NULL OR needs_format < ?1)",
        (needs_format, *lease),
    )


def is_abandoned(turn: Mapping[str, Any], now: float) -> bool:
    """Whether nobody runs a turn any more that has not ended, and that this release may end: one
    that it does not understand is left to a newer."""
    return understands(turn["needs_format"]) and is_ownerless(turn, now)


def is_ownerless(turn: Mapping[str, Any], now: float) -> bool:
    """Whether a turn that has not ended has no living owner, whichever release may resume it."""
    if turn["state"] != TURN_RUNNING:
        return False
    # A clock that was set back must not keep a dead turn for long.
    silent = abs(now - turn["heartbeat_at"])
    return silent > LEASE_SECONDS or is_gone(turn["owner"], this_boot=True)


def end_lease(conn: Connection, lease: Lease) -> bool:
    """End the turn; False if the lease was lost."""
    conn.execute(
        "UPDATE turns SET state = 'ended', deliver_to = NULL"
        " WHERE conversation_id = ? AND fence = ? AND owner = ? AND state = 'running'",
        lease,
    )
    ended = conn.changes() > 0
    if ended:
        conn.execute(
            "DELETE FROM tool_runs WHERE conversation_id = ? AND state <> 'unknown'",
            (lease.conversation_id,),
        )
    return ended


def beat(conn: Connection, leases: Iterable[Lease]) -> list[Lease]:
    """Renew the leases of these turns; returns those that another process has taken."""
    now = conn.now()
    lost = []
    for lease in leases:
        conn.execute(
            "UPDATE turns SET heartbeat_at = ? WHERE conversation_id = ? AND fence = ?"
            " AND owner = ? AND state = 'running'",
            (now, *lease),
        )
        if not conn.changes():
            lost.append(lease)
    return lost


def list_abandoned(conn: Connection, conversation_id: str | None = None) -> list[dict[str, Any]]:
    """Abandoned turns, oldest first.

    Each with its conversation's `source`, `session_key`, `user_id` and `cwd`, with the names of the
    `tools` that it has started, and with how many seconds ago, by the store's clock, it was begun
    (`age`) and last worked on (`silent`).
    """
    now = conn.now()
    turns = rows(
        conn,
        "SELECT t.*, s.source, s.session_key, s.user_id, s.cwd, s.parent_session_id,"
        " s.title FROM turns t JOIN sessions s ON s.id = t.session_id"
        " WHERE t.state = 'running' AND (CAST(?1 AS TEXT) IS NULL OR t.conversation_id = ?1)"
        " ORDER BY t.started_at, t.conversation_id",
        (conversation_id,),
    )
    abandoned = [turn for turn in turns if is_abandoned(turn, now)]
    for turn in abandoned:
        turn["deliver_to"] = decode_json(turn["deliver_to"])
        turn["tools"] = column(
            conn,
            "SELECT DISTINCT tool_name FROM tool_runs WHERE conversation_id = ? AND fence > ?"
            " ORDER BY tool_name",
            (turn["conversation_id"], turn["fence"] - turn["attempts"]),
        )
        turn["age"], turn["silent"] = now - turn["started_at"], now - turn["heartbeat_at"]
    return abandoned


def read_clock(conn: Connection) -> float:
    """The time by the store's clock, which is the same for all who use it."""
    return conn.now()


def list_running(conn: Connection) -> set[str]:
    """The conversations in which a turn runs, in any process; abandoned ones are among them."""
    return set(column(conn, "SELECT conversation_id FROM turns WHERE state = 'running'"))


def get_turn(conn: Connection, conversation_id: str) -> dict[str, Any] | None:
    """The turn a conversation is in, or was in last."""
    return row(conn, "SELECT * FROM turns WHERE conversation_id = ?", (conversation_id,))


def seize(
    conn: Connection, conversation_id: str, fence: int, is_again: bool = False
) -> Lease | None:
    """Take an abandoned turn over under the next number; None if another process was first.

    With `is_again` the caller has tried before and does not know the outcome: if the turn has the
    next number and this process as its owner, it is the caller's.
    """
    turn = get_turn(conn, conversation_id)
    now = conn.now()
    seized = Lease(conversation_id, fence + 1, this_process())
    if is_again and turn is not None and _is_of(seized, conversation_id, turn):
        return None if beat(conn, [seized]) else seized
    if turn is None or turn["fence"] != fence or not is_abandoned(turn, now):
        return None
    conn.execute(
        "UPDATE turns SET fence = fence + 1, owner = ?, heartbeat_at = ?, attempts = attempts + 1,"
        " attempts_without_progress = attempts_without_progress + 1"
        " WHERE conversation_id = ? AND fence = ? AND owner = ?",
        (seized.owner, now, conversation_id, fence, turn["owner"]),
    )
    return seized if conn.changes() else None


def forget_session(conn: Connection, session_id: str, conversation_id: str) -> None:
    """A session is gone: its conversation's turn goes with the last one, or names another."""
    conn.execute(
        "UPDATE turns SET session_id = (SELECT id FROM sessions WHERE conversation_id = ?1 LIMIT 1)"
        " WHERE conversation_id = ?1 AND session_id = ?2"
        " AND EXISTS (SELECT 1 FROM sessions WHERE conversation_id = ?1)",
        (conversation_id, session_id),
    )
    for table in ("turns", "tool_runs", "signals", "watches", "watched_events"):
        conn.execute(
            f"DELETE FROM {table} WHERE conversation_id = ?1"
            " AND NOT EXISTS (SELECT 1 FROM sessions WHERE conversation_id = ?1)",
            (conversation_id,),
        )
