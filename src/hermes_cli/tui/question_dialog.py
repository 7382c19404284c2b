"""A question of the model: choose an answer, or write one."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, OptionList, Static

from .dialog import Dialog
from .texts import clean


class QuestionDialog(Dialog[str | None]):
    """Answers with the text; None puts the question off (Escape), and it can be asked for again."""

    DEFAULT_CSS = """
    QuestionDialog .ask { height: auto; max-height: 10; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "later", "Later")]

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(str(payload.get("request_id")))
        self._question = clean(str(payload.get("question") or ""))
        self._choices = [clean(str(choice)) for choice in payload.get("choices") or ()]

    def compose(self) -> ComposeResult:
        """The question, its choices, and a line for anything else."""
        with Vertical(classes="box") as box:
            box.border_title = "A question"
            with VerticalScroll(classes="ask", can_focus=False):
                yield Static(self._question, classes="question", markup=False)
            if self._choices:
                yield OptionList(*self._choices, markup=False)
            yield Input(placeholder="Your own answer" if self._choices else "Your answer")
            yield Static("", classes="hint", markup=False)

    def hint(self) -> str:
        """The keys."""
        choose = "↑↓ choose · Tab write · " if self._choices else ""
        return f"{choose}Enter answers · Esc stops the turn"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """One of the choices."""
        if self.is_ready:
            self.dismiss(self._choices[event.option_index])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Something else."""
        if event.value.strip():
            self.dismiss(event.value)

    def action_later(self) -> None:
        """No answer."""
        self.dismiss(None)


class PasswordDialog(Dialog[str | None]):
    """The password that sudo wants; None or nothing refuses."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "refuse", "Refuse")]

    def compose(self) -> ComposeResult:
        """A line that shows nothing."""
        with Vertical(classes="box") as box:
            box.border_title = "sudo"
            yield Static("A command wants your password. It is not kept.", classes="question")
            yield Input(password=True)
            yield Static("", classes="hint", markup=False)

    def hint(self) -> str:
        """The keys."""
        return "Enter gives it · Esc refuses"

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Here it is."""
        self.dismiss(event.value)

    def action_refuse(self) -> None:
        """No."""
        self.dismiss(None)
