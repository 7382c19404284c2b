"""Questions of a turn to its chat: approval of something dangerous, or a choice.

They are shown with buttons where the platform has them and are answered by a button, by /approve
and /deny, or (a question of the model) by the next message. No answer in time is a denial.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tools.base import Answered, ApprovalRequest, Choice, ToolError
from tools.fences import fenced

from .config import Platform
from .delivery import Delivery
from .platforms.base import Button, Capabilities, PlatformAdapter, SendError
from .session import SessionSource

CLARIFY_SECONDS = 1800.0
CHOICES = {"once": "Allow once", "session": "This session", "always": "Always", "deny": "Deny"}


@dataclass(slots=True)
class Question:
    """Something a chat was asked."""

    kind: str
    """approval or clarify."""
    id: str
    choices: list[str]
    answer: str | None = None
    answered: threading.Event = field(default_factory=threading.Event)
    asker: SessionSource | None = None
    """Whose turn asks."""

    def why_not(self, choice: str, source: SessionSource, *, is_operator: bool) -> str | None:
        """Why somebody may not give this answer where several write in a chat; None if they may.
        `is_operator` says whether they are as good as one."""
        if self.kind != "approval" or choice == "deny" or self.asker is None:
            return None
        asker = self.asker
        return why_not_allowed(
            choice,
            is_own=asker.owner == source.owner,
            is_operators=asker.person is not None and asker.person.is_operator,
            is_operator=is_operator,
        )


def why_not_allowed(
    choice: str, *, is_own: bool, is_operators: bool, is_operator: bool
) -> str | None:
    """Why somebody may not allow what a turn asks for: what an operator's does is for operators,
    and what is allowed for good for whose turn it is. None if they may."""
    if is_own:
        return None
    if choice == "always":
        return "Only whose question it is can allow it for good."
    if is_operators and not is_operator:
        return "An operator's turn asks that; only an operator can allow it. /deny refuses it."
    return None


class Questions:
    """The open questions of every chat, oldest first."""

    def __init__(self) -> None:
        self._open: dict[str, list[Question]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def asking(self, session_key: str, question: Question) -> Iterator[None]:
        """Let a question be answered for the length of a `with` block."""
        with self._lock:
            self._open.setdefault(session_key, []).append(question)
        try:
            yield
        finally:
            with self._lock:
                known = self._open.get(session_key, [])
                remaining = [other for other in known if other is not question]
                if remaining:
                    self._open[session_key] = remaining
                else:
                    self._open.pop(session_key, None)

    def answer(
        self, session_key: str, kind: str, answer: str, *, id: str | None = None, all: bool = False
    ) -> int:
        """Answer the oldest question of a kind, the one with an id, or all; returns how many."""
        with self._lock:
            fitting = [
                question
                for question in self._open.get(session_key, [])
                if question.kind == kind
                and not question.answered.is_set()
                and id in (None, question.id)
            ]
            for question in fitting if all else fitting[:1]:
                question.answer = answer
                question.answered.set()
            return len(fitting if all else fitting[:1])

    def find(self, session_key: str, question_id: str) -> Question | None:
        """The open question of an id."""
        with self._lock:
            known = self._open.get(session_key, [])
            return next((question for question in known if question.id == question_id), None)

    def list_open(self, session_key: str, kind: str) -> list[Question]:
        """The questions of a kind that wait for an answer in a chat, oldest first."""
        with self._lock:
            known = self._open.get(session_key, [])
            fitting = [question for question in known if question.kind == kind]
        return [question for question in fitting if not question.answered.is_set()]

    def is_asking(self, session_key: str) -> bool:
        """Whether a chat's turn waits for an answer of the person."""
        return any(self.waiting(session_key, kind) for kind in ("approval", "clarify"))

    def waiting(self, session_key: str, kind: str) -> Question | None:
        """The oldest open question of a kind."""
        with self._lock:
            known = self._open.get(session_key, [])
            fitting = [question for question in known if question.kind == kind]
            return next((question for question in fitting if not question.answered.is_set()), None)


