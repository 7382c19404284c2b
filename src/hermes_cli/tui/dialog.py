"""What every dialog has: a box in the middle, and a moment in which keys are ignored.

A dialog comes while somebody may be typing. Until it has been there for a moment, keys do nothing
and its hint is not shown: so a half-typed word approves nothing.
"""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen
from textual.widgets import Static

T = TypeVar("T")

DEAF_SECONDS = 0.5


class Dialog(ModalScreen[T]):
    """A question to the person."""

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 60%;
        & > .box {
            width: 90%; max-width: 100; height: auto; max-height: 90%;
            background: $surface; border: round $accent; padding: 0 1; border-title-color: $accent;
        }
        & .hint { color: $muted; height: 1; margin: 1 0 0 0; }
        & OptionList {
            height: auto; max-height: 8; background: $background; border: none; padding: 0;
            &:focus { border: none; }
        }
        & Input {
            border: none; border-left: outer $primary; background: $background; height: 1;
            padding: 0 1; margin: 1 0 0 0;
            &:focus { border: none; border-left: outer $accent; }
        }
        & .question { color: $foreground; height: auto; margin: 0 0 1 0; }
    }
    """

    def __init__(self, request_id: str) -> None:
        super().__init__()
        self.request_id = request_id
        self.is_ready = False
        """Whether it listens to keys; until then the application drops them."""

    def on_mount(self) -> None:
        """Listen after a moment."""
        self.set_timer(DEAF_SECONDS, self._listen)

    def _listen(self) -> None:
        self.is_ready = True
        self.query_one(".hint", Static).update(self.hint())

    def hint(self) -> str:
        """Which keys do what."""
        return ""
