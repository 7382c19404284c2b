"""May a tool do something dangerous? Once, in this conversation, always, or not."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Static

from .dialog import Dialog
from .texts import clean

_LABELS = {
    "once": "Once",
    "session": "This conversation",
    "always": "Always",
    "deny": "Deny",
}


class ApprovalDialog(Dialog[str]):
    """Answers with once, session, always or deny. What is not decided is denied."""

    DEFAULT_CSS = """
    ApprovalDialog {
        & .command {
            height: auto; max-height: 12; background: $background; margin: 0 0 1 0; padding: 0 1;
        }
        & .choices { height: auto; }
        & Button { margin: 0 1 0 0; min-width: 9; border: none; height: 1; background: $panel; }
        & Button:focus { background: $primary; color: $background; text-style: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "answer('once')", "Once"),
        Binding("s", "answer('session')", "This conversation"),
        Binding("a", "answer('always')", "Always"),
        Binding("d,n,escape", "answer('deny')", "Deny"),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(str(payload.get("request_id")))
        self._payload = payload
        offered = payload.get("choices") or list(_LABELS)
        self._choices = [one for one in _LABELS if one in offered or one == "deny"]
        if not payload.get("allow_permanent", True) and "always" in self._choices:
            self._choices.remove("always")

    def compose(self) -> ComposeResult:
        """What it wants to do, why that is asked, and the answers."""
        with Vertical(classes="box") as box:
            box.border_title = "May it do this?"
            yield Static(
                clean(str(self._payload.get("description") or "")),
                classes="question",
                markup=False,
            )
            with VerticalScroll(classes="command", can_focus=False):
                yield Static(clean(str(self._payload.get("command") or "")), markup=False)
            with Horizontal(classes="choices"):
                for choice in self._choices:
                    yield Button(_LABELS[choice], id=choice, compact=True)
            yield Static("", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Whoever presses Enter without reading denies."""
        self.query_one("#deny", Button).focus()

    def hint(self) -> str:
        """The letters."""
        keys = {"once": "o once", "session": "s this conversation", "always": "a always"}
        told = [keys[one] for one in self._choices if one in keys]
        return " · ".join([*told, "d deny"])

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """By mouse, or with Enter."""
        if self.is_ready:
            self.dismiss(str(event.button.id))

    def action_answer(self, choice: str) -> None:
        """By its letter."""
        if choice in self._choices:
            self.dismiss(choice)
