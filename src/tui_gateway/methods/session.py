"""The life of a session: created, resumed, listed, watched, closed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hermes_state import stored_owner

from .. import asking, inbox, lists, live, other_processes, prompts, shapes
from ..clients import OPERATE, READ, TALK
from ..event_log import EPOCH
from ..hub import Session
from ..paths import existing_folder
from ..revive import revived
from ..rpc import Call, RpcError, method

NOT_NAMED = 4006
NOT_STORED = 4007
IS_LIVE = 4023


@method("session.create", scope=TALK)
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

    may_look = OPERATE in call.principal.scopes
    folder = existing_folder(Path(), cwd) if cwd and may_look else None
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
        "user_id": stored_owner(call.principal.person_id),
    }
    if mode is not None:
        call.here(session).choose_mode(session["session_key"], mode)
        session["mode"] = mode
    sid = live.add(call.hub, session, call.peer)
    other_processes.look_soon()
    return _opened(call, sid, session, is_new=True)


@method("session.resume", scope=READ, slow=True)
def resume(
    call: Call,
    session_id: str,
    cols: int = 80,
    close_on_disconnect: bool = False,
    tail: int | None = None,
) -> shapes.Opened:
    """Resume a conversation, given by id, beginning of an id, or title.

    If it is live already, the client joins it. An abandoned turn is taken over first, then waiting
    prompts are run. With `tail`, only so many of the last messages are told.
    """
    key = _find(call, session_id)
    live.await_closed(call.hub, key)
    with live.OPENING:
        sid = live.find_by_key(call.hub, key)
        if sid is not None:
            session = call.session(sid)
            live.watch(session, call.peer)
        else:
            session = revived(call.hub, key, cols)
            session["close_on_disconnect"] = close_on_disconnect
            sid = live.add(call.hub, session, call.peer)
    prompts.run_waiting(call.hub, sid, session, is_opened=True)
    prompts.await_take_over(session)
    other_processes.note_elsewhere(call.hub, sid, session)
    return _opened(call, sid, session, tail=tail)


def _find(call: Call, wanted: str) -> str:
    """The tip of the conversation that is meant; also of one that has only begun to wait."""
    wanted = wanted.strip()
    if not wanted:
        raise RpcError(NOT_NAMED, "Which session? Give its id, the beginning of it, or its title.")
    if live.find_by_key(call.hub, wanted, call.principal) is not None:
        return wanted  # live, and perhaps not stored yet
    session_id = call.mine.resolve_id(wanted) or call.mine.resolve_title(wanted)
    if session_id is not None:
        return call.mine.tip_to_resume(session_id)
    if call.mine.waiting(wanted, inbox.SOURCE):
        return wanted
    raise RpcError(NOT_STORED, f"There is no session {wanted[:80]!r}. See session.list.")


def _opened(
    call: Call, sid: str, session: Session, *, is_new: bool = False, tail: int | None = None
) -> shapes.Opened:
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
    messages, older = ([], False) if is_new else _stored(call, session, tail)
    return {
        "session_id": sid,
        "stored_session_id": key,
        "session_key": key,
        "message_count": len(messages),
        "messages": messages,
        "older": older,
        "waiting": [] if is_new else _waiting(call, key),
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


def _stored(
    call: Call, session: Session, tail: int | None
) -> tuple[list[shapes.WireMessage], bool]:
    """The stored messages of a conversation, or the last of them, and whether there are more."""
    here, key = call.here(session), live.current_key(session)
    if tail is None:
        return shapes.stored_messages(here, key), False
    if here.session(key) is None:
        return [], False
    page = here.page(key, limit=max(1, min(tail, 1000)))
    return [shapes.message(message) for message in page["messages"]], page["older"]


def _waiting(call: Call, key: str) -> list[shapes.WaitingPrompt]:
    """The messages that wait for their turn, oldest first."""
    from hermes_state import plain_text

    return [
        {"message_id": inbox.own_id(row["id"]), "text": plain_text(row["content"])}
        for row in call.mine.waiting(key)
    ]


@method("session.activate", scope=READ)
def activate(call: Call, session_id: str, tail: int | None = None) -> shapes.Opened:
    """Watch a live session, and get all of it as it is now, or its last messages."""
    session = call.session(session_id)
    live.watch(session, call.peer)
    return _opened(call, session_id, session, tail=tail)


@method("session.events.since", scope=READ)
def events_since(
    call: Call,
    session_id: str,
    last_seen: int = 0,
    epoch: str | None = None,
    tail: int | None = None,
) -> shapes.Missed:
    """The events after a number; or, where some are gone, a snapshot of everything.

    Events may come before this answer; a client keeps them until it has it. `tail` is as in
    session.resume.
    """
    session = call.session(session_id)
    live.watch(session, call.peer)
    missed = session["events"].since(last_seen)
    if epoch not in (None, EPOCH) or missed.truncated:
        snapshot = activate(call, session_id, tail)
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


@method("session.close", scope=TALK, slow=True)
def close(call: Call, session_id: str) -> shapes.Closed:
    """End a live session; its conversation stays and can be resumed."""
    is_theirs = session_id in dict(call.live_sessions())
    return {"closed": is_theirs and live.close(call.hub, session_id, "tui_close")}


@method("session.list", scope=READ)
def list_sessions(call: Call, limit: int = 50, query: str | None = None) -> shapes.SessionList:
    """The newest conversations, those with a running or waiting message included."""
    return {"sessions": lists.read(call.mine, call.db, max(1, min(limit, 500)), query)}


@method("session.most_recent", scope=READ)
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


@method("session.active_list", scope=READ)
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
            for sid, session in call.live_sessions()
        ]
    }


@method("session.delete", scope=TALK, slow=True)
def delete(call: Call, session_id: str) -> shapes.Deleted:
    """Delete a stored conversation for good; a live one is closed first by session.close."""
    key = _find(call, session_id)
    if live.find_by_key(call.hub, key) is not None:
        raise RpcError(IS_LIVE, "That session is open. Close it with session.close first.")
    deleted = call.mine.delete(key)
    return {"deleted": bool(deleted)}