class ChatAsker:
    """Asks in one chat; called from the threads of tools."""

    def __init__(
        self,
        questions: Questions,
        adapters: Mapping[Platform, PlatformAdapter],
        delivery: Delivery,
        session_key: str,
        source: SessionSource,
    ) -> None:
        self._questions, self._adapters, self._delivery = questions, adapters, delivery
        self._key, self._source = session_key, source
        self._clarifying: dict[str, str] = {}
        """What the person is asked, by the id of its question."""
        self._loop = asyncio.get_running_loop()

    def approve(self, request: ApprovalRequest) -> Choice:
        """Ask whether something dangerous may be done."""
        from hermes_base.redaction import redact

        minutes = max(1, round(request.seconds_left / 60))
        choices = request.choices
        longer = ", /approve session, /approve always" if "always" in choices else ""
        text = (
            f"🔐 May I do this?\n{fenced(redact(request.command))}\n{request.description}\n"
            f"/approve{longer} or /deny (within {minutes} min)"
        )
        if not self._has_buttons():
            shown = ", ".join(f"{n} {CHOICES[choice]}" for n, choice in enumerate(choices, 1))
            text += f"\nOr answer with a number: {shown}"
        question = Question(
            "approval", request.id, list(choices), answered=Answered(request.wake),
            asker=self._source,
        )  # fmt: skip
        buttons = [Button(CHOICES[choice], f"approval:{request.id}:{choice}") for choice in choices]
        with self._questions.asking(self._key, question):
            self._show(text, buttons)
            return request.await_choice(question.answered, lambda: question.answer)

    def clarify(self, question: str, choices: list[str]) -> str:
        """Ask what the person wants; their next message is the answer."""
        asked = Question("clarify", f"q{time.time_ns():x}", choices)
        numbered = "\n".join(f"{number}. {choice}" for number, choice in enumerate(choices, 1))
        buttons = [
            Button(choice[:40], f"clarify:{asked.id}:{n}") for n, choice in enumerate(choices)
        ]
        self._clarifying[asked.id] = question
        try:
            with self._questions.asking(self._key, asked):
                self._show(f"❓ {question}\n{numbered}".strip(), buttons)
                if asked.answered.wait(CLARIFY_SECONDS) and asked.answer is not None:
                    return _chosen(asked.answer, choices)
        finally:
            del self._clarifying[asked.id]
        raise ToolError("Nobody answered. Decide yourself and say what you assumed.")

    def answer(self, question: str, answer: str) -> bool:
        """Answer a question of the model from elsewhere; False if it is not open."""
        return any(
            self._questions.answer(self._key, "clarify", answer, id=asked_id)
            for asked_id, text in list(self._clarifying.items())
            if text == question
        )

    def _has_buttons(self) -> bool:
        adapter = self._adapters.get(self._source.platform)
        return adapter is not None and adapter.capabilities.buttons

    def _show(self, text: str, buttons: list[Button]) -> None:
        adapter = self._adapters.get(self._source.platform)
        source = self._source

        async def show() -> None:
            can = adapter.capabilities if adapter is not None else Capabilities()
            if adapter is not None and (can.buttons or can.reaction_answers):
                try:
                    await adapter.send(
                        source.chat_id, adapter.format(text), thread_id=source.thread_id,
                        buttons=buttons,
                    )  # fmt: skip
                    return
                except SendError:
                    pass  # without buttons it is tried until it is delivered
            await self._delivery.say(source, self._key, text)

        asyncio.run_coroutine_threadsafe(show(), self._loop).result(timeout=60)


def _chosen(answer: str, choices: list[str]) -> str:
    """The choice that a number or a button stands for; anything else is taken as it is."""
    text = answer.strip()
    if text.isdigit() and 1 <= int(text) <= len(choices):
        return choices[int(text) - 1]
    return text
