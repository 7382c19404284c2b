"""Running prompts: one turn at a time per session, each prompt stored before it is accepted.

A prompt goes into the store's inbox before its sender is told. A turn takes it from there in the
step that stores the user's message. What waits (because a turn runs, or because the server was
killed) is run next, in the order it came.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gateway import session_context

from . import agents, asking, live
from .hub import Hub, Session
from .rpc import AGENT_FAILED, SESSION_BUSY, RpcError

log = logging.getLogger(__name__)

SOURCE = "tui"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and the row of the inbox it has."""

    content: Any
    inbox_id: str


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
        return "streaming" if first is None or first.inbox_id == inbox_id else "queued"
    mode = session.get("busy_mode") or hub._get_config().display.busy_input_mode
    with session["history_lock"]:
        if session.get("prompt_id") == inbox_id:
            return "streaming"  # the turn before has ended meanwhile
        agent = session.get("agent")
        if mode == "steer" and isinstance(content, str) and agent is not None:
            if agent.steer(content, inbox_id):
                return "steered"
        elif mode == "interrupt" and _stop(session):
            return "interrupting"
    return "queued"


def accept(hub: Hub, session: Session, content: Any, message_id: str | None = None) -> str | None:
    """Store a prompt before anybody is told that it was taken; returns its inbox id.

    A client that does not know whether its prompt arrived sends it again under the same
    `message_id`; then the result is None.
    """
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
        facts=facts,
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


def run_waiting(hub: Hub, sid: str, session: Session) -> None:
    """Begin with what a session has waiting, if no turn runs."""
    if _oldest(hub, session) is not None and _claim(session):
        _go_on(hub, sid, session)


def _go_on(hub: Hub, sid: str, session: Session, newest: Prompt | None = None) -> Prompt | None:
    """Begin with the oldest prompt that waits, or give the claim back if there is none.

    Looking and giving back are one step: whoever found the session claimed has stored its prompt
    before, so it is seen here.
    """
    with session["history_lock"]:
        oldest = None
        try:
            if not session.get("_finalized"):
                oldest = _oldest(hub, session) or newest
        finally:
            _mark_running(session, oldest.inbox_id if oldest else None)
    if oldest is not None:
        _start(hub, sid, session, oldest)
    return oldest


def _oldest(hub: Hub, session: Session) -> Prompt | None:
    for row in hub._get_db().list_waiting(live.current_key(session)):
        return Prompt(row["content"], row["id"])
    return None


def _claim(session: Session) -> bool:
    """Whether the caller may run turns in this session now."""
    with session["history_lock"]:
        if session.get("running") or session.get("_finalized"):
            return False
        _mark_running(session, "")
        return True


def _start(hub: Hub, sid: str, session: Session, prompt: Prompt) -> None:
    def work() -> None:
        _run_all(hub, sid, session, prompt)

    thread = threading.Thread(target=work, name=f"hermes-turn-{sid}", daemon=True)
    thread.start()


def _mark_running(session: Session, prompt_id: str | None) -> None:
    """Say which prompt is being answered; None when none is."""
    session["running"] = prompt_id is not None
    session["prompt_id"] = prompt_id
    session["stop_wanted"] = False
    session["inflight"] = None
    done = session.setdefault("turn_done", threading.Event())
    if prompt_id is None:
        done.set()
    else:
        done.clear()


def _run_all(hub: Hub, sid: str, session: Session, first: Prompt) -> None:
    """Run a prompt, then what has come meanwhile."""
    prompt: Prompt | None = first
    while prompt is not None:
        try:
            complete = _run(hub, sid, session, prompt)
        except Exception as error:
            # The boundary of the turn: whatever happened, the user is told and the session goes on.
            log.exception("The turn in %s failed", sid)
            complete = _failed(f"{type(error).__name__}: {error}")
        with session["history_lock"]:
            prompt = None if session.get("_finalized") else _next(hub, session, complete)
            if complete is not None:
                hub._emit("message.complete", sid, complete)
            _mark_running(session, prompt.inbox_id if prompt else None)


