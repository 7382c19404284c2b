"""Running prompts: one turn at a time per session, each prompt stored before it is accepted.

A prompt goes into the store's inbox before its sender is told. A turn takes it from there in the
step that stores the user's message. What waits (because a turn runs, or because the server was
killed) is run next, in the order it came. Before all of it comes a turn of the conversation whose
process is gone: it is taken over and brought to its end. Where no prompt waits, what the
conversation is to be told (the end of a background process, say) is a turn of its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from conversation import abandoned
from hermes_base import session_context

from . import agents, asking, live, turn_ends
from .hub import Hub, Session
from .rpc import SESSION_BUSY, RpcError

if TYPE_CHECKING:
    from agent.outcome import TurnOutcome
    from agent.request import TurnRequest
    from hermes_state import TakenTurn

    Work: TypeAlias = "Prompt | Notes | TakenTurn"

log = logging.getLogger(__name__)

SOURCE = "tui"
OWNER = "accepted_by"
"""Which process a prompt was sent to: as long as it lives, nobody else runs it."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and the row of the inbox it has."""

    content: Any
    inbox_id: str


@dataclass(frozen=True, slots=True)
class Notes:
    """What a conversation is to be told without anybody having asked."""


def submit(
    hub: Hub, sid: str, session: Session, content: Any, message_id: str | None = None
) -> str:
    """Accept a prompt: begin with it, or do with the running turn as configured.

    Returns "streaming", "queued", "steered" or "interrupting"; "known" if `message_id` was sent
    before. Raises if it cannot be stored.
    """
    inbox_id = accept(hub, session, content, message_id)
    if inbox_id is None:
        return "known"
    if _claim(session):
        # What came earlier and still waits goes first.
        first = _go_on(hub, sid, session, Prompt(content, inbox_id))
        return "streaming" if first is None or _prompt_id(first) == inbox_id else "queued"
    mode = session.get("busy_mode") or hub._get_config().display.busy_input_mode
    with session["history_lock"]:
        if session.get("prompt_id") == inbox_id:
            return "streaming"  # the turn before has ended meanwhile
        agent = session.get("agent")
        if mode == "steer" and isinstance(content, str) and agent is not None:
            if agent.steer(content, inbox_id):
                return "steered"
        elif mode == "interrupt" and not session.get("awaits_other") and _stop(session):
            return "interrupting"
    return "queued"


def accept(hub: Hub, session: Session, content: Any, message_id: str | None = None) -> str | None:
    """Store a prompt before anybody is told that it was taken; returns its inbox id.

    A client that does not know whether its prompt arrived sends it again under the same
    `message_id`; then the result is None.
    """
    from hermes_base.process import this_process

    inbox_id = f"tui:{message_id or f'{time.time_ns():x}:{os.urandom(4).hex()}'}"
    facts = {
        name: session[name]
        for name in ("cwd", "model", "provider", "reasoning_effort", "pending_title", "user_id")
        if session.get(name)
    }
    is_new = hub._get_db().accept_message(
        inbox_id,
        live.current_key(session),
        content,
        source=SOURCE,
        user_id=session.get("user_id"),
        facts={**facts, OWNER: this_process()},
    )
    return inbox_id if is_new else None


def steer(hub: Hub, sid: str, session: Session, text: str) -> str:
    """Add a message to the running turn; without one it waits like any other."""
    inbox_id = accept(hub, session, text)
    with session["history_lock"]:
        agent = session.get("agent")
        if (
            agent is not None
            and session.get("running")
            and session.get("prompt_id") != inbox_id
            and agent.steer(text, inbox_id)
        ):
            return "steered"
    run_waiting(hub, sid, session)
    return "queued"


def interrupt(session: Session) -> bool:
    """Stop the running turn, also one that is still being prepared; False if none runs."""
    with session["history_lock"]:
        return _stop(session)


def _stop(session: Session) -> bool:
    # Wanted first, then asked for: a turn that begins in between finds that it is wanted.
    running = bool(session.get("running"))
    session["stop_wanted"] = running
    agent = session.get("agent")
    stopped = agent is not None and bool(agent.interrupt())
    asking.withdraw_all(session)
    return running or stopped


