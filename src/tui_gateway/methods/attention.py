"""What needs a person, in every conversation: approvals, what waits, what is owed to chats."""

from __future__ import annotations

from typing import Any, Literal

from hermes_state import EVERYONE, plain_text
from tools.approval_words import grant_text

from .. import asking, live
from .. import shapes_reading as wire
from ..clients import READ, TALK
from ..rpc import NOT_ALLOWED, Call, RpcError, method

RECORDED = 50
UNKNOWN_GRANT = 4033


@method("approval.inbox", scope=READ)
def inbox(call: Call, counts: bool = False) -> wire.Inbox:
    """What needs a person, from every surface: approvals that wait, what waits to begin, what is
    owed to chats, what was decided, and what is always allowed.

    With `counts`, only how much there is.
    """
    mine = call.mine
    pending = [_approval(call, row) for row in mine.pending_approvals()]
    questions: list[wire.InboxQuestion] = [
        {
            "session_id": sid,
            "stored_session_id": live.current_key(session),
            "title": mine.title(live.current_key(session)) or "",
            "type": question.kind,
            "payload": question.payload,
        }
        for sid, session in call.live_sessions()
        for question in (
            *asking.pending_of(session).values(),
            *asking.pending_elsewhere(session).values(),
        )
        if question.kind != "approval.request"
    ]
    answer: wire.Inbox = {
        "needs": len(pending) + len(questions),
        "approvals": pending,
        "questions": questions,
        "waiting": [],
        "owed": [],
        "decided": [],
        "grants": [],
    }
    if counts:
        return answer
    answer["waiting"] = [
        {
            "session_id": row["session_id"],
            "title": mine.title(row["session_id"]) or "",
            "source": str(row["source"] or ""),
            "text": plain_text(row["content"])[:300],
            "received_at": float(row["received_at"]),
        }
        for row in mine.waiting()
    ]
    answer["decided"] = [
        _approval(call, row) for row in mine.approvals(limit=RECORDED) if row["state"] != "pending"
    ]
    answer["grants"] = [
        {
            "pattern_key": str(grant["pattern_key"]),
            "description": grant_text(str(grant["pattern_key"])),
            "granted_by": str(grant["granted_by"]),
            "granted_at": float(grant["granted_at"]),
        }
        for grant in mine.grants()
    ]
    if call.principal.is_operator:
        answer["owed"] = _deliveries(call)
    return answer


def _approval(call: Call, row: dict[str, Any]) -> wire.InboxApproval:
    from hermes_base.redaction import redact

    session = call.mine.session(row["session_id"]) or {}
    return {
        "request_id": row["id"],
        "session_id": row["session_id"],
        "title": str(session.get("title") or ""),
        "source": str(session.get("source") or ""),
        "command": redact(row["command"]),
        "description": str(row["description"] or ""),
        "pattern_keys": list(row["pattern_keys"]),
        "created_at": float(row["created_at"]),
        "expires_at": float(row["expires_at"] or 0),
        "state": str(row["state"]),
        "choice": str(row.get("choice") or ""),
        "how": str(row.get("how") or ""),
        "decided_by": _name(call, str(row.get("decided_by") or "")),
        "decided_at": row.get("decided_at"),
    }


def _name(call: Call, person_id: str) -> str:
    """How a person is called; what is not a person's id stays as it is."""
    person = call.db.get_person(person_id) if person_id else None
    return person_id if person is None else person.name


def _deliveries(call: Call) -> list[wire.Owed]:
    """What has not arrived in its chat, or was given up in the last days."""
    abandoned = {row["obligation_id"] for row in call.db.list_abandoned_deliveries()}
    return [
        {
            "id": str(row["obligation_id"]),
            "session_key": str(row["session_key"] or ""),
            "platform": str(row["platform"] or ""),
            "state": str(row["state"]),
            "attempts": int(row["attempts"]),
            "error": str(row["last_error"] or "")[:300],
            "created_at": float(row["created_at"]),
            "text": str(row["content"] or "")[:300],
            "may_be_missing": row["obligation_id"] in abandoned,
        }
        for row in call.db.list_deliveries(("pending", "sending", "failed"))
    ]


@method("approval.decide", scope=TALK)
def decide(
    call: Call, request_id: str, choice: Literal["once", "session", "always", "deny"]
) -> wire.Decided:
    """Answer a pending approval request by its id, whichever process asked; the first counts."""
    if choice != "deny" and (refusal := call.access.why_no_command("approve")):
        raise RpcError(NOT_ALLOWED, refusal)
    for _, session in call.live_sessions():
        if request_id in asking.pending_of(session):
            done = asking.answer_approvals(session, choice, request_id=request_id)
            return {"decided": bool(done)}
    asked = next((row for row in call.mine.pending_approvals() if row["id"] == request_id), None)
    if asked is None:
        return {"decided": False}
    person = None if call.mine.owner is EVERYONE else call.principal.person_id
    return {"decided": call.mine.answer_asked(request_id, asked["session_id"], choice, person)}


@method("grant.revoke", scope=TALK)
def revoke(call: Call, pattern_key: str, granted_by: str = "") -> wire.Decided:
    """Have something asked again that is always allowed, at once and in every process."""
    wanted = (pattern_key, granted_by)
    if wanted not in {(row["pattern_key"], row["granted_by"]) for row in call.mine.grants()}:
        raise RpcError(UNKNOWN_GRANT, f"{pattern_key[:80]!r} is not always allowed.")
    return {"decided": call.mine.revoke({"pattern_key": pattern_key, "granted_by": granted_by})}
