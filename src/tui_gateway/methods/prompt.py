"""Prompts: sent, steered, interrupted, and the questions a turn asks back."""

from __future__ import annotations

from typing import Any, Literal

from .. import asking, live, prompts, shapes
from ..clients import READ, TALK
from ..hub import Session
from ..rpc import NOT_ALLOWED, SESSION_BUSY, Call, RpcError, method

EMPTY = 4004
NOT_HEARD = 5033


@method("prompt.submit", scope=TALK)
def submit(
    call: Call,
    session_id: str,
    text: str,
    truncate_before_user_ordinal: int | None = None,
    message_id: str | None = None,
    busy: Literal["interrupt", "steer", "queue"] | None = None,
) -> shapes.Submitted:
    """Send a message; the answer comes as events. While a turn runs it interrupts, steers or waits.

    `truncate_before_user_ordinal` takes back the conversation from that user message on (0 is the
    first), to send another in its place. `message_id` is an id of the client's own: sent again with
    the same one, because the answer was lost, the message is not taken twice. `busy` says what this
    message does to a running turn.
    """
    session = call.session(session_id)
    live.watch(session, call.peer)
    if not text.strip() and not session.get("attached_images"):
        raise RpcError(EMPTY, "The message is empty.")
    if truncate_before_user_ordinal is not None:
        if session.get("running"):
            raise RpcError(SESSION_BUSY, "A turn is running. Interrupt it before you rewrite.")
        _truncate(call, session, truncate_before_user_ordinal)
    content = _with_images(session, text)
    return {"status": prompts.submit(call.hub, session_id, session, content, message_id, busy)}


def _truncate(call: Call, session: Session, ordinal: int) -> None:
    here = call.here(session)
    key = live.current_key(session)
    messages = [message for message in here.messages(key) if message["role"] == "user"]
    if not 0 <= ordinal < len(messages):
        raise RpcError(
            4018, f"There is no user message {ordinal}; the conversation has {len(messages)}."
        )
    here.rewind(key, messages[ordinal]["id"])


def _with_images(session: Session, text: str) -> str | list[dict[str, Any]]:
    images, session["attached_images"] = list(session.get("attached_images") or ()), []
    if not images:
        return text
    from ..media import image_part

    return [{"type": "text", "text": text}, *(image_part(path) for path in images)]


@method("session.steer", scope=TALK)
def steer(call: Call, session_id: str, text: str) -> shapes.Steered:
    """Add a message to the running turn; without one it waits like any other."""
    session = call.session(session_id)
    if not text.strip():
        raise RpcError(4002, "The message is empty.")
    return {"status": prompts.steer(call.hub, session_id, session, text), "text": text}


@method("session.interrupt", scope=TALK)
def interrupt(call: Call, session_id: str) -> shapes.Status:
    """Stop the running turn; what it did is stored, and what waits is run next.

    A turn of another process gets a stop signal; a notice says if that was not taken.
    """
    session = call.session(session_id)
    stopped = prompts.interrupt(session)
    asking.withdraw_all(session)
    if not stopped and session.get("elsewhere"):
        stopped = prompts.stop_elsewhere(call.hub, session_id, session)
    return {"status": "interrupted" if stopped else "idle"}


@method("approval.respond", scope=TALK)
def approve(
    call: Call,
    session_id: str,
    choice: str = "deny",
    all: bool = False,
    request_id: str | None = None,
) -> shapes.Resolved:
    """Answer a pending approval request: once, session, always or deny. The oldest unless named.

    It may be of a turn that another process runs. What was asked before a restart is answered by
    naming it (see approval.pending); the answer counts when the same is asked again.
    """
    session = call.session(session_id)
    if choice not in asking.CHOICES:
        raise RpcError(5004, f"choice must be one of {', '.join(asking.CHOICES)}.")
    if choice != "deny" and (refusal := call.access.why_no_command("approve")):
        raise RpcError(NOT_ALLOWED, refusal)
    count = asking.answer_approvals(session, choice, everything=all, request_id=request_id)
    if not count:
        count = asking.answer_approvals_elsewhere(
            call.hub, session, choice, everything=all, request_id=request_id
        )
    return {"resolved": count}


@method("approval.pending", scope=READ)
def pending(call: Call, session_id: str) -> shapes.PendingApprovals:
    """The pending approval requests of the conversation, also from before a restart."""
    from hermes_base.redaction import redact

    session = call.session(session_id)
    here = call.here(session)
    asked = {*asking.pending_of(session), *asking.pending_elsewhere(session)}
    return {
        "approvals": [
            {
                "request_id": approval["id"],
                "command": redact(approval["command"]),
                "description": approval["description"],
                "pattern_keys": approval["pattern_keys"],
                "expires_at": approval["expires_at"],
                "is_live": approval["id"] in asked,
            }
            for key in here.lineage(live.current_key(session))
            for approval in call.view_in(session).pending_approvals(key)
        ]
    }


@method("clarify.respond", scope=TALK, slow=True)
def clarify(call: Call, request_id: str, answer: str) -> shapes.Status:
    """Answer a question of the model: ok, or expired if nobody waits for it any more.

    The turn may be one that another process runs; an error says that it did not hear.
    """
    for _, session in call.live_sessions():
        if request_id in asking.pending_elsewhere(session):
            return _clarify_elsewhere(call, session, request_id, answer)
    return _respond(call, "clarify.request", request_id, answer)


def _clarify_elsewhere(call: Call, session: Session, request_id: str, answer: str) -> shapes.Status:
    from agent.elsewhere import NotHeardError, answer_elsewhere

    try:
        is_taken = answer_elsewhere(call.db, live.current_key(session), request_id, answer)
    except NotHeardError as error:
        raise RpcError(NOT_HEARD, str(error)) from error
    return {"status": "ok" if is_taken else "expired"}


@method("sudo.respond")
def sudo(call: Call, request_id: str, password: str) -> shapes.Status:
    """Give the password that a command's sudo wants; it is not kept. An empty one refuses."""
    from hermes_base.redaction import register_secret

    register_secret(password)
    return _respond(call, "sudo.request", request_id, password)


def _respond(call: Call, kind: str, request_id: str, answer: str) -> shapes.Status:
    for _, session in call.live_sessions():
        question = asking.pending_of(session).get(request_id)
        if question is not None and question.kind == kind:
            return {"status": "ok" if asking.give_answer(question, answer) else "expired"}
    return {"status": "expired"}
