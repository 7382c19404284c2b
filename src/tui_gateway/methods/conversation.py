"""What is done to a whole conversation: named, read, taken back, branched, compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.ids import new_session_id

from .. import agents, live, prompts, shapes
from .. import shapes_conversation as wire
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method

if TYPE_CHECKING:
    from hermes_state import PersonView

NO_TITLE = 4021
BAD_TITLE = 4022
NOTHING_SAID = 4008
NOTHING_TO_UNDO = 4018
NOT_THERE = 4018
COMPRESSION_FAILED = 5005


@method("session.title", scope=TALK)
def title(call: Call, session_id: str, title: str | None = None) -> wire.Title:
    """Show the conversation's title, or give it one; before its first message the title waits."""
    session = call.session(session_id)
    if title is not None:
        if not title.strip():
            raise RpcError(NO_TITLE, "The title is empty. Use letters or digits.")
        from ..surface import set_title

        try:
            set_title(call.hub, session_id, session, title)
        except ValueError as error:
            raise RpcError(BAD_TITLE, str(error)) from error
    key = live.current_key(session)
    stored = call.here(session).title(key)
    return {
        "title": stored or session.get("pending_title") or "",
        "session_key": key,
        "pending": not stored and bool(session.get("pending_title")),
    }


@method("session.history", scope=READ)
def history(call: Call, session_id: str, limit: int | None = None) -> wire.History:
    """Everything that was said in the conversation, also before compressions; the last `limit`."""
    session = call.session(session_id)
    messages = shapes.stored_messages(call.here(session), live.current_key(session))
    if limit is not None:
        messages = messages[max(0, len(messages) - max(0, limit)) :]
    return {"count": len(messages), "messages": messages}


@method("session.undo", scope=TALK)
def undo(call: Call, session_id: str, count: int = 1) -> wire.Undone:
    """Take back the person's last message (or several) and all that followed."""
    from ..surface import follow

    session = call.session(session_id)
    with prompts.occupied(call.hub, session_id, session, "take something back"):
        here = call.here(session)
        key = live.current_key(session)
        # What compression or background work put in as a user's message has a finish reason.
        said = [
            message
            for message in (here.messages(key) if here.session(key) else ())
            if message["role"] == "user" and not message["finish_reason"]
        ]
        if not 0 < count <= len(said):
            raise RpcError(
                NOTHING_TO_UNDO, f"{len(said)} of your messages can be taken back, not {count}."
            )
        target = said[-count]
        done = here.rewind(key, target["id"])
        follow(call.hub, session)
    return {"removed": done["rewound_count"], "text": target["content"]}


@method("session.branch", scope=TALK)
def branch(
    call: Call, session_id: str, name: str | None = None, until_message_id: int | None = None
) -> wire.Branched:
    """Open a copy of the conversation as a session of its own; the original stays as it is.

    With `until_message_id` the copy ends with that message, which may be from before a compression.
    """
    from ..revive import revived

    if until_message_id is None:
        session = call.idle_session(session_id, "branch")
    else:
        session = call.session(session_id)  # what was said is said, whatever runs
    here = call.here(session)
    parent = here.tip(live.current_key(session))
    if here.session(parent) is None:
        raise RpcError(NOTHING_SAID, "Nothing was said yet, so there is nothing to branch from.")
    if until_message_id is not None:
        parent = _segment_of(here, parent, until_message_id)
    live.make_room(call.hub)
    try:
        key = here.branch(
            parent, new_session_id(), title=name or None, until_message_id=until_message_id
        )
    except ValueError as error:
        raise RpcError(BAD_TITLE, str(error)) from error
    copy = revived(call.hub, key, session.get("cols", 80))
    copy["cwd"] = session["cwd"]
    sid = live.add(call.hub, copy, call.peer)
    return {
        "session_id": sid,
        "stored_session_id": key,
        "title": here.title(key) or "",
        "parent": parent,
    }


def _segment_of(here: PersonView, tip: str, message_id: int) -> str:
    """The session of a conversation in which one of its messages stands."""
    place = here.session_of_message(message_id)
    if place is None or place not in here.lineage(tip):
        raise RpcError(NOT_THERE, f"There is no message {message_id} in this conversation.")
    return place


@method("session.compress", scope=TALK, slow=True)
def compress(
    call: Call, session_id: str, focus_topic: str | None = None, dry_run: bool = False
) -> wire.Compression:
    """Sum up what was said so far to make room, with an eye on a topic; nothing said is lost.

    With `dry_run` nothing is changed, and `preview` says what would be.
    """
    from agent.agent import TurnRunningError

    from ..surface import follow

    hub = call.hub
    session = call.session(session_id)
    with prompts.occupied(hub, session_id, session, "compress"):
        if call.here(session).session(live.current_key(session)) is None:
            raise RpcError(NOTHING_SAID, "Nothing was said yet, so there is nothing to compress.")
        agent = agents.ensure_agent(hub, session_id, session)
        try:
            result = agent.compress(focus=focus_topic or None, dry_run=dry_run)
        except TurnRunningError as error:
            raise RpcError(COMPRESSION_FAILED, str(error)) from error
        if not dry_run:
            follow(hub, session)
    return _compression_answer(call, session_id, session, result, dry_run)


def _compression_answer(
    call: Call, sid: str, session: dict[str, Any], result: Any, dry_run: bool
) -> wire.Compression:
    answer: wire.Compression = {
        "status": "preview" if dry_run else "compressed" if result.compressed else "unchanged",
        "reason": result.reason,
        "removed": max(0, result.before_messages - result.after_messages),
        "before_messages": result.before_messages,
        "after_messages": result.after_messages,
        "before_tokens": result.before_tokens,
        "after_tokens": result.after_tokens,
        "summary": result.summary,
        "usage": dict(session.get("usage") or {}),
        "info": live.info(call.hub, sid, session),
        "messages": [shapes.message(message) for message in session.get("history") or ()],
    }
    plan = result.preview
    if plan is not None:
        answer["preview"] = {
            "summarised": plan.summarised,
            "kept_first": plan.kept_first,
            "kept_last": plan.kept_last,
            "before_tokens": plan.before_tokens,
            "after_tokens": plan.after_tokens,
            "worthwhile": plan.worthwhile,
        }
    return answer
