"""Questions of a turn as events, so that whoever watches its conversation sees what it waits for.

Every front end has a way of its own to ask the person. Here its asker is wrapped for one turn:
while it asks, the question is open for all watchers, in any process. Only the front end that asks
takes the answer.
"""

from __future__ import annotations

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


class WatchedAsker:
    """Asks as another asker does, and tells the turn's watchers while a question is open."""

    def __init__(self, asker: Asker, emit: Watcher, platform: str) -> None:
        self.asker = asker
        self._emit, self._platform = emit, platform

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
        )  # fmt: skip
        with self._open(asked):
            return self.asker.approve(request)

    def clarify(self, question: str, choices: list[str]) -> str:
        """Ask what the person wants."""
        from hermes_base.redaction import redact

        if not self.can_ask("clarify"):
            return self.asker.clarify(question, choices)
        shown = [redact(choice) for choice in choices]
        name = os.urandom(6).hex()
        asked = QuestionAsked(name, "clarify", redact(question), shown, 0.0, self._platform)
        with self._open(asked):
            return self.asker.clarify(question, choices)

    @contextmanager
    def _open(self, asked: QuestionAsked) -> Iterator[None]:
        self._emit(asked)
        try:
            yield
        finally:
            self._emit(QuestionClosed(asked.request_id))


def watched_asker(asker: Asker, emit: Watcher, platform: str) -> Asker:
    """The asker for a turn's tools; without a person to ask, watchers see no question."""
    return asker if isinstance(asker, NobodyToAsk) else WatchedAsker(asker, emit, platform)


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
    """A question of another front end's turn, in one line; it is answered there."""
    subject = f" ({' '.join(event.subject.split())[:200]})" if event.subject else ""
    choices = f" [{', '.join(event.choices)}]" if event.choices else ""
    left = event.expires_at - (time.time() if now is None else now)
    until = f" (within {max(1, round(left / 60))} min)" if event.expires_at else ""
    text = " ".join(event.text.split())[:500]
    return f"Waits for an answer in {event.platform}{until}: {text}{subject}{choices}"
