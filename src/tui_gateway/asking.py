"""Questions of a running turn to the clients of its session: approvals, and what to do next.

A question waits under its id in the session's `pending`, and is shown again to a client that comes
later. The first answer counts. A turn that is interrupted takes its questions with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .hub import Hub, Session

if TYPE_CHECKING:
    from agent.events import QuestionAsked
    from hermes_state import SessionDB
    from tools.base import ApprovalRequest, Choice

CLARIFY_SECONDS = 3600.0
SUDO_SECONDS = 120.0
CHOICES = ("once", "session", "always", "deny")

_answering = threading.Lock()
"""Held by whoever answers: the first counts."""


@dataclass(slots=True)
class Question:
    """Something a client is asked."""

    kind: str
    """The event it is shown with: approval.request, clarify.request or sudo.request."""
    payload: dict[str, Any]
    request: ApprovalRequest | None = None
    answer: str | None = None
    answered: threading.Event = field(default_factory=threading.Event)


class SessionAsker:
    """Asks the clients of one live session."""

    def __init__(self, hub: Hub, sid: str, session: Session) -> None:
        self._hub, self._sid, self._session = hub, sid, session

    def approve(self, request: ApprovalRequest) -> Choice:
        """Ask whether something dangerous may be done; no answer in time is a denial."""
        from hermes_base.redaction import redact
        from tools.base import Answered

        payload = _approval(
            request.id, redact(request.command), request.description, request.pattern_keys,
            list(request.choices), request.expires_at,
        )  # fmt: skip
        question = Question("approval.request", payload, request, answered=Answered(request.wake))
        with self._asked(request.id, question):
            return request.await_choice(question.answered, lambda: question.answer)

    def clarify(self, question: str, choices: list[str]) -> str:
        """Ask a question; blocks until it is answered or the turn ends."""
        from tools.base import ToolError

        request_id = os.urandom(6).hex()
        asked = Question(
            "clarify.request",
            {"request_id": request_id, "question": question, "choices": choices},
        )
        with self._asked(request_id, asked):
            if asked.answered.wait(CLARIFY_SECONDS) and asked.answer is not None:
                return asked.answer
        raise ToolError("Nobody answered. Decide yourself and say what you assumed.")

    def answer(self, question: str, answer: str) -> bool:
        """Answer an open question of the model from elsewhere."""
        return any(
            asked.payload["question"] == question and give_answer(asked, answer)
            for asked in list(pending_of(self._session).values())
            if asked.kind == "clarify.request"
        )

    def sudo_password(self) -> str | None:
        """Ask for the password that sudo wants; None if nobody gives it in time."""
        request_id = os.urandom(6).hex()
        asked = Question("sudo.request", {"request_id": request_id})
        with self._asked(request_id, asked):
            if not asked.answered.wait(SUDO_SECONDS):
                self._hub.emit("sudo.expire", self._sid, {"request_id": request_id})
        answer, asked.answer = asked.answer, None
        return answer

    @contextmanager
    def _asked(self, request_id: str, question: Question) -> Iterator[None]:
        """A question for as long as it is open."""
        pending_of(self._session)[request_id] = question
        try:
            self._hub.emit(question.kind, self._sid, question.payload)
            yield
        finally:
            pending_of(self._session).pop(request_id, None)
            self._hub.emit("request.closed", self._sid, {"request_id": request_id})


def pending_of(session: Session) -> dict[str, Question]:
    """The open questions of a session."""
    pending: dict[str, Question] = session.setdefault("pending", {})
    return pending


def pending_elsewhere(session: Session) -> dict[str, Question]:
    """The open questions of a turn that another process runs in a session's conversation."""
    pending: dict[str, Question] = session.setdefault("pending_elsewhere", {})
    return pending


def question_of(db: SessionDB, event: QuestionAsked) -> Question | None:
    """A question of another process's turn, as clients are shown those of ours; None if it is
    answered only where it is asked."""
    if not event.answerable:
        return None
    if event.kind == "clarify":
        payload = {
            "request_id": event.request_id, "question": event.text, "choices": event.choices,
        }  # fmt: skip
        return Question("clarify.request", payload)
    approval = db.get_approval(event.request_id)
    if event.kind != "approval" or approval is None:
        return None
    return Question(
        "approval.request",
        _approval(
            event.request_id, event.subject, event.text, approval["pattern_keys"], event.choices,
            event.expires_at,
        ),
    )  # fmt: skip


def _approval(
    request_id: str,
    command: str,
    description: str,
    pattern_keys: list[str],
    choices: list[str],
    expires_at: float,
) -> dict[str, Any]:
    """What clients are told of an approval; `command` is without its secrets."""
    return {
        "request_id": request_id,
        "command": command,
        "description": description,
        "pattern_key": pattern_keys[0] if pattern_keys else "",
        "pattern_keys": pattern_keys,
        "choices": choices,
        "allow_permanent": "always" in choices,
        "expires_at": expires_at,
    }


def give_answer(question: Question, answer: str) -> bool:
    """Answer a question; False if it was answered already."""
    with _answering:
        if question.answered.is_set():
            return False
        question.answer = answer
        question.answered.set()
    return True


def answer_approvals(
    session: Session, choice: str, *, everything: bool = False, request_id: str | None = None
) -> int:
    """Answer pending approval requests: the oldest, all, or the one named; returns how many."""
    waiting = [
        question
        for key, question in list(pending_of(session).items())
        if question.kind == "approval.request" and request_id in (None, key)
    ]
    chosen = waiting if everything else waiting[:1]
    return sum(give_answer(question, choice) for question in chosen)


def answer_approvals_elsewhere(
    hub: Hub,
    session: Session,
    choice: str,
    *,
    everything: bool = False,
    request_id: str | None = None,
) -> int:
    """The same for what a turn of another process asks leave for, and for what outlived the turn
    that asked it, if that is named; the first answer in the store counts."""
    from . import live

    waiting = [
        asked_id
        for asked_id, question in list(pending_elsewhere(session).items())
        if question.kind == "approval.request"
    ]
    chosen = [request_id] if request_id is not None else waiting if everything else waiting[:1]
    db, key = hub.get_db(), live.current_key(session)
    return sum(
        db.decide_asked_approval(asked_id, key, choice, session.get("user_id"))
        for asked_id in chosen
    )


def withdraw_all(session: Session) -> None:
    """Close every open question without an answer, as its turn was interrupted."""
    pending = pending_of(session)
    for request_id, question in list(pending.items()):
        pending.pop(request_id, None)
        question.answered.set()
