"""Long texts that are pasted: a short mark stands for each in the input until it is sent."""

from __future__ import annotations

LONG_LINES, LONG_CHARACTERS = 8, 1_000
"""From so much on a mark stands in the place of a text."""


class Pastes:
    """The long texts of the message that is being written."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    @staticmethod
    def is_long(text: str) -> bool:
        """Whether a text would fill the input."""
        return len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES

    def keep(self, text: str) -> str:
        """The mark that stands for a text from now on."""
        self._count += 1
        size = text.count("\n") + 1
        what = f"{size} lines" if size > 1 else f"{len(text):,} characters"
        mark = f"[Pasted text {self._count}: {what}]"
        self._texts[mark] = text
        return mark

    def put_back(self, text: str) -> str:
        """A message with the texts in the places of their marks."""
        for mark, full in self._texts.items():
            text = text.replace(mark, full)
        return text

    def mark_before(self, text: str) -> str | None:
        """The mark that a text ends with, if it ends with one."""
        return next((mark for mark in self._texts if text.endswith(mark)), None)

    def forget(self) -> None:
        """The message was sent."""
        self._texts.clear()
        self._count = 0
