"""Stored conversations, read by pages, without opening them; and who it is that reads."""

from __future__ import annotations

from typing import Literal

from .. import lists, shapes
from .. import shapes_reading as wire
from ..clients import OPERATE, READ, TALK
from ..rpc import Call, RpcError, method

NOT_STORED = 4007
MOST = 500


@method("hello", scope=READ)
def hello(call: Call) -> wire.Hello:
    """Say who the client is, as the server sees it."""
    from hermes_base.version import __version__

    principal = call.principal
    person = call.db.get_person(principal.person_id)
    door = call.peer.door if call.peer is not None else ""
    return {
        "person_id": principal.person_id,
        "person": person.name if person is not None else "",
        "role": principal.role,
        "scope": "full" if TALK in principal.scopes else "read",
        "scopes": [scope for scope in (READ, TALK, OPERATE) if scope in principal.scopes],
        "device_id": door.removeprefix("web:") if door.startswith("web:") else "",
        "version": __version__,
    }


def require_stored(call: Call, session_id: str) -> str:
    """The tip of a stored conversation; RpcError if there is none, or it is another person's."""
    wanted = session_id.strip()
    if call.mine.session(wanted) is None:
        raise RpcError(NOT_STORED, f"There is no session {wanted[:80]!r}. See session.list.")
    return call.mine.tip(wanted)


@method("conversation.messages", scope=READ)
def messages(
    call: Call,
    id: str,
    before: int | None = None,
    after: int | None = None,
    around: int | None = None,
    limit: int = 60,
    view: Literal["said", "sent"] = "said",
    undone: bool = False,
) -> wire.MessagesPage:
    """Read a page of a conversation, over all of its compressions: the last messages, or those
    before, after or around one.

    The view is what was `said`, or what a model was `sent` at the moment of the message `around`.
    With `undone`, messages that were taken back are among them.
    """
    key = require_stored(call, id)
    page = call.mine.page(
        key,
        before=before,
        after=after,
        around=around,
        limit=max(1, min(limit, MOST)),
        view=view,
        undone=undone,
    )
    return {
        "id": key,
        "messages": [shapes.message(message) for message in page["messages"]],
        "older": page["older"],
        "newer": page["newer"],
    }


@method("sessions.watch", scope=READ)
def watch(call: Call, limit: int = 200) -> wire.Watching:
    """Be told of conversations that change or are new, in any process, as sessions.changed."""
    if call.peer is None:
        return {"sessions": lists.read(call.mine, call.db, limit)}
    return {"sessions": lists.watch(call.hub, call.peer, max(1, min(limit, MOST)))}


@method("conversation.family", scope=READ)
def family(call: Call, id: str) -> wire.Family:
    """Everything that came of a conversation: continuations, branches, delegates; parents first."""
    key = require_stored(call, id)
    members: list[wire.FamilyMember] = []
    for row in call.mine.family(key):
        session = call.mine.session(row["id"])
        if session is None:
            continue
        members.append(
            {
                "id": row["id"],
                "parent": row["parent_session_id"],
                "relation": row["relation"],
                "conversation_id": row["conversation_id"],
                "title": row["title"],
                "source": row["source"],
                "model": row["model"],
                "started_at": row["started_at"],
                "ended_at": row["ended_at"],
                "end_reason": row["end_reason"],
                "message_count": int(row["message_count"] or 0),
                "tokens": int(session["input_tokens"] or 0) + int(session["output_tokens"] or 0),
                "cost_usd": session["estimated_cost_usd"],
            }
        )
    return {"id": key, "members": members}


@method("conversation.turns", scope=READ)
def turns(call: Call, id: str, before: int | None = None, limit: int = 20) -> wire.Turns:
    """What happened in the turns of a conversation, the newest first: model calls, tools, times."""
    key = require_stored(call, id)
    found = call.mine.turns(key, before=before, limit=max(1, min(limit, 100)))
    return {"id": key, "turns": list(found)}
