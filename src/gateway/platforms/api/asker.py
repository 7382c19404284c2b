"""Whom a turn asks that came in over the API: the client that watches its run, or nobody."""

from __future__ import annotations

from gateway.asking import Question, Questions
from tools.base import Answered, ApprovalRequest, Choice, NobodyToAsk

from .runs import Runs


class ApiAsker:
    """Asks in a run; without one, nothing dangerous is allowed."""

    def __init__(self, questions: Questions, session_key: str, runs: Runs) -> None:
        self._questions, self._key, self._runs = questions, session_key, runs

    def can_ask(self, kind: str) -> bool:
        """Whether a client watches that can answer."""
        return kind == "approval" and self._runs.active(self._key) is not None

    def approve(self, request: ApprovalRequest) -> Choice:
        """Ask the client: an event of the run says what for, POST …/approval answers."""
        if self._runs.active(self._key) is None:
            return "deny"
        question = Question(
            "approval", request.id, list(request.choices), answered=Answered(request.wake)
        )
        with self._questions.asking(self._key, question):
            return request.await_choice(question.answered, lambda: question.answer)

    def clarify(self, question: str, choices: list[str]) -> str:
        """Nobody can answer in the middle of a request."""
        return NobodyToAsk().clarify(question, choices)
