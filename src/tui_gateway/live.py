"""Live sessions: plain dicts under a short live id, with the durable session they are in.

A live session has no row in the store before its first message. Its `session_key` is a copy of
where the conversation is; the agent's session id, and behind it the store, are the truth.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hermes_state import LOCAL_DOOR, person_of

from .clients import LOCAL, Principal, principal_of
from .event_log import EventLog
from .hub import Hub, Session
from .rpc_errors import SESSION_BUSY, SESSION_LIMIT, SESSION_NOT_FOUND, RpcError

if TYPE_CHECKING:
    from agent.config import Config
    from tools.base import Mode

    from .peers import Peer
    from .shapes import SessionInfo

OPENING = threading.RLock()
"""Held while it is decided whether a conversation is live, so that it never is twice."""

CLOSE_SECONDS = 15.0
"""How long to wait for the end of a session that another thread is closing."""

DEFAULT_LIMIT = 64
"""Live sessions at once, unless `max_live_sessions` says otherwise."""


def new_session(session_key: str, *, cols: int = 80, cwd: str | None = None) -> Session:
    """A live session that nothing has happened in yet."""
    return {
        "agent": None,
        "session_key": session_key,
        "history": [],
        "history_lock": threading.RLock(),
        "history_version": 0,
        "running": False,
        "inflight": None,
        "attached_images": [],
        "image_counter": 0,
        "cols": cols,
        "cwd": cwd or os.getcwd(),  # noqa: PTH109 - keeps the links people chose
        "model": None,
        "provider": None,
        "reasoning_effort": None,
        "user_id": None,
        "slash_worker": None,
        "show_reasoning": False,
        "tool_progress_mode": "all",
        "pending_title": None,
        "title": None,
        "busy_mode": None,
        "options": {},
        "mode": None,
        "folders": [],
        "watchers": set(),
        "close_on_disconnect": False,
        "pending": {},
        "agent_lock": threading.Lock(),
        "started_at": time.time(),
        "last_active": time.time(),
        "detached_at": None,
        "headless": False,
        "turn_done": threading.Event(),
        "closed": threading.Event(),
        "_finalized": False,
    }


def add(hub: Hub, session: Session, peer: Peer | None) -> str:
    """Make a session live and let its client watch it; returns its live id."""
    with OPENING:
        make_room(hub)
        sid = os.urandom(4).hex()
        while sid in hub.get_sessions():
            sid = os.urandom(4).hex()
        watch(session, peer)
        session["events"] = EventLog(sid, lambda line: _deliver(session, sid, line))
        hub.get_sessions()[sid] = session
    return sid


def close(hub: Hub, sid: str, end_reason: str) -> bool:
    """End a live session and forget it; returns when it has ended, False if there is none."""
    session, is_first = _begin_close(hub, sid)
    return session is not None and _end(hub, sid, session, is_first, end_reason)


def close_aside(hub: Hub, sid: str, end_reason: str) -> threading.Thread:
    """The same in a thread, which is returned; the session takes nothing more from now on."""
    session, is_first = _begin_close(hub, sid)

    def work() -> None:
        if session is not None:
            _end(hub, sid, session, is_first, end_reason)

    thread = threading.Thread(target=work, name="hermes-finalize", daemon=True)
    thread.start()
    return thread


def _begin_close(hub: Hub, sid: str) -> tuple[Session | None, bool]:
    """The session, and whether the caller is the one to end it."""
    with OPENING:
        session = hub.get_sessions().get(sid)
        is_first = session is not None and not session.get("closing")
        if session is not None:
            session["closing"] = True
            session.setdefault("closed", threading.Event())
        return session, is_first


def _end(hub: Hub, sid: str, session: Session, is_first: bool, end_reason: str) -> bool:
    if not is_first:
        return bool(session["closed"].wait(CLOSE_SECONDS))
    try:
        hub._finalize_session(session, end_reason)
    finally:
        if session.get("events") is not None:
            session["events"].add("session.closed", {"reason": end_reason})
        hub.get_sessions().pop(sid, None)
        session["closed"].set()
    return True


def await_closed(hub: Hub, session_key: str) -> None:
    """Wait for the end of a session of this conversation that is being closed, if there is one."""
    for session in list(hub.get_sessions().values()):
        if session.get("closing") and current_key(session) == session_key:
            session["closed"].wait(CLOSE_SECONDS)


def switch(hub: Hub, sid: str, old: Session, new: Session, end_reason: str) -> None:
    """Let another conversation take the place of one, under the same live id.

    Clients go on watching, and the numbers of events go on.
    """
    for name in ("events", "watchers", "close_on_disconnect", "detached_at", "cols"):
        new[name] = old[name]
    # Prompts go to the new one from now on, but its agent is not built before the old one's end.
    with new["agent_lock"]:
        with OPENING:
            if hub.get_sessions().get(sid) is not old or old.get("closing"):
                raise RpcError(SESSION_NOT_FOUND, f"The session {sid} is being closed.")
            hub.get_sessions()[sid] = new
        hub._finalize_session(old, end_reason)
    facts = {"stored_session_id": current_key(new), "reason": end_reason}
    hub.emit("session.switched", sid, facts)
    hub.emit("session.info", sid, info(hub, sid, new))


def make_room(hub: Hub) -> None:
    """Close the session that has been idle longest and nobody watches, if there are too many."""
    limit = int(hub.get_config().raw.get("max_live_sessions") or DEFAULT_LIMIT)
    open_now = [
        (sid, session)
        for sid, session in list(hub.get_sessions().items())
        if not session.get("closing")
    ]
    if len(open_now) < limit:
        return
    idle = [
        (session["last_active"], sid)
        for sid, session in open_now
        if not session.get("running") and not watchers(session)
    ]
    if not idle:
        raise RpcError(
            SESSION_LIMIT,
            f"{limit} sessions are open, which is the limit. Close one, or raise"
            " max_live_sessions in config.yaml.",
        )
    close_aside(hub, min(idle)[1], "idle")


def require(hub: Hub, sid: str, principal: Principal = LOCAL) -> Session:
    """The live session with that id; RpcError if there is none, or it is another person's."""
    session = hub.get_sessions().get(sid)
    is_theirs = is_visible(hub, sid, session, principal)
    if session is None or session.get("closing") or not is_theirs:
        raise RpcError(
            SESSION_NOT_FOUND,
            f"There is no live session {sid[:40]!r}. Open one with session.create or"
            " session.resume.",
        )
    session["last_active"] = time.time()
    return session