@contextlib.contextmanager
def occupied(hub: Hub, sid: str, session: Session, what: str) -> Iterator[None]:
    """Keep turns out of a session while `what` is done; what came meanwhile is run afterwards."""
    if not _claim(session):
        raise RpcError(
            SESSION_BUSY, f"A turn is running. Interrupt it or wait for its end to {what}."
        )
    try:
        yield
    finally:
        _go_on(hub, sid, session)


def run_waiting(hub: Hub, sid: str, session: Session, *, is_opened: bool = False) -> None:
    """Begin with what a session has to do, if no turn runs: a turn that was cut off, prompts.

    With `is_opened`, because somebody opens the conversation here, also with prompts that were sent
    to another process which does nothing about them.
    """
    db, key = hub._get_db(), live.current_key(session)
    if is_opened and not abandoned.runs_elsewhere(db, key):
        session["adopted"] = {row["id"] for row in db.list_waiting(key)}
    is_wanted = _first(hub, session) is not None or abandoned.has_abandoned_turn(db, key)
    if is_wanted and _claim(session):
        _go_on(hub, sid, session)


def begin_with(hub: Hub, session: Session, taken: TakenTurn) -> None:
    """Make a session live for a turn that was taken over, with nobody watching, and run it."""
    _mark_running(session, taken)
    _start(hub, live.add(hub, session, None), session, taken)


def _go_on(hub: Hub, sid: str, session: Session, newest: Prompt | None = None) -> Work | None:
    """Begin with what comes first, or give the claim back if there is nothing.

    Looking and giving back are one step: whoever found the session claimed has stored its prompt
    before, so it is seen here.
    """
    with session["history_lock"]:
        first: Work | None = None
        try:
            if not session.get("_finalized"):
                first = _left_here(hub, sid, session) or _first(hub, session) or newest
        finally:
            _mark_running(session, first)
    if first is not None:
        _start(hub, sid, session, first)
    return first


def _left_here(hub: Hub, sid: str, session: Session) -> TakenTurn | None:
    try:
        return _cut_off(hub, sid, session)
    except Exception:
        # The configuration or the store: a prompt that comes next meets it too, and tells.
        log.exception("Cannot take over the turn in %s", sid)
        return None


def _cut_off(hub: Hub, sid: str, session: Session) -> TakenTurn | None:
    """The conversation's turn if its process is gone: this one's from now on, or closed."""
    db, key = hub._get_db(), live.current_key(session)
    if not abandoned.has_abandoned_turn(db, key):
        return None
    taken = abandoned.take_over(db, key, hub._get_config().agent)
    reload_history(hub, sid, session)
    return taken


def reload_history(hub: Hub, sid: str, session: Session) -> None:
    """Somebody else has written to the conversation: follow, and let the clients do so."""
    messages = _stored(hub, session)
    with session["history_lock"]:
        session["history"] = messages
        session["history_version"] = session.get("history_version", 0) + 1
        hub._emit("history.changed", sid)


def follow_writes(hub: Hub, sid: str, session: Session) -> None:
    """See whether another process has written to an idle session's conversation meanwhile."""
    db = hub._get_db()
    tip = db.get_compression_tip(live.current_key(session))
    row = db.get_session(tip)
    version = None if row is None else (tip, row["version"])
    if version == session.get("seen_version"):
        return
    stored = _stored(hub, session)
    with session["history_lock"]:
        if session.get("running") or session.get("_finalized"):
            return  # its own turn follows
        is_known = _said(stored) == _said(session["history"])
        session["seen_version"] = version
    if not is_known:
        reload_history(hub, sid, session)


def _said(messages: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(message.get("role"), message.get("content")) for message in messages]


def _stored(hub: Hub, session: Session) -> list[dict[str, Any]]:
    db = hub._get_db()
    return db.get_messages_as_conversation(db.get_compression_tip(live.current_key(session)))


def _oldest(hub: Hub, session: Session) -> Prompt | None:
    """The prompt that has waited longest, of those that this server is to run."""
    waiting = hub._get_db().list_waiting(live.current_key(session))
    return next(
        (Prompt(row["content"], row["id"]) for row in waiting if _is_ours(row, session)), None
    )


def _first(hub: Hub, session: Session) -> Prompt | Notes | None:
    """What is to be run next: the oldest prompt, which brings the notes along, or the notes."""
    oldest = _oldest(hub, session)
    # A store that stands in for a real one may answer anything; that is no note.
    if oldest is None and hub._get_db().has_notes(live.current_key(session)) is True:
        return Notes()
    return oldest