def _next(hub: Hub, session: Session, complete: dict[str, Any] | None) -> Prompt | None:
    if complete is None or complete.get("unstored"):
        return None  # the store does not take anything now; what waits stays there
    try:
        return _oldest(hub, session)
    except Exception:
        # What waits is on disk and is run when the session is opened again.
        log.exception("Cannot look for waiting prompts")
        return None


def _run(hub: Hub, sid: str, session: Session, prompt: Prompt) -> dict[str, Any] | None:
    """One turn; returns the payload of message.complete, None if it was not begun."""
    key = live.current_key(session)
    session_context.set_session_vars(
        platform=SOURCE, source=SOURCE, session_id=key, ui_session_id=sid,
        user_id=session.get("user_id"),
    )  # fmt: skip
    try:
        agent = agents.ensure_agent(hub, sid, session)
    except Exception as error:  # noqa: BLE001 - configuration, store, model: the user is told
        return _not_built(hub, sid, error)
    if session.get("_finalized"):
        return None  # closed meanwhile: the prompt waits until the session is opened again
    session["prompt"] = prompt.content
    renderer = hub.make_stream_renderer(session.get("cols", 80))

    def stream(text: str) -> None:
        if session.get("inflight") is None:
            agents.message_begins(hub, sid, session)
        agents.emit_text(hub, sid, session, "message.delta", text, renderer)

    session_context.set_inbox_id(prompt.inbox_id)
    result = agent.run_conversation(prompt.content, stream_callback=stream)
    unstored = _settle(hub, session, prompt, result)
    hub._sync_session_key_after_compress(
        sid, session, clear_pending_title=False, restart_slash_worker=True
    )
    with session["history_lock"]:
        if isinstance(result.get("messages"), list):
            session["history"] = result["messages"]
            session["history_version"] = session.get("history_version", 0) + 1
    apply_pending_title(hub, sid, session)
    complete = _completed(hub, session, result)
    return {**complete, "unstored": True} if unstored else complete


def _settle(hub: Hub, session: Session, prompt: Prompt, result: dict[str, Any]) -> bool:
    """Let a prompt that was begun with wait no more; True if it was refused and still waits."""
    db = hub._get_db()
    try:
        if result.get("failed") and not result.get("api_calls"):
            waiting = db.list_waiting(live.current_key(session))
            return any(row["id"] == prompt.inbox_id for row in waiting)
        db.drop_message(prompt.inbox_id)
    except Exception:
        # It would be answered twice only if the store also lost that it was taken.
        log.exception("Cannot settle the prompt %s", prompt.inbox_id)
        return bool(result.get("failed"))
    return False


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


def _completed(hub: Hub, session: Session, result: dict[str, Any]) -> dict[str, Any]:
    text = result.get("final_response") or ""
    status = (
        "interrupted"
        if result.get("interrupted")
        else "error"
        if result.get("failed") or result.get("error")
        else "complete"
    )
    payload: dict[str, Any] = {"text": text, "usage": result.get("usage") or {}, "status": status}
    if result.get("error"):
        payload["warning"] = str(result["error"])
    if not text and status == "error":
        payload["text"] = f"[No answer: {result.get('error') or 'the turn failed'}]"
    last = (result.get("messages") or [{}])[-1]
    if last.get("role") == "assistant" and last.get("timestamp") is not None:
        payload["timestamp"] = last["timestamp"]
    total = session.setdefault("usage", {})
    for name, value in payload["usage"].items():
        if isinstance(value, int | float):
            total[name] = total.get(name, 0) + value
    with contextlib.suppress(KeyError, TypeError):
        rendered = hub.render_message(text, session["cols"])
        if rendered is not None:
            payload["rendered"] = rendered
    return payload


def _failed(reason: str) -> dict[str, Any]:
    return {"text": f"[No answer: {reason}]", "usage": {}, "status": "error", "warning": reason}


def _not_built(hub: Hub, sid: str, error: Exception) -> dict[str, Any]:
    """No agent: the prompt stays in the inbox, and is run once the cause is mended."""
    log.error("No agent for %s: %s", sid, error, exc_info=error)
    hub._emit("error", sid, {"message": str(error), "code": AGENT_FAILED})
    return {**_failed(str(error)), "unstored": True}
