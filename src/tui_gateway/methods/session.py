"""The life of a session: created, resumed, listed, watched, closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from hermes_state import EVERYONE

from .. import asking, inbox, live, other_processes, prompts, shapes, walls
from ..event_log import EPOCH
from ..hub import Hub, Session
from ..paths import existing_folder
from ..rpc import Call, RpcError, method

NOT_NAMED = 4006
NOT_STORED = 4007
IS_LIVE = 4023


@method("session.create")
def create(
    call: Call,
    cols: int = 80,
    cwd: str | None = None,
    title: str | None = None,
    model: str | None = None,
    provider: str | None = None,
    reasoning_effort: str | None = None,
    close_on_disconnect: bool = False,
    mode: Literal["plan", "guarded", "full"] | None = None,
) -> shapes.Opened:
    """Open a new conversation; no message is stored before its first, a mode at once."""
    from agent.ids import new_session_id

    folder = existing_folder(Path(), cwd) if cwd else None
    if cwd and folder is None:
        raise RpcError(4016, f"{cwd[:200]!r} is not a folder.")
    session = live.new_session(
        new_session_id(), cols=cols, cwd=str(folder.absolute()) if folder else None
    )
    session |= {
        "model": model,
        "provider": provider,
        "reasoning_effort": reasoning_effort,
        "pending_title": title or None,
        "close_on_disconnect": close_on_disconnect,
    }
    if mode is not None:
        call.db.set_wall_mode(session["session_key"], mode)
        session["mode"] = mode
    sid = live.add(call.hub, session, call.peer)
    other_processes.look_soon()
    return _opened(call, sid, session, is_new=True)


@method("session.resume", slow=True)
def resume(
    call: Call, session_id: str, cols: int = 80, close_on_disconnect: bool = False
) -> shapes.Opened:
    """Resume a conversation, given by id, beginning of an id, or title.

    If it is live already, the client joins it. An abandoned turn is taken over first, then waiting
    prompts are run.
    """
    key = _find(call, session_id)
    live.await_closed(call.hub, key)
    with live.OPENING:
        sid = live.find_by_key(call.hub, key)
        if sid is not None:
            session = live.require(call.hub, sid)
            live.watch(session, call.peer)
        else:
            session = revived(call.hub, key, cols)
            session["close_on_disconnect"] = close_on_disconnect
            sid = live.add(call.hub, session, call.peer)
    prompts.run_waiting(call.hub, sid, session, is_opened=True)
    prompts.await_take_over(session)
    other_processes.note_elsewhere(call.hub, sid, session)
    return _opened(call, sid, session)


def _find(call: Call, wanted: str) -> str:
    """The tip of the conversation that is meant; also of one that has only begun to wait."""
    wanted = wanted.strip()
    if not wanted:
        raise RpcError(NOT_NAMED, "Which session? Give its id, the beginning of it, or its title.")
    if live.find_by_key(call.hub, wanted) is not None:
        return wanted  # live, and perhaps not stored yet
    db = call.db
    session_id = db.resolve_session_id(wanted) or db.view(EVERYONE).resolve_title(wanted)
    if session_id is not None:
        return db.resolve_resume_session_id(session_id)
    if db.list_waiting(wanted, inbox.SOURCE):
        return wanted
    raise RpcError(NOT_STORED, f"There is no session {wanted[:80]!r}. See session.list.")


def revived(hub: Hub, key: str, cols: int) -> Session:
    """A live session for a stored conversation."""
    db = hub.get_db()
    row = db.get_session(key)
    waiting = db.list_waiting(key)
    facts: dict[str, Any] = dict(row or (waiting[0]["facts"] if waiting else {}))
    cwd = str(facts.get("cwd") or "")
    session = live.new_session(key, cols=cols, cwd=cwd if cwd and Path(cwd).is_dir() else None)
    session["user_id"] = facts.get("user_id")
    session["title"] = facts.get("title")
    if row is None:
        for name in ("model", "provider", "reasoning_effort", "pending_title"):
            session[name] = facts.get(name)
    elif row["model"] and row["model"] != hub.get_config().model.name:
        session["model"] = _usable_model(hub, row["model"])
    session["history"] = db.get_messages_as_conversation(key)
    walls.revive(hub, session)
    return session


def _usable_model(hub: Hub, name: str) -> str | None:
    """The model a conversation had, if it can still be asked; else the configured one."""
    from agent.config import ConfigError

    try:
        hub.get_config().model_named(name)
    except ConfigError:
        return None
    return name


def _opened(call: Call, sid: str, session: Session, *, is_new: bool = False) -> shapes.Opened:
    """All of a live session. What is stored is read last: it may be newer than the number.

    A client then sees some of it again as events, and knows a message by its role and `timestamp`,
    a tool's run by its `tool_id`.
    """
    with session["history_lock"]:
        latest_seq, said = session["events"].now()
        running = bool(session.get("running"))
        begun = session.get("inflight")
        inflight: shapes.Inflight | None = None
        if begun is not None:
            inflight = {
                "user": begun["user"],
                "timestamp": begun["timestamp"],
                "assistant": said,
                "streaming": True,
                "recovered": bool(begun.get("recovered")),
            }
        pending: list[shapes.PendingQuestion] = [
            {"type": question.kind, "payload": question.payload}
            for question in (
                *list(asking.pending_of(session).values()),
                *list(asking.pending_elsewhere(session).values()),
            )
        ]
        asked_elsewhere = list(session.get("asked_elsewhere", {}).values())
    key = live.current_key(session)
    messages = [] if is_new else shapes.stored_messages(call.db, key)
    return {
        "session_id": sid,
        "stored_session_id": key,
        "session_key": key,
        "message_count": len(messages),
        "messages": messages,
        "info": live.info(call.hub, sid, session),
        "running": running,
        "status": "running" if running else "elsewhere" if session.get("elsewhere") else "idle",
        "inflight": inflight,
        "pending": pending,
        "asked_elsewhere": asked_elsewhere,
        "started_at": session["started_at"],
        "latest_seq": latest_seq,
        "epoch": EPOCH,
    }


@method("session.activate")
def activate(call: Call, session_id: str) -> shapes.Opened:
    """Watch a live session, and get all of it as it is now."""
    session = live.require(call.hub, session_id)
    live.watch(session, call.peer)
    return _opened(call, session_id, session)


@method("session.events.since")
def events_since(
    call: Call, session_id: str, last_seen: int = 0, epoch: str | None = None
) -> shapes.Missed:
    """The events after a number; or, where some are gone, a snapshot of everything."""
    session = live.require(call.hub, session_id)
    live.watch(session, call.peer)
    missed = session["events"].since(last_seen)
    if epoch not in (None, EPOCH) or missed.truncated:
        snapshot = activate(call, session_id)
        return {
            "events": [],
            "latest_seq": snapshot["latest_seq"],
            "truncated": True,
            "epoch": EPOCH,
            "snapshot": snapshot,
        }
    return {
        "events": [frame["params"] for frame in missed.events],
        "latest_seq": missed.latest_seq,
        "truncated": False,
        "epoch": EPOCH,
        "snapshot": None,
    }


@method("session.close", slow=True)
def close(call: Call, session_id: str) -> shapes.Closed:
    """End a live session; its conversation stays and can be resumed."""
    return {"closed": live.close(call.hub, session_id, "tui_close")}


@method("session.list")
def list_sessions(call: Call, limit: int = 50, query: str | None = None) -> shapes.SessionList:
    """The newest conversations, those with a running or waiting message included."""
    db = call.db
    limit = max(1, min(limit, 500))
    rows = db.view(EVERYONE).list_sessions(
        limit=limit, order_by_last_active=True, search_query=query
    )
    known = {row["id"] for row in rows}
    waiting = [
        shapes.waiting_session(row)
        for row in db.list_waiting(source=inbox.SOURCE)
        if row["session_id"] not in known and db.get_session(row["session_id"]) is None
    ]
    return {"sessions": [*waiting, *(shapes.session(row) for row in rows)][:limit]}


@method("session.most_recent")
def most_recent(call: Call) -> shapes.MostRecent:
    """The conversation that was used last; null ids if there is none."""
    sessions = list_sessions(call, limit=1)["sessions"]
    if not sessions:
        return {"session_id": None, "title": None, "started_at": None, "source": None}
    first = sessions[0]
    return {
        "session_id": first["id"],
        "title": first["title"],
        "started_at": first["started_at"],
        "source": first["source"],
    }


@method("session.active_list")
def active_list(call: Call, current_session_id: str | None = None) -> shapes.ActiveSessions:
    """The live sessions of this server."""
    return {
        "sessions": [
            {
                "session_id": sid,
                "session_key": live.current_key(session),
                "title": session.get("title") or session.get("pending_title") or "",
                "running": bool(session.get("running")),
                "started_at": session["started_at"],
                "last_active": session["last_active"],
                "current": sid == current_session_id,
            }
            for sid, session in list(call.hub.get_sessions().items())
        ]
    }


@method("session.delete", slow=True)
def delete(call: Call, session_id: str) -> shapes.Deleted:
    """Delete a stored conversation for good; a live one is closed first by session.close."""
    key = _find(call, session_id)
    if live.find_by_key(call.hub, key) is not None:
        raise RpcError(IS_LIVE, "That session is open. Close it with session.close first.")
    deleted = call.db.delete_conversation(key)
    return {"deleted": bool(deleted)}
