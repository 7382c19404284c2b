"""Take-over of an abandoned turn: by exactly one process, in one transaction.

With the lease goes what is known of the turn's tools. A result that is stored is used. A call that
had started and could do harm if it ran twice is answered "outcome unknown"; every other call is
left open, and the new owner runs it. Or the turn is closed instead, visibly, and the chat that
waits for its answer is told in the same transaction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .codec import decode_json
from .dialect import Connection
from .lineage import get_compression_tip
from .messages import append_messages
from .outbox import add_delivery
from .tool_runs import REPEATABLE, list_tool_runs, settle_runs, unfinished_runs
from .turn_log import close_ends, open_calls, unknown_result
from .turns import Lease, end_lease, get_turn, seize
from .webhooks import note_turn_ended


class TakenTurn(NamedTuple):
    """A turn that the caller has taken over."""

    lease: Lease
    session_id: str
    """Where the conversation is."""
    started_at: float
    """When its question was stored."""
    attempts: int
    """How many processes have worked on it, this one included."""
    deliver_to: dict[str, Any] | None
    """Where its answer is owed to."""
    unknown: list[str]
    """The names of tools whose outcome is unknown."""


def take_over_turn(
    conn: Connection, conversation_id: str, fence: int, is_again: bool = False
) -> TakenTurn | None:
    """Take an abandoned turn over; None if another process was first, or it is not abandoned.

    `fence` is the number under which it was found. `is_again` says that the caller has tried that
    before, and that the server could not tell it the outcome.
    """
    turn = get_turn(conn, conversation_id)
    lease = seize(conn, conversation_id, fence, is_again)
    if turn is None or lease is None:
        return None
    tip = get_compression_tip(conn, turn["session_id"])
    runs = unfinished_runs(conn, conversation_id)
    calls, _ = open_calls(conn, tip)
    harmful = [call for call in calls if runs.get(str(call["id"]), "none") not in REPEATABLE]
    append_messages(conn, tip, [unknown_result(call) for call in harmful])
    settle_runs(conn, conversation_id, [str(call["id"]) for call in harmful])
    unknown = [str(unknown_result(call)["tool_name"]) for call in harmful]
    was_taken = turn["fence"] == lease.fence  # by the first of two tries, which settled them
    if was_taken:
        unknown = [
            str(run["tool_name"])
            for run in list_tool_runs(conn, conversation_id)
            if (run["state"], run["fence"]) == ("unknown", fence)
        ]
    return TakenTurn(
        lease,
        tip,
        float(turn["started_at"]),
        int(turn["attempts"]) + (not was_taken),
        decode_json(turn["deliver_to"]),
        unknown,
    )


def close_abandoned_turn(
    conn: Connection, conversation_id: str, fence: int, notice: str | None = None
) -> bool:
    """Close an abandoned turn in its history; False if another process was first.

    `notice` is put into the outbox for the chat that waits for its answer, if one does.
    """
    turn = get_turn(conn, conversation_id)
    lease = seize(conn, conversation_id, fence)
    if turn is None or lease is None:
        return False
    tip = get_compression_tip(conn, turn["session_id"])
    append_messages(conn, tip, close_ends(conn, tip, turn))
    target = decode_json(turn["deliver_to"])
    if notice and target:
        add_delivery(conn, f"{target['id']}:cut-off:{lease.fence}", notice, **target["to"])
    if end_lease(conn, lease):
        note_turn_ended(conn, lease, "closed")
    return True
