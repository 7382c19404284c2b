"""The session server's centre: it wires and delegates.

The names beginning with an underscore are relied on from outside and may be replaced at run time,
so everybody looks them up here when they are called (`hub.Hub`).
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from . import agents, finalize, live, methods, rpc
from .event_log import EPOCH
from .hub import Hub, Session
from .peers import Peer
from .workers import Lanes, Workers

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import SessionDB

__all__ = ["dispatch", "handle_request", "make_stream_renderer", "render_message", "threading"]

log = logging.getLogger(__name__)

_sessions: dict[str, Session] = {}
_peers: set[Peer] = set()
_opening = threading.Lock()
_workers = Workers()
_lanes = Lanes()
_is_ending = False
_db: SessionDB | None = None
_closed_db: SessionDB | None = None
"""The closed store: late threads get this one, and do not open another."""
_config: Config | None = None


def hub() -> Hub:
    """This module, as its parts see it."""
    return cast(Hub, sys.modules[__name__])


def handle_request(frame: dict[str, Any]) -> rpc.Frame | None:
    """Answer one request from within the process."""
    _load_methods()
    return rpc.answer(frame, hub())


def dispatch(frame: object, peer: Peer) -> None:
    """Answer a client's request; one that may take long does not hold up the next."""
    _load_methods()
    if _is_ending:
        request_id = frame.get("id") if isinstance(frame, dict) else None
        peer.send(rpc.failure(request_id, rpc.SERVER_ENDING, "The server ends. Connect again."))
    elif rpc.is_slow(frame):
        _workers.run(lambda: _answer(frame, peer))
    elif _is_on_server():
        # A server may be slow or gone: only requests that need it wait, not those of other
        # sessions.
        _lanes.run((id(peer), rpc.session_of(frame)), lambda: _answer(frame, peer))
    else:
        _answer(frame, peer)


def drain(seconds: float) -> None:
    """Wait for what clients have asked for, if that takes no longer."""
    _lanes.drain(seconds)


def _is_on_server() -> bool:
    if _db is not None:
        return getattr(_db, "is_on_server", False) is True
    from agent.home import ConfigError, hermes_home
    from agent.store import find_store

    try:
        return find_store(hermes_home()).server is not None
    except ConfigError:
        return False  # the request meets the same error and reports it


def _answer(frame: object, peer: Peer) -> None:
    response = rpc.answer(frame, hub(), peer)
    if response is not None:
        peer.send(response)


def connect(peer: Peer, facts: Mapping[str, str] | None = None) -> None:
    """A client has come; `facts` are further ones that it is told at first."""
    _peers.add(peer)
    payload = {"skin": "default", "replay_epoch": EPOCH, **(facts or {})}
    peer.send(
        {
            "jsonrpc": "2.0",
            "method": "event",
            "params": {"type": "gateway.ready", "session_id": "", "payload": payload},
        }
    )


def disconnect(peer: Peer) -> None:
    """A client is gone. Its turns run on; `reaper` ends what was to end with it."""
    _peers.discard(peer)
    peer.close()
    live.unwatch(hub(), peer)


def check_peers() -> None:
    """Disconnect clients whose device was revoked, and show none what is not theirs any more."""
    live.recheck(hub(), list(_peers))


def serve_no_more() -> None:
    """Refuse further requests, as the process ends: what is begun now would be abandoned."""
    global _is_ending
    _is_ending = True


def shut_down(end_reason: str, seconds: float = 8.0) -> None:
    """End every session, then close the store; bounded, and harmless when done twice."""
    global _db, _closed_db
    finalize.finalize_all(hub(), end_reason, seconds)
    with _opening:
        db, _db = _db, None
        if db is None:
            return
        _closed_db = db
    background = sys.modules.get("agent.background")  # not imported: nothing runs
    if background is not None:
        background.stop_all(db)
    db.close()


def _load_methods() -> None:
    if not rpc.METHODS:
        with _opening:
            methods.load()


def _get_db() -> SessionDB:
    """The store, opened when it is first needed."""
    global _db
    with _opening:
        if _closed_db is not None:
            return _closed_db
        if _db is None:
            from agent.auto_prune import begin_pruning
            from agent.home import hermes_home
            from agent.store import open_store

            _db = open_store(hermes_home())
            _db.settle_at_startup()
            begin_pruning(_db, hermes_home())
        return _db


def get_sessions() -> dict[str, Session]:
    """Live sessions by their live id."""
    return _sessions


def get_db() -> SessionDB:
    """The store, opened when it is first needed; a closed one after the end."""
    return _get_db()


def get_config() -> Config:
    """The configuration, read when it is first needed."""
    return _get_config()


def emit(event: str, sid: str, payload: Mapping[str, Any] | None = None) -> None:
    """Tell whoever watches a session."""
    _emit(event, sid, payload)


def reap_orphans() -> None:
    """End orphaned processes: those that tools of a killed server had started."""
    from agent.abandoned_work import end_abandoned_work
    from agent.home import ConfigError, hermes_home
    from agent.store import has_store
    from hermes_state import StoreError

    try:
        if not has_store(hermes_home()):
            return  # nothing was ever said here
        end_abandoned_work(hermes_home(), _get_db())
    except (ConfigError, OSError, StoreError) as error:
        # Retried at the next start; the person can work meanwhile.
        log.warning("Orphaned processes of an earlier run could not be ended: %s", error)


def _get_config() -> Config:
    """The configuration, read when it is first needed."""
    global _config
    if _config is None:
        from agent.config import load_config

        _config = load_config()
    return _config


def reload_config() -> Config:
    """Read the configuration again."""
    global _config
    _config = None
    return _get_config()


def _emit(event: str, sid: str, payload: Mapping[str, Any] | None = None) -> None:
    """Send an event to the clients of a session; numbered and kept, so that none misses it."""
    session = _sessions.get(sid)
    events = session.get("events") if session is not None else None
    if events is not None:
        events.add(event, payload)


def _finalize_session(session: Session, end_reason: str = "tui_close") -> None:
    """End a live session: idempotent, complete, and not stopped by whatever fails."""
    finalize.finalize(hub(), session, end_reason)


def _sync_session_key_after_compress(
    sid: str,
    session: Session,
    *,
    clear_pending_title: bool = False,
    restart_slash_worker: bool = False,
) -> None:
    """Follow the agent to the session that a compression moved the conversation to.

    `clear_pending_title` drops a title that was not set yet; `restart_slash_worker` lets slow
    commands begin anew in the new session.
    """
    agents.sync_session_key(
        hub(),
        sid,
        session,
        clear_pending_title=clear_pending_title,
        restart_slash_worker=restart_slash_worker,
    )


def _notify_session_boundary(event: str, session_id: str | None) -> None:
    """Fire a boundary hook (on_session_finalize, on_session_reset)."""
    from hermes_base import plugins

    plugins.invoke_hook(event, session_id=session_id, platform="tui")


def make_stream_renderer(cols: int) -> Any:
    """Renders pieces of an answer for clients that cannot; None, as ours render Markdown."""
    return None


def render_message(raw: str, cols: int) -> str | None:
    """Renders a whole answer for clients that cannot; None, as ours render Markdown."""
    return None
