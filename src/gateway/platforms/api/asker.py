"""Whom a turn asks that came in over the API: the client that watches its run, or nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.asking import ChatAsker, Question, wait_for_answer
from gateway.session import SessionSource
from tools.base import NobodyToAsk

from .runs import Runs

if TYPE_CHECKING:
    from gateway.run import GatewayRunner
    from tools.base import ApprovalRequest, Choice


class ApiAsker(ChatAsker):
    """Asks in a run; without one, nothing dangerous is allowed."""

    def __init__(
        self, runner: GatewayRunner, session_key: str, source: SessionSource, runs: Runs
    ) -> None:
        super().__init__(runner, session_key, source)
        self._runs = runs

    def approve(self, request: ApprovalRequest) -> Choice:
        """Ask the client; an event says what for, POST …/approval answers."""
        run = self._runs.active(self._key)
        if run is None:
            return "deny"
        question = Question("approval", request.id, list(request.choices))
        self._runner.questions.add(self._key, question)
        try:
            run.ask(request, list(request.choices))
            return wait_for_answer(question, request)
        finally:
            self._runner.questions.remove(self._key, question)

    def clarify(self, question: str, choices: list[str]) -> str:
        """Nobody can answer in the middle of a request."""
        return NobodyToAsk().clarify(question, choices)
