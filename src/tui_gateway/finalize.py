"""Ending a live session: once, completely, in bounded time, whatever fails on the way.

Closing a window, end of input, SIGTERM, SIGHUP and the end of the process all come through here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from . import asking, live, prompts
from .hub import Hub, Session

log = logging.getLogger(__name__)

INTERRUPT_SECONDS = 2.0
"""How long a running turn gets to store its end."""


def finalize(hub: Hub, session: Session, end_reason: str) -> None:
    """Stop the turn, store what is not stored, commit memory, tell the hooks, end the row."""
    with _lock_of(session):
        if session.get("_finalized"):
            return
        session["_finalized"] = True
    if session.get("view") is not None:
        session["view"].close()
    if session.get("running"):
        _attempt("interrupting", lambda: prompts.interrupt(session))
        asking.withdraw_all(session)
        done = session.get("turn_done")
        if done is not None:
            done.wait(INTERRUPT_SECONDS)
    agent = session.get("agent")
    history = list(session.get("history") or [])
    session_id = getattr(agent, "session_id", None) or session.get("session_key")
    if agent is not None:
        _flush(agent, history)
        commit = getattr(agent, "commit_memory_session", None)
        if commit is not None:
            _attempt("committing memory", lambda: commit(history))
        _attempt("on_session_end", lambda: _tell_end(agent, session_id))
    _attempt(
        "boundary hooks", lambda: hub._notify_session_boundary("on_session_finalize", session_id)
    )
    if session_id:
        _attempt("ending the row", lambda: hub.get_db().end_session(session_id, end_reason))
    close = getattr(agent, "close", None)
    if close is not None:
        _attempt("closing the agent", close)
    if (unfollow := session.get("unfollow")) is not None:
        unfollow()


def finalize_all(hub: Hub, end_reason: str, seconds: float) -> None:
    """End every live session beside each other, and wait at most `seconds` for all of them."""
    deadline = time.monotonic() + seconds
    threads = [
        live.close_aside(hub, sid, end_reason)
        for sid, session in list(hub.get_sessions().items())
        if not live.is_unattended(session)  # the next server takes it over
    ]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = sum(thread.is_alive() for thread in threads)
    if late:
        log.warning("%d sessions took longer than %.0f s to end", late, seconds)


def _flush(agent: Any, history: list[Any]) -> None:
    """Store what the agent or the front end holds and the store does not."""
    persist = getattr(agent, "_persist_session", None)
    messages = getattr(agent, "_session_messages", None) or history
    if persist is not None and messages:
        _attempt("storing messages", lambda: persist(messages, conversation_history=history))


def _tell_end(agent: Any, session_id: str | None) -> None:
    from hermes_base import plugins

    plugins.invoke_hook(
        "on_session_end",
        session_id=session_id,
        completed=False,
        interrupted=True,
        model=getattr(agent, "model", None),
        platform=getattr(agent, "platform", None) or "tui",
    )


def _attempt(what: str, step: Callable[[], Any]) -> None:
    try:
        step()
    except Exception:
        # Each step matters to the user by itself: one that fails must not stop the next ones.
        log.exception("While a session ended: %s failed", what)


def _lock_of(session: Session) -> Any:
    return session.setdefault("history_lock", threading.RLock())
