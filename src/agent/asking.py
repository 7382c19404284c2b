"""Questions of a turn as events, so that viewers of its conversation see what it waits for.

Every front end has a way of its own to ask the person. Here its asker is wrapped for one turn:
while it asks, the question is open for all watchers, in any process. The first answer counts: an
approval is a row of the store that whoever may answers; what is answered to another question
elsewhere is brought to the front end that asks (`agent.elsewhere`).
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tools.base import NobodyToAsk

from .events import QuestionAsked, QuestionClosed

if TYPE_CHECKING:
    from tools.base import ApprovalRequest, Asker, Choice

    from .events import Watcher


@runtime_checkable
class Reachable(Protocol):
    """An asker that knows whether anybody would see a question."""

    def can_ask(self, kind: str) -> bool:
        """Whether a question of a kind ("approval", "clarify") reaches somebody now."""
        ...


@runtime_checkable
class Answerable(Protocol):
    """An asker whose questions may be answered from elsewhere."""

    def answer(self, question: str, answer: str) -> bool:
        """Answer an open question of `clarify`; False if it is not open, or somebody was first."""
        ...


class OpenQuestions:
    """The questions of an agent's turn that may be answered from elsewhere; for threads."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Callable[[str], bool], list[str]]] = {}

    def answer(self, request_id: str | None, answer: str) -> bool:
        """Answer a question, or the oldest one; False if it is not open any more, or somebody was
        first. The oldest may be answered with the number of a choice."""
        if request_id is None:
            request_id = next(iter(list(self._open)), "")
            choices = self._open.get(request_id, (None, []))[1]
            if answer.strip().isdigit() and 1 <= int(answer) <= len(choices):
                answer = choices[int(answer) - 1]
        known = self._open.get(request_id)
        return known is not None and known[0](answer)

    @contextmanager
    def until_closed(
        self, request_id: str, give: Callable[[str], bool] | None, choices: list[str]
    ) -> Iterator[None]:
        """Let a question be answered with `give` for the length of a `with` block."""
        if give is not None:
            self._open[request_id] = give, choices
        try:
            yield
        finally:
            self._open.pop(request_id, None)


class WatchedAsker:
    """Asks as another asker does, and tells the turn's watchers while a question is open."""

    def __init__(
        self, asker: Asker, emit: Watcher, platform: str, questions: OpenQuestions
    ) -> None:
        self.asker = asker
        self._emit, self._platform, self._questions = emit, platform, questions

    def can_ask(self, kind: str) -> bool:
        """Whether the wrapped asker reaches somebody."""
        return not isinstance(self.asker, Reachable) or self.asker.can_ask(kind)

    def approve(self, request: ApprovalRequest) -> Choice:
        """Ask whether something dangerous may be done."""
        from hermes_base.redaction import redact

        if not self.can_ask("approval"):
            return self.asker.approve(request)
        asked = QuestionAsked(
            request.id or os.urandom(6).hex(), "approval", request.description,
            list(request.choices), request.expires_at, self._platform, redact(request.command),
            answerable=bool(request.id),
        )  # fmt: skip
        self._emit(asked)
        choice: Choice = "deny"
        try:
            choice = self.asker.approve(request)
            return choice
        finally:
            self._emit(QuestionClosed(asked.request_id, choice))

    def clarify(self, question: str, choices: list[str]) -> str:
        """Ask what the person wants."""
        from hermes_base.redaction import redact

        if not self.can_ask("clarify"):
            return self.asker.clarify(question, choices)
        shown = [redact(choice) for choice in choices]
        name, asker = os.urandom(6).hex(), self.asker
        give = functools.partial(asker.answer, question) if isinstance(asker, Answerable) else None
        asked = QuestionAsked(
            name, "clarify", redact(question), shown, 0.0, self._platform,
            answerable=give is not None,
        )  # fmt: skip
        with self._questions.until_closed(name, give, choices):
            self._emit(asked)
            try:
                return asker.clarify(question, choices)
            finally:
                self._emit(QuestionClosed(name))


def watched_asker(asker: Asker, emit: Watcher, platform: str, questions: OpenQuestions) -> Asker:
    """The asker for a turn's tools; without a person to ask, watchers see no question."""
    if isinstance(asker, NobodyToAsk):
        return asker
    return WatchedAsker(asker, emit, platform, questions)


def own_asker(asker: Asker) -> Asker:
    """The front end's own asker, unwrapped."""
    while isinstance(asker, WatchedAsker):
        asker = asker.asker
    return asker


def watched_password(
    ask: Callable[[], str | None], emit: Watcher, platform: str
) -> Callable[[], str | None]:
    """A password prompt that watchers see like other questions; they never see the answer."""

    def ask_watched() -> str | None:
        name = os.urandom(6).hex()
        emit(QuestionAsked(name, "password", "sudo wants a password", [], 0.0, platform))
        try:
            return ask()
        finally:
            emit(QuestionClosed(name))

    return ask_watched


def described(event: QuestionAsked, now: float | None = None) -> str:
    """A question of another front end's turn, in one line."""
    subject = f" ({' '.join(event.subject.split())[:200]})" if event.subject else ""
    choices = f" [{', '.join(event.choices)}]" if event.choices else ""
    left = event.expires_at - (time.time() if now is None else now)
    until = f" (within {max(1, round(left / 60))} min)" if event.expires_at else ""
    text = " ".join(event.text.split())[:500]
    return f"Waits for an answer in {event.platform}{until}: {text}{subject}{choices}"
