"""Questions with a default, at a terminal, in a pipe, or answered by their defaults."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Sequence

Ask = Callable[[str], str]
Say = Callable[[str], None]

UNDO = "undo"
"""What may be typed instead of an answer."""


class UndoAskedError(Exception):
    """The person wants the step before this one undone."""


class Talk:
    """Asks and says; with `is_silent` every question is answered by its default."""

    def __init__(
        self,
        ask: Ask | None = None,
        ask_secret: Ask | None = None,
        say: Say = print,
        *,
        is_silent: bool = False,
    ) -> None:
        self._ask = ask or input
        # Without a terminal, getpass would complain about echoing what nobody types.
        self._ask_secret = ask_secret or (getpass.getpass if sys.stdin.isatty() else self._ask)
        self.say = say
        self.is_silent = is_silent

    def ask(self, question: str, default: str = "") -> str:
        """An answer, stripped; the default if it is empty. Raises UndoAskedError."""
        shown = f"{question} ({default}): " if default else f"{question}: "
        return self._answer(self._ask, shown, default)

    def ask_secret(self, question: str) -> str:
        """An answer that is not shown."""
        return self._answer(self._ask_secret, f"{question}: ", "")

    def confirm(self, question: str, default: bool) -> bool:
        """Yes or no; what is neither is asked again."""
        while True:
            shown = f"{question} [{'Y/n' if default else 'y/N'}] "
            answer = self._answer(self._ask, shown, "y" if default else "n").lower()
            if answer in ("y", "yes", "n", "no"):
                return answer[0] == "y"
            self.say("Answer with y or n.")

    def choose(self, question: str, labels: Sequence[str], default: int) -> int:
        """The index of one of the labels; a number that is none of theirs is asked again."""
        for number, label in enumerate(labels, 1):
            self.say(f"  {number}) {label}")
        while True:
            answer = self.ask(question, str(default + 1))
            if answer.isdecimal() and 1 <= int(answer) <= len(labels):
                return int(answer) - 1
            self.say(f"Answer with a number from 1 to {len(labels)}.")

    def raw(self, question: str) -> str:
        """For questions of others: as `input`, spaces included; empty when silent."""
        return self._typed(self._ask, question)

    def raw_secret(self, question: str) -> str:
        """As `raw`, not shown."""
        return self._typed(self._ask_secret, question)

    def _answer(self, ask: Ask, shown: str, default: str) -> str:
        return self._typed(ask, shown).strip() or default

    def _typed(self, ask: Ask, shown: str) -> str:
        if self.is_silent:
            return ""
        answer = ask(shown)
        if answer.strip().lower() == UNDO:
            raise UndoAskedError
        return answer
