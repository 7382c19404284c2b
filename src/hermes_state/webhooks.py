"""Events that other programs are told of: stored with what they tell, once under their id.

Which hooks want which events lies in `state_meta` (`webhooks`), where the gateway that sends them
puts what is configured. An event is an outbox row for each hook that wants it, in the transaction
that makes it happen; the platform `events` sends it, signed, until it is taken. A hook gets the
events of one person, or of everybody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .dialect import Connection, row
from .outbox import add_delivery
from .owners import stored_owner
from .sessions import get_meta, set_meta
from .turns import Lease

PLATFORM = "events"
KEY = "webhooks"
EVERYBODY = "everybody"
TURN_ENDED, JOB_FAILED, APPROVAL_WANTED = "turn.ended", "job.failed", "approval.wanted"
EVENTS = (TURN_ENDED, JOB_FAILED, APPROVAL_WANTED)


class Webhook(NamedTuple):
    """A program that wants to be told."""

    name: str
    events: tuple[str, ...]
    person: str
    """Whose events: a person's id, "operator" or "everybody"."""


def set_webhooks(conn: Connection, hooks: Iterable[Webhook]) -> None:
    """Replace the hooks that get events from now on."""
    wanted = json.dumps([hook._asdict() for hook in hooks])
    if (get_meta(conn, KEY) or "[]") != wanted:
        set_meta(conn, KEY, wanted)


def list_webhooks(conn: Connection) -> list[Webhook]:
    """The hooks that get events."""
    kept = get_meta(conn, KEY)
    given = json.loads(kept) if kept else []
    return [Webhook(hook["name"], tuple(hook["events"]), hook["person"]) for hook in given]


def enqueue_event(
    conn: Connection, kind: str, event_id: str, owner: str | None, facts: Mapping[str, Any]
) -> None:
    """Insert outbox rows for the hooks that want an event; nothing if it was there before."""
    for hook in list_webhooks(conn):
        whose = hook.person == EVERYBODY or stored_owner(hook.person) == stored_owner(owner)
        if not whose or kind not in hook.events:
            continue
        event = {"type": kind, "id": event_id, "timestamp": conn.now(), "data": dict(facts)}
        add_delivery(
            conn, f"say:event:{event_id}:{hook.name}", json.dumps(event, ensure_ascii=False),
            session_key=f"{PLATFORM}:{hook.name}", platform=PLATFORM, chat_id=hook.name,
        )  # fmt: skip


def note_turn_ended(conn: Connection, lease: Lease, outcome: str) -> None:
    """The event of a turn's end: `answered`, or `closed` without an answer of its own."""
    if not get_meta(conn, KEY):
        return
    session = row(
        conn,
        "SELECT s.id, s.source, s.title, s.user_id FROM turns t JOIN sessions s"
        " ON s.id = t.session_id WHERE t.conversation_id = ?",
        (lease.conversation_id,),
    )
    if session is not None:
        facts = {
            "conversation_id": lease.conversation_id, "session_id": session["id"],
            "turn": lease.fence, "source": session["source"], "title": session["title"],
            "outcome": outcome,
        }  # fmt: skip
        event_id = f"turn:{lease.conversation_id}:{lease.fence}"
        enqueue_event(conn, TURN_ENDED, event_id, session["user_id"], facts)