def is_visible(hub: Hub, sid: str, session: Session | None, principal: Principal) -> bool:
    """Whether a live session may be shown to somebody; the store says whose it is, once it is
    stored. The same is asked for a session that does not exist, so that time tells nothing."""
    if principal.is_operator:
        return session is not None
    row = hub.get_db().get_session(sid if session is None else current_key(session))
    if session is None:
        return False
    if row is not None:
        session["user_id"] = row["user_id"]
    return person_of(session.get("user_id")) == principal.person_id


def visible(hub: Hub, principal: Principal) -> list[tuple[str, Session]]:
    """The live sessions that may be shown to somebody, by their live ids."""
    return [
        (sid, session)
        for sid, session in list(hub.get_sessions().items())
        if is_visible(hub, sid, session, principal)
    ]


def require_idle(hub: Hub, sid: str, what: str, principal: Principal = LOCAL) -> Session:
    """The live session, if no turn runs in it."""
    session = require(hub, sid, principal)
    if session.get("running"):
        raise RpcError(
            SESSION_BUSY, f"A turn is running. Interrupt it or wait for its end to {what}."
        )
    return session


def find_by_key(hub: Hub, session_key: str, principal: Principal = LOCAL) -> str | None:
    """The live id of the conversation that is in `session_key`, if it is live and theirs."""
    for sid, session in visible(hub, principal):
        if current_key(session) == session_key and not session.get("closing"):
            return sid
    return None


