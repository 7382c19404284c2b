"""May a tool do something dangerous? Once, in this conversation, always, or not."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import OptionList, Static

from .dialog import Dialog
from .texts import clean

_LABELS = {
    "once": "o  once",
    "session": "s  as often as it likes in this conversation",
    "always": "a  always",
    "deny": "d  deny",
}


class ApprovalDialog(Dialog[str]):
    """Answers with once, session, always or deny. What is not decided is denied."""

    DEFAULT_CSS = """
    ApprovalDialog .command {
        height: auto; max-height: 10; background: $background; margin: 0 0 1 0; padding: 0 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "answer('once')", "Once"),
        Binding("s", "answer('session')", "This conversation"),
        Binding("a", "answer('always')", "Always"),
        Binding("d,n,escape", "answer('deny')", "Deny"),
    ]

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(str(payload.get("request_id")))
        self._payload = payload
        offered = payload.get("choices") or list(_LABELS)
        self._choices = [label for label in _LABELS if label in offered or label == "deny"]
        if not payload.get("allow_permanent", True) and "always" in self._choices:
            self._choices.remove("always")

    def compose(self) -> ComposeResult:
        """What it wants to do, why that is asked, and the answers."""
        description = clean(str(self._payload.get("description") or ""))
        command = clean(str(self._payload.get("command") or ""))
        with Vertical(classes="box") as box:
            box.border_title = "May it do this?"
            yield Static(description, classes="question", markup=False)
            with VerticalScroll(classes="command", can_focus=False):
                yield Static(command, markup=False)
            yield OptionList(*(_LABELS[choice] for choice in self._choices), markup=False)
            yield Static("", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Highlight the denial, so that Enter without reading denies."""
        options = self.query_one(OptionList)
        options.focus()
        options.highlighted = len(self._choices) - 1

    def hint(self) -> str:
        """The keys."""
        return "The letter or Enter decides · Esc denies"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """By mouse, or with Enter."""
        if self.is_ready:
            self.dismiss(self._choices[event.option_index])

    def action_answer(self, choice: str) -> None:
        """By its letter."""
        if choice in self._choices:
            self.dismiss(choice)
