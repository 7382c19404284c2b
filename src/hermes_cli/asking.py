"""Questions of tools to the person at the terminal: approvals and clarifications.

A tool asks from its own thread while the turn waits. The answer is read from the terminal itself,
so that a question can be piped in and approvals still be answered. Ctrl-C ends the waiting. What is
asked about is shown with its control characters made visible: no command can repaint the question.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from hermes_base.ready import wait_readable
from hermes_cli.terminal_guard import visible
from tools.base import LOOK_SECONDS, ApprovalRequest, Choice, ToolError

_CHOICES: dict[str, Choice] = {
    "o": "once", "once": "once", "y": "once", "yes": "once",
    "s": "session", "session": "session",
    "a": "always", "always": "always",
    "d": "deny", "deny": "deny", "n": "deny", "no": "deny", "": "deny",
}  # fmt: skip


class TerminalAsker:
    """Asks at the terminal; says so where there is none."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._stops = 0
        self._asked: str | None = None
        self._answer: str | None = None

    @property
    def is_asking(self) -> bool:
        """Whether a question stands in the terminal."""
        return self._one_at_a_time.locked()

    def stop(self) -> None:
        """End the question that is being asked, if one is."""
        self._stops += 1

    def can_ask(self, kind: str) -> bool:
        """Whether there is a terminal."""
        try:
            os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        except OSError:
            return False
        return True

    def approve(self, request: ApprovalRequest) -> Choice:
        """Show what is about to be done and read a choice; anything unclear is asked again.

        What is decided elsewhere meanwhile counts. Raises ToolError if there is no terminal, so
        that nobody is there to ask.
        """
        with self._one_at_a_time:
            show(f"\n⚠ {visible(request.description)}\n  {visible(request.command)}")
            decided = _Decided(request)
            longer = ", this [s]ession, [a]lways" if "always" in request.choices else ""
            while True:
                question = f"  allow? [o]nce{longer}, [d]eny: "
                answer = self._read(question, request.seconds_left, decided.is_over)
                if answer is None:
                    return decided.choice or "deny"
                choice = _CHOICES.get(answer.strip().lower())
                if choice in request.choices:
                    return choice

    def clarify(self, question: str, choices: list[str]) -> str:
        """Ask; a number picks one of the choices, anything else is the answer itself."""
        with self._one_at_a_time:
            show(f"\n? {visible(question)}")
            for number, choice in enumerate(choices, 1):
                show(f"  {number}. {visible(choice)}")
            self._asked, self._answer = question, None
            try:
                answer = self._read("  › ", math.inf, lambda: self._answer is not None)
            finally:
                self._asked = None
            answer = self._answer if answer is None else answer
        if answer is None:
            raise ToolError("Nobody answered. Decide yourself and say what you assumed.")
        answer = answer.strip()
        if answer.isdigit() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        return answer

    def answer(self, question: str, answer: str) -> bool:
        """Answer the question that is being asked from elsewhere; False if it is not."""
        if self._asked != question or self._answer is not None:
            return False
        self._answer = answer
        return True

    def _read(
        self,
        prompt: str,
        seconds: float = math.inf,
        is_over: Callable[[], bool] = lambda: False,
    ) -> str | None:
        """A line from the terminal; None after a stop, at its end, too late, or once it is over."""
        stops, until = self._stops, time.monotonic() + seconds

        def is_stopped() -> bool:
            return self._stops != stops or is_over()

        try:
            terminal: TextIO = open("/dev/tty", encoding="utf-8")  # noqa: SIM115,PTH123 - closed below
        except OSError as error:
            raise ToolError(
                "Nobody is there to answer. Decide yourself and say what you assumed."
            ) from error
        with terminal:
            print(prompt, end="", file=sys.stderr, flush=True)
            typed = b""
            while not is_stopped() and time.monotonic() < until:
                ready = wait_readable([terminal.fileno()], 0.1)
                if ready and not is_stopped():  # else what was typed is for the prompt
                    piece = os.read(terminal.fileno(), 4096)
                    typed += piece
                    if not piece:
                        return None
                    if b"\n" in piece:
                        return typed.decode(errors="replace").partition("\n")[0]
        return None


class _Decided:
    """What somebody decides elsewhere, looked for when something was written to the store."""

    def __init__(self, request: ApprovalRequest) -> None:
        self._request = request
        self._seen: int | None = None
        self._looked = 0.0
        self.choice: Choice | None = None

    def is_over(self) -> bool:
        """Whether nobody need answer here any more."""
        wake, now = self._request.wake, time.monotonic()
        number = wake.number if wake is not None else 0
        if number != self._seen or now - self._looked > LOOK_SECONDS:
            self._seen, self._looked = number, now
            self.choice = self._request.decided()
        return self.choice is not None or self._request.cancelled.is_set()


def show(text: str) -> None:
    """A line for the person, apart from the answer."""
    print(text, file=sys.stderr, flush=True)
