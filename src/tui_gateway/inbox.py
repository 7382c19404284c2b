"""The queue of prompts: stored before they are acknowledged, run in the order they came.

A prompt goes into the store's inbox; a turn takes it from there in the step that stores the user's
message. What waits (because a turn runs, or because the server was killed) is run next. Where no
prompt waits, waiting notes (the end of a background process, say) begin a turn of their own.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent.home import hermes_home
from conversation.door import Abandoned
from hermes_base.process import is_gone, this_process

from . import live
from .hub import Hub, Session

_OF = "\x1f"
"""Between the id of a prompt and whose it is, in the inbox."""
SOURCE = "tui"
OWNER = "accepted_by"
"""Which process a prompt was sent to: as long as it lives, nobody else runs it."""


STEERS = "steers"
"""Whether a turn of another process is to read a prompt that waits for its end."""
INTERRUPTS = "interrupts"
"""Whether it is to make way for it instead."""


class Prompt(NamedTuple):
    """A prompt and the row of the inbox it has."""

    content: Any
    inbox_id: str


@dataclass(frozen=True, slots=True)
class Notes:
    """The waiting notes of a conversation."""


def accept(
    hub: Hub,
    session: Session,
    content: Any,
    message_id: str | None = None,
    *,
    mode: str = "queue",
) -> str | None:
    """Store a prompt before it is acknowledged; returns its inbox id.

    A client that does not know whether its prompt arrived sends it again under the same
    `message_id`; then the result is None. In `mode` "steer" it may be read by a turn that another
    process runs, in mode "interrupt" such a turn makes way for it.
    """
    db, key = hub.get_db(), live.current_key(session)
    if isinstance(content, str):
        from tools.objects.in_texts import put_pastes  # with tools: not before it is ready

        put_pastes(db, hermes_home(), content, key)
    own = message_id or f"{time.time_ns():x}:{os.urandom(4).hex()}"
    # Two persons' clients may choose the same id.
    whose = session.get("user_id")
    inbox_id = f"tui:{own}{_OF}{whose}" if whose else f"tui:{own}"
    facts = {
        name: session[name]
        for name in ("cwd", "model", "provider", "reasoning_effort", "pending_title", "user_id")
        if session.get(name)
    }
    if mode == "steer" and isinstance(content, str):
        facts[STEERS] = True
    elif mode == "interrupt":
        facts[INTERRUPTS] = True
    is_new = db.accept_message(
        inbox_id,
        key,
        content,
        source=SOURCE,
        user_id=session.get("user_id"),
        facts={**facts, OWNER: this_process()},
    )
    return inbox_id if is_new else None


def oldest(hub: Hub, session: Session) -> Prompt | None:
    """The prompt that has waited longest, of those that this server is to run."""
    return next((Prompt(row["content"], row["id"]) for row in list_own(hub, session)), None)


def own_id(inbox_id: str | None) -> str:
    """The id a prompt was sent with, as its client knows it."""
    own, mark, _ = (inbox_id or "").removeprefix("tui:").rpartition(_OF)
    return own if mark else (inbox_id or "").removeprefix("tui:")


def list_own(hub: Hub, session: Session) -> list[dict[str, Any]]:
    """The rows of the prompts that wait and that this server is to run, oldest first."""
    waiting = hub.get_db().list_waiting(live.current_key(session))
    return [row for row in waiting if _is_ours(row, session)]


def first(hub: Hub, session: Session) -> Prompt | Notes | None:
    """What is to be run next: the oldest prompt, which brings the notes along, or the notes."""
    prompt = oldest(hub, session)
    # A substitute for a store may answer anything; that is no note.
    if prompt is None and hub.get_db().has_notes(live.current_key(session)) is True:
        return Notes()
    return prompt


def _is_ours(row: dict[str, Any], session: Session) -> bool:
    owner = row["facts"].get(OWNER)
    is_left = owner is None or is_gone(owner) or row["id"] in session.get("adopted", ())
    return is_left or owner == this_process()


def mark_running(session: Session, work: object | None, *, is_stopped: bool = False) -> None:
    """Set what is being answered; None when nothing is. `is_stopped` is whether it was stopped
    before it began."""
    session["running"] = work is not None
    session["prompt_id"] = None if work is None else prompt_id(work)
    session["stop_wanted"] = is_stopped
    session["inflight"] = None
    _set(session, "turn_done", work is None)
    _set(session, "take_over_settled", not isinstance(work, Abandoned))


def _set(session: Session, name: str, is_set: bool) -> None:
    event = session.setdefault(name, threading.Event())
    if is_set:
        event.set()
    else:
        event.clear()


def prompt_id(work: object) -> str:
    """The row of the inbox that is being answered; empty if it is not a prompt."""
    return work.inbox_id if isinstance(work, Prompt) else ""
