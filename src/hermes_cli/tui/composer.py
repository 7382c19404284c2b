"""The input: several lines, with history, completion and marks for long texts.

Enter sends; Shift+Enter, Alt+Enter and Ctrl+J begin a new line. Up and Down move within the text,
and beyond its first and last line through what was sent before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.events import Key, Paste
from textual.message import Message
from textual.widgets import TextArea

from .completions import Completions
from .pastes import Pastes

if TYPE_CHECKING:
    from .settings import InputHistory

NEW_LINE = ("shift+enter", "ctrl+j", "alt+enter", "ctrl+enter")


class Composer(TextArea):
    """What is being written."""

    DEFAULT_CSS = """
    Composer {
        height: auto; min-height: 3; max-height: 12; width: 1fr;
        border: none; border-top: solid $panel; border-bottom: solid $panel;
        padding: 0 1; background: $background; scrollbar-size-vertical: 1;
        &:focus { border: none; border-top: solid $primary; border-bottom: solid $primary; }
        & .text-area--cursor-line { background: transparent; }
        & .text-area--placeholder { color: $muted; }
    }
    """

    @dataclass
    class Sent(Message):
        """The person wants this to be sent."""

        text: str

    @dataclass
    class Typed(Message):
        """What stands before the cursor has changed: candidates may be wanted."""

        before: str
        asked: bool
        """Whether Tab was pressed."""

    @dataclass
    class Dropped(Message):
        """A text was pasted that may be the path of a file."""

        text: str

    class Emptied(Message):
        """Backspace was pressed in the empty input."""

    class HelpWanted(Message):
        """A question mark was typed into the empty input."""

    def __init__(self, history: InputHistory, completions: Completions) -> None:
        super().__init__(
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            highlight_cursor_line=False,
            placeholder="Ask something, or / for commands",
        )
        self._history = history
        self._completions = completions
        self._pastes = Pastes()

    # What is in it

    @property
    def before_cursor(self) -> str:
        """The text up to the cursor."""
        row, column = self.cursor_location
        return "\n".join([*self.text.split("\n")[:row], self.document.get_line(row)[:column]])

    def put(self, text: str) -> None:
        """Show this text, the cursor behind it."""
        self.text = text
        self.move_cursor(self.document.end)

    def clear_all(self) -> None:
        """Drop what is being written; it stays in the history."""
        self._history.add(self._pastes.put_back(self.text))
        self._pastes.forget()
        self._completions.close()
        self.put("")

    def replace_before_cursor(self, start: int, text: str) -> None:
        """Put `text` in the place of what stands between `start` and the cursor."""
        before = self.before_cursor
        typed = before[start:]
        row, column = self.cursor_location
        self.replace(text, (row, column - len(typed)), (row, column))
        self.move_cursor((row, column - len(typed) + len(text)))

    # Keys

    def _on_key(self, event: Key) -> None:  # type: ignore[override]
        handled = self._take(event)
        if handled:
            event.stop()
            event.prevent_default()

    def _take(self, event: Key) -> bool:
        key = event.key
        if key == "enter":
            self._enter()
        elif key in NEW_LINE:
            self.insert("\n")
        elif key == "tab":
            if not self.accept():
                self.post_message(self.Typed(self.before_cursor, asked=True))
        elif key == "escape" and self._completions.is_open:
            self._completions.close()
        elif key in ("up", "down"):
            return self._move(-1 if key == "up" else 1)
        elif key == "question_mark" and not self.text:
            self.post_message(self.HelpWanted())
        elif key == "backspace":
            return self._backspace()
        else:
            return False
        return True

    def _enter(self) -> None:
        chosen = self._completions.chosen(self.before_cursor)
        if chosen is not None and self._completions.start == 0:
            # A command's name: the typed one is carried out if it is one, else completed.
            typed = self.before_cursor
            if typed not in [candidate.text for candidate in self._completions.candidates]:
                self.accept()
                return
        text = self._pastes.put_back(self.text).strip()
        if self.text.rstrip(" ").endswith("\\"):  # for terminals that cannot tell Shift+Enter
            self.put(self.text.rstrip(" ")[:-1] + "\n")
            return
        self._completions.close()
        self.post_message(self.Sent(text))

    def sent(self, text: str) -> None:
        """What was written has been taken."""
        self._history.add(text)
        self._pastes.forget()
        self.put("")

    def accept(self) -> bool:
        """Put the highlighted candidate into the text; False if there is none."""
        chosen = self._completions.chosen(self.before_cursor)
        if chosen is None:
            return False
        start = self._completions.start
        self._completions.close()
        ends = "" if chosen.text.endswith("/") else " "
        self.replace_before_cursor(start, chosen.text + ends)
        return True

    def _move(self, by: int) -> bool:
        if self._completions.is_open:
            self._completions.move(by)
            return True
        row = self.cursor_location[0]
        if by < 0 and row == 0:
            recalled = self._history.older(self.text)
        elif by > 0 and row == self.document.line_count - 1:
            recalled = self._history.newer()
        else:
            return False
        if recalled is not None:
            with self.prevent(TextArea.Changed):
                self.put(recalled)
        return True

    def _backspace(self) -> bool:
        if not self.text:
            self.post_message(self.Emptied())
            return True
        mark = self._pastes.mark_before(self.before_cursor)
        if mark is None:
            return False
        self.replace_before_cursor(len(self.before_cursor) - len(mark), "")
        return True

    async def _on_paste(self, event: Paste) -> None:
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        event.stop()
        event.prevent_default()
        if Pastes.is_long(text):
            self.insert(self._pastes.keep(text))
        elif _may_be_path(text):
            self.post_message(self.Dropped(text))
        else:
            self.insert(text)

    def on_text_area_changed(self) -> None:
        """Ask for candidates."""
        self.post_message(self.Typed(self.before_cursor, asked=False))


def _may_be_path(text: str) -> bool:
    text = text.strip().strip("'\"")
    return "\n" not in text and text.startswith(("/", "~/", "./", "../", "file://"))