def current_key(session: Session) -> str:
    """The durable session the conversation is in, as the agent knows it."""
    return getattr(session.get("agent"), "session_id", None) or str(session["session_key"])


def watch(session: Session, peer: Peer | None) -> None:
    """Let a client see the session's events."""
    if peer is not None:
        session.setdefault("watchers", set()).add(peer)
        session["detached_at"] = None
        session["headless"] = False


def unwatch(hub: Hub, peer: Peer) -> None:
    """Remove a client; sessions that it alone watched go on, and note since when nobody does."""
    for session in list(hub.get_sessions().values()):
        watching = session.get("watchers") or set()
        if peer in watching:
            watching.discard(peer)
            if not watchers(session):
                session["detached_at"] = time.time()


def recheck(hub: Hub, peers: Iterable[Peer]) -> None:
    """Disconnect clients whose device was revoked, and let none watch what is not theirs any more:
    another process may have revoked it, or parted two persons who were one."""
    for peer in peers:
        if peer.door == LOCAL_DOOR:
            continue
        principal = principal_of(hub, peer)
        if principal is None:
            peer.drop()
            continue
        for sid, session in list(hub.get_sessions().items()):
            watching = session.get("watchers") or set()
            if peer in watching and not is_visible(hub, sid, session, principal):
                watching.discard(peer)


def watchers(session: Session) -> list[Peer]:
    """The clients that see a session's events."""
    return [peer for peer in list(session.get("watchers") or ()) if not peer.gone]


def is_unattended(session: Session) -> bool:
    """Whether a session runs a turn that this server took over, and nobody has joined it.

    When the server ends, such a turn is abandoned on purpose, for the next server to take over.
    """
    return bool(session.get("headless") and session.get("running"))


def _deliver(session: Session, sid: str, line: bytes) -> None:
    for peer in watchers(session):
        peer.send_event(line, sid)


def info(hub: Hub, sid: str, session: Session) -> SessionInfo:
    """What a front end shows about a session (the payload of session.info)."""
    from hermes_base.version import __version__

    config = hub.get_config()
    agent = session.get("agent")
    cwd = str(session.get("cwd") or "")
    options = session.get("options") or {}
    mode = mode_of(session, config)
    effort = options.get("reasoning") or session.get("reasoning_effort")
    facts: SessionInfo = {
        "model": getattr(agent, "model", None) or session.get("model") or config.model.name,
        "provider": getattr(getattr(agent, "llm", None), "provider", None)
        or session.get("provider")
        or config.model.provider,
        "cwd": cwd,
        "branch": git_branch(Path(cwd)) if cwd else "",
        "title": session.get("title") or session.get("pending_title") or "",
        "running": bool(session.get("running")),
        "reasoning_effort": effort or config.model.reasoning_effort or "",
        "approval_mode": config.approvals.mode,
        "mode": mode,
        "yolo": mode == "full" or config.approvals.mode == "off",
        "folders": [str(folder) for folder in session.get("folders") or ()],
        "stored_session_id": current_key(session),
        "version": __version__,
        "usage": dict(session.get("usage") or {}),
        "skin": "default",
    }
    if notices := config.notices():
        facts["config_warning"] = "\n".join(notices)
    return facts


def mode_of(session: Session, config: Config) -> Mode:
    """What the agent may do in a session: as its agent goes by it, as chosen, or as configured."""
    followed = getattr(getattr(session.get("agent"), "workspace", None), "mode", None)
    known = [mode for mode in (followed, session.get("mode")) if mode and isinstance(mode, str)]
    return cast("Mode", known[0] if known else config.terminal.mode)


def git_branch(folder: Path) -> str:
    """The branch that is checked out in the repository around `folder`; empty outside of one."""
    for place in (folder, *folder.parents):
        head = place / ".git" / "HEAD"
        try:
            text = head.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        return text.rpartition("refs/heads/")[2] if "refs/heads/" in text else text[:8]
    return ""