def _is_ours(row: dict[str, Any], session: Session) -> bool:
    from hermes_base.process import is_gone, this_process

    owner = row["facts"].get(OWNER)
    is_left = owner is None or is_gone(owner) or row["id"] in session.get("adopted", ())
    return is_left or owner == this_process()


def _claim(session: Session) -> bool:
    """Whether the caller may run turns in this session now."""
    with session["history_lock"]:
        if session.get("running") or session.get("_finalized"):
            return False
        _mark_running(session, Prompt(None, ""))
        return True


def _start(hub: Hub, sid: str, session: Session, first: Work) -> None:
    def work() -> None:
        _run_all(hub, sid, session, first)

    thread = threading.Thread(target=work, name=f"hermes-turn-{sid}", daemon=True)
    thread.start()


def _prompt_id(work: Work) -> str:
    return work.inbox_id if isinstance(work, Prompt) else ""


def _mark_running(session: Session, work: Work | None) -> None:
    """Say what is being answered; None when nothing is."""
    session["running"] = work is not None
    session["prompt_id"] = None if work is None else _prompt_id(work)
    session["stop_wanted"] = False
    session["inflight"] = None
    done = session.setdefault("turn_done", threading.Event())
    if work is None:
        done.set()
    else:
        done.clear()


def _run_all(hub: Hub, sid: str, session: Session, first: Work) -> None:
    """Do one thing, then what has come meanwhile."""
    work: Work | None = first
    while work is not None:
        try:
            complete = _when_free(hub, sid, session, work)
        except Exception as error:
            # The boundary of the turn: whatever happened, the user is told and the session goes on.
            log.exception("The turn in %s failed", sid)
            complete = turn_ends.failed(f"{type(error).__name__}: {error}")
        with session["history_lock"]:
            work = None if session.get("_finalized") else _next(hub, session, work, complete)
            if complete is not None:
                hub._emit("message.complete", sid, complete)
            _mark_running(session, work)


def _next(
    hub: Hub, session: Session, last: Work, complete: dict[str, Any] | None
) -> Prompt | Notes | None:
    not_told = complete is None and isinstance(last, Notes)  # by another process, perhaps
    if (complete is None and not not_told) or (complete or {}).get("unstored"):
        return None  # the store does not take anything now; what waits stays there
    try:
        return _oldest(hub, session) if not_told else _first(hub, session)
    except Exception:
        # What waits is on disk and is run when the session is opened again.
        log.exception("Cannot look for waiting prompts")
        return None


def _when_free(hub: Hub, sid: str, session: Session, work: Work) -> dict[str, Any] | None:
    """Run what is to be run, a prompt only when no turn is left in its conversation.

    If one is, and is this process's now, the prompt stays in the inbox and comes next.
    """
    if isinstance(work, Notes):
        # Whoever has the turn is told them at its next step, or has them taken when it ends.
        busy = abandoned.runs_elsewhere(hub._get_db(), live.current_key(session))
        return None if busy else _run(hub, sid, session, work)
    if not isinstance(work, Prompt):
        return _run(hub, sid, session, work)
    taken = None
    try:
        if not _await_other(hub, sid, session):
            if session.get("_finalized"):
                return None  # the prompt waits until the session is opened again
            hub._get_db().drop_message(work.inbox_id)
            return turn_ends.not_begun()
        with session["history_lock"]:
            taken = _cut_off(hub, sid, session)
            if taken is not None:
                _mark_running(session, taken)
    except Exception as error:  # noqa: BLE001 - configuration, store: the user is told
        return turn_ends.not_built(hub, sid, error)
    return _run(hub, sid, session, taken or work)


def _await_other(hub: Hub, sid: str, session: Session) -> bool:
    """Wait for the end of a turn that another process runs; False if it is not to be waited for."""
    key = live.current_key(session)

    def tell(text: str) -> None:
        session["awaits_other"] = True
        hub._emit("status.update", sid, {"kind": "notice", "text": text})

    def is_stopped() -> bool:
        return bool(session.get("stop_wanted") or session.get("_finalized"))

    try:
        has_ended = abandoned.await_end(hub._get_db(), key, tell, is_stopped)
    finally:
        has_waited = session.pop("awaits_other", False)
    if has_waited:
        session["elsewhere"] = not has_ended  # then `take_over` tells of its end
    if has_waited and has_ended:
        reload_history(hub, sid, session)
    return has_ended


