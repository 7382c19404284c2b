"""The turns of live sessions: who may begin one, and what a prompt does while one runs.

A session that has something to do is claimed, by one thread at a time, which then does all of it
(`session_door`). Checking the queue and releasing the claim are one step, so no prompt that was
stored meanwhile is missed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from conversation import abandoned
from conversation.busy import offer
from conversation.door import Abandoned
from hermes_state import StoreError

from . import asking, history, live
from .hub import Hub, Session
from .inbox import Notes, Prompt, accept, first, mark_running, prompt_id
from .rpc import SESSION_BUSY, RpcError

if TYPE_CHECKING:
    Work: TypeAlias = "Prompt | Notes | Abandoned"

log = logging.getLogger(__name__)

TAKE_OVER_SECONDS = 2.0
"""How long opening a conversation waits for the take-over of its abandoned turn."""


def submit(
    hub: Hub,
    sid: str,
    session: Session,
    content: Any,
    message_id: str | None = None,
    busy: str | None = None,
) -> str:
    """Accept a prompt: begin with it, or do with the running turn as configured.

    Returns "streaming", "queued", "steered" or "interrupting"; "known" if `message_id` was sent
    before. `busy` is what this prompt does to a running turn, if not as configured. Raises if it
    cannot be stored.
    """
    mode = busy or _busy_mode(hub, session)
    inbox_id = accept(hub, session, content, message_id, mode=mode)
    if inbox_id is None:
        return "known"
    if _claim(session):
        # Prompts that came earlier and still wait go first.
        begun = _go_on(hub, sid, session, Prompt(content, inbox_id))
        return "streaming" if begun is None or prompt_id(begun) == inbox_id else "queued"
    with session["history_lock"]:
        if session.get("prompt_id") == inbox_id:
            return "streaming"  # the turn before has ended meanwhile
        if session.get("awaits_other"):  # whoever waits offers it to the turn (`session_door`)
            if mode == "interrupt":
                return "interrupting"
            return "steered" if mode == "steer" and isinstance(content, str) else "queued"
        taken = offer(session.get("agent"), mode, content, inbox_id)
        if mode == "interrupt" and taken != "steered" and _stop(session):
            return "interrupting"  # also one that is still being prepared
        return taken


def _busy_mode(hub: Hub, session: Session) -> str:
    """What a prompt does to a running turn: as chosen for the session, or as configured."""
    if chosen := session.get("busy_mode"):
        return str(chosen)
    try:
        return hub.get_config().display.busy_input_mode
    except Exception:  # noqa: BLE001 - the prompt is accepted; its turn reports the broken configuration
        return "queue"


def steer(hub: Hub, sid: str, session: Session, text: str) -> str:
    """Add a message to the running turn, here or in another process; without one it waits like any
    other."""
    inbox_id = accept(hub, session, text, mode="steer") or ""
    with session["history_lock"]:
        is_other = session.get("running") and session.get("prompt_id") != inbox_id
        awaits_other = session.get("awaits_other") is not None
        agent = None if awaits_other or not is_other else session.get("agent")
        if agent is not None and offer(agent, "steer", text, inbox_id) == "steered":
            return "steered"
    is_elsewhere = awaits_other or abandoned.runs_elsewhere(hub.get_db(), live.current_key(session))
    run_waiting(hub, sid, session)
    return "steered" if is_elsewhere else "queued"


def interrupt(session: Session) -> bool:
    """Stop the running turn, also one that is still being prepared; False if none runs."""
    with session["history_lock"]:
        return _stop(session)


def _stop(session: Session) -> bool:
    # The flag first, then the interruption: a turn that begins in between sees the flag.
    running = bool(session.get("running"))
    session["stop_wanted"] = running
    agent = session.get("agent")
    stopped = agent is not None and bool(agent.interrupt())
    if (ring := session.get("awaits_other")) is not None:
        ring()  # it waits for a turn of another process
    asking.withdraw_all(session)
    return running or stopped


def stop_elsewhere(hub: Hub, sid: str, session: Session) -> bool:
    """Stop the turn that another process runs; False if none does.

    Its answer is waited for in a thread: other calls must not wait meanwhile.
    """
    from agent.elsewhere import NotHeardError, stop_elsewhere

    db, key = hub.get_db(), live.current_key(session)
    turn = abandoned.other_turn(db, key)
    if turn is None:
        return False

    def stop() -> None:
        try:
            stop_elsewhere(db, key, turn["started_at"])
        except (NotHeardError, StoreError) as error:
            hub.emit("status.update", sid, {"kind": "notice", "text": str(error)})

    threading.Thread(target=stop, name="hermes-stop", daemon=True).start()
    return True


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
    """Run what waits in a session, if no turn runs: an abandoned turn, prompts.

    With `is_opened`, because a client opens the conversation here, also prompts that were sent to
    another process and not run there.
    """
    db, key = hub.get_db(), live.current_key(session)
    if is_opened and not abandoned.runs_elsewhere(db, key):
        session["adopted"] = {row["id"] for row in db.list_waiting(key)}
    is_wanted = first(hub, session) is not None or abandoned.has_abandoned_turn(db, key)
    if is_wanted and _claim(session):
        _go_on(hub, sid, session)


def await_take_over(session: Session) -> None:
    """Wait a moment until an abandoned turn is taken over, here or elsewhere, or closed."""
    if (settled := session.get("take_over_settled")) is not None:
        settled.wait(TAKE_OVER_SECONDS)


def begin_with(hub: Hub, session: Session, turn: Abandoned) -> None:
    """Make a session live for an abandoned turn, without clients, and finish it."""
    mark_running(session, turn)
    _start(hub, live.add(hub, session, None), session, turn)


def _go_on(hub: Hub, sid: str, session: Session, newest: Prompt | None = None) -> Work | None:
    """Run what comes first, or release the claim if nothing waits.

    Checking and releasing are one step: a caller that found the session claimed has stored its
    prompt before, so it is seen here.
    """
    with session["history_lock"]:
        work: Work | None = None
        try:
            if not session.get("_finalized"):
                work = _abandoned(hub, sid, session) or first(hub, session) or newest
        finally:
            mark_running(session, work)
    if work is not None:
        _start(hub, sid, session, work)
    return work


def _abandoned(hub: Hub, sid: str, session: Session) -> Abandoned | None:
    """The conversation's abandoned turn; one that is not to be resumed is closed, and shown so."""
    try:
        db, config = hub.get_db(), hub.get_config()
        settings, workspace = config.agent, config.replicas.workspace
        row = abandoned.find_abandoned_turn(db, live.current_key(session))
        if row is None:
            return None
        if abandoned.is_resumed(row, settings, workspace):
            return Abandoned(row)
        abandoned.take_over_turn(db, row, settings, workspace)
        history.reload(hub, sid, session)
    except Exception:
        # The configuration or the store: the next prompt meets the same error and reports it.
        log.exception("Cannot take over the abandoned turn in %s", sid)
    return None


def _claim(session: Session) -> bool:
    """Whether the caller may run turns in this session now."""
    with session["history_lock"]:
        if session.get("running") or session.get("_finalized"):
            return False
        mark_running(session, Prompt(None, ""))
        return True


def _start(hub: Hub, sid: str, session: Session, work: Work) -> None:
    def run() -> None:
        from .session_door import run

        run(hub, sid, session, work)

    threading.Thread(target=run, name=f"hermes-turn-{sid}", daemon=True).start()
