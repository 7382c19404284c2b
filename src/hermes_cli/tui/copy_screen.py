"""Choosing what to copy: a whole answer, or a block of code out of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gateway.markdown.fences import Fence, opened_by

from .texts import clean, one_line

ANSWERS = 10


class Copyable(NamedTuple):
    """Something that can be copied."""

    label: str
    text: str


def copyable(answers: list[str]) -> list[Copyable]:
    """The answers (newest first), each followed by its blocks of code."""
    choices = []
    for number, answer in enumerate(answers[:ANSWERS]):
        name = "Last answer" if number == 0 else f"Answer before ({number})"
        choices.append(Copyable(name, answer.strip()))
        for language, code in _code_blocks(answer):
            size = code.count("\n") + 1
            choices.append(Copyable(f"  {language or 'code'}, {size} lines", code))
    return choices


def _code_blocks(answer: str) -> Iterator[tuple[str, str]]:
    """The language and the code of every fenced block that is closed."""
    fence: Fence | None = None
    code: list[str] = []
    for line in answer.split("\n"):
        if fence is None:
            fence, code = opened_by(line), []
        elif fence.closed_by(line):
            yield fence.info, "\n".join(code).rstrip("\n")
            fence = None
        else:
            code.append(line)


class CopyScreen(ModalScreen[str | None]):
    """Enter copies the highlighted one."""

    DEFAULT_CSS = """
    CopyScreen {
        align: center middle; background: $background 60%;
        & > .box {
            width: 90%; max-width: 100; height: 80%; background: $surface;
            border: round $primary; border-title-color: $primary; padding: 0 1;
        }
        & OptionList { height: auto; max-height: 12; background: $surface; border: none; }
        & OptionList:focus { border: none; }
        & VerticalScroll { height: 1fr; background: $background; padding: 0 1; margin: 1 0 0 0; }
        & .hint { color: $muted; height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Close")]

    def __init__(self, choices: list[Copyable]) -> None:
        super().__init__()
        self._choices = choices

    def compose(self) -> ComposeResult:
        """What there is, and what is highlighted of it."""
        with Vertical(classes="box") as box:
            box.border_title = "Copy"
            yield OptionList(
                *(
                    Option(
                        Content.assemble(
                            (f"{one_line(piece.label, 30):<24}", "$foreground"),
                            (f" {one_line(piece.text, 60)}", "$muted"),
                        )
                    )
                    for piece in self._choices
                )
            )
            with VerticalScroll(can_focus=False):
                yield Static(clean(self._choices[0].text), markup=False, classes="preview")
            yield Static("Enter copies · ↑↓ choose · Esc closes", classes="hint")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show it."""
        self.query_one(".preview", Static).update(
            Content(clean(self._choices[event.option_index].text))
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take it."""
        self.dismiss(self._choices[event.option_index].text)

    def action_close(self) -> None:
        """Copy nothing."""
        self.dismiss(None)