def _run(hub: Hub, sid: str, session: Session, work: Work) -> dict[str, Any] | None:
    """One turn; returns the payload of message.complete, None if it was not begun."""
    key = live.current_key(session)
    session_context.set_session_vars(
        platform=SOURCE, source=SOURCE, session_id=key, ui_session_id=sid,
        user_id=session.get("user_id"),
    )  # fmt: skip
    try:
        agent = agents.ensure_agent(hub, sid, session)
    except Exception as error:  # noqa: BLE001 - configuration, store, model: the user is told
        return turn_ends.not_built(hub, sid, error)
    if session.get("_finalized"):
        return None  # closed meanwhile: what is to be done waits until it is opened again
    session["recovered"] = not isinstance(work, Prompt | Notes)
    session["noted"] = isinstance(work, Notes)
    session["prompt"] = work.content if isinstance(work, Prompt) else ""
    renderer = hub.make_stream_renderer(session.get("cols", 80))

    def stream(text: str) -> None:
        if session.get("inflight") is None:
            agents.message_begins(hub, sid, session)
        agents.emit_text(hub, sid, session, "message.delta", text, renderer)

    if not isinstance(work, Prompt | Notes):
        hub.reap_left_processes()  # they must not go on beside what is done now
    outcome = agents.run(agent, _request(work), stream)
    warning, unstored = None, False
    if isinstance(work, Prompt):
        warning, unstored = _settle(hub, session, work, outcome)
    elif isinstance(work, Notes):
        if not outcome.failed and outcome.is_silent:  # nothing to tell
            return None
        unstored = outcome.failed and hub._get_db().has_notes(agent.session_id)
    hub._sync_session_key_after_compress(
        sid, session, clear_pending_title=False, restart_slash_worker=True
    )
    with session["history_lock"]:
        if isinstance(outcome.messages, list):
            session["history"] = outcome.messages
            session["history_version"] = session.get("history_version", 0) + 1
        if outcome.is_silent:
            session["elsewhere"] = True  # `take_over` tells when it has been answered there
            session["history"] = _stored(hub, session)
    apply_pending_title(hub, sid, session)
    complete = turn_ends.completed(hub, session, outcome, warning)
    return {**complete, "unstored": True} if unstored else complete


def _request(work: Work) -> TurnRequest:
    """The turn that is asked of the agent."""
    from agent.request import Question, TakenOver, WaitingNotes

    if isinstance(work, Prompt):
        return Question(work.content, (work.inbox_id,))
    return WaitingNotes() if isinstance(work, Notes) else TakenOver(work)


def _settle(
    hub: Hub, session: Session, prompt: Prompt, outcome: TurnOutcome
) -> tuple[str | None, bool]:
    """Let a prompt that was begun with wait no more.

    Returns a warning for the person, and whether the prompt was refused and still waits.
    """
    db = hub._get_db()
    try:
        if outcome.failed and not outcome.api_calls:
            waiting = db.list_waiting(live.current_key(session))
            return None, any(row["id"] == prompt.inbox_id for row in waiting)
        if db.drop_message(prompt.inbox_id) and outcome.interrupted:
            return turn_ends.NOT_BEGUN, False
    except Exception:
        # It would be answered twice only if the store also lost that it was taken.
        log.exception("Cannot settle the prompt %s", prompt.inbox_id)
        return None, outcome.failed
    return None, False


def apply_pending_title(hub: Hub, sid: str, session: Session) -> None:
    """Give the session the title that was asked for before it had a row."""
    title = session.get("pending_title")
    if not title:
        return
    try:
        if not hub._get_db().set_session_title(live.current_key(session), title):
            return  # no row yet: kept for the next turn
    except ValueError as error:
        # The title can never be set: another has it, or it is not one.
        log.info("The title %r is dropped: %s", title, error)
        hub._emit("status.update", sid, {"kind": "warn", "text": f"Title not set: {error}"})
        session["pending_title"] = None
        return
    except Exception:
        # Whatever it was may pass: kept for the next turn.
        log.warning("The title %r could not be set yet", title, exc_info=True)
        return
    session["pending_title"] = None
    session["title"] = title
    hub._emit("session.title", sid, {"session_id": live.current_key(session), "title": title})
