"""The history of a live session, as the store has it: read anew when others have written."""

from __future__ import annotations

import logging
from typing import Any

from . import live
from .hub import Hub, Session

log = logging.getLogger(__name__)


def reload(hub: Hub, sid: str, session: Session) -> None:
    """Another process has written to the conversation: reload it, and tell the clients."""
    messages = stored(hub, session)
    with session["history_lock"]:
        session["history"] = messages
        session["history_version"] = session.get("history_version", 0) + 1
        hub.emit("history.changed", sid)


def follow_writes(hub: Hub, sid: str, session: Session) -> None:
    """See whether another process has written to an idle session's conversation meanwhile."""
    db = hub.get_db()
    tip = db.get_compression_tip(live.current_key(session))
    row = db.get_session(tip)
    version = None if row is None else (tip, row["version"])
    if version == session.get("seen_version"):
        return
    messages = stored(hub, session)
    with session["history_lock"]:
        if session.get("running") or session.get("_finalized"):
            return  # its own turn follows
        is_known = _said(messages) == _said(session["history"])
        session["seen_version"] = version
    if not is_known:
        reload(hub, sid, session)


def _said(messages: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(message.get("role"), message.get("content")) for message in messages]


def stored(hub: Hub, session: Session) -> list[dict[str, Any]]:
    db = hub.get_db()
    return db.get_messages_as_conversation(db.get_compression_tip(live.current_key(session)))


def apply_pending_title(hub: Hub, sid: str, session: Session) -> None:
    """Give the session the title that was asked for before it had a row."""
    title = session.get("pending_title")
    if not title:
        return
    try:
        if not hub.get_db().set_session_title(live.current_key(session), title):
            return  # no row yet: kept for the next turn
    except ValueError as error:
        # The title can never be set: another has it, or it is not one.
        log.info("The title %r is dropped: %s", title, error)
        hub.emit("status.update", sid, {"kind": "warn", "text": f"Title not set: {error}"})
        session["pending_title"] = None
        return
    except Exception:
        # Perhaps a transient error: kept for the next turn.
        log.warning("The title %r could not be set yet", title, exc_info=True)
        return
    session["pending_title"] = None
    session["title"] = title
    hub.emit("session.title", sid, {"session_id": live.current_key(session), "title": title})
