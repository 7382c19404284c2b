"""A block with a headline that folds: by click, or with Enter when it has the focus."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.widgets import Static


class Folding(Vertical, can_focus=True):
    """Headline and body; the body is only made when it is first shown."""

    DEFAULT_CSS = """
    Folding {
        height: auto; margin: 0; padding: 0 1;
        border-left: outer $panel;
        & > .headline { width: 1fr; height: 1; color: $muted; text-wrap: nowrap; text-overflow: ellipsis; }
        & > .body { width: 1fr; height: auto; color: $muted; padding: 0 0 0 2; display: none; }
        &.-open > .body { display: block; }
        &:focus { border-left: outer $accent; }
        & > .headline:hover { background: $panel; }
    }
    """  # noqa: E501 - a rule of CSS reads best in one line

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "fold", "Fold", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__()
        self._is_stale = False
        self.set_class(is_open, "-open")

    def compose(self) -> ComposeResult:
        """Two texts."""
        yield Static(self.headline(), classes="headline")
        yield Static("", classes="body", markup=False)

    def on_mount(self) -> None:
        """Show the body, if it is open from the beginning."""
        self.changed()

    @property
    def is_open(self) -> bool:
        """Whether the body is shown."""
        return self.has_class("-open")

    def headline(self) -> Content:
        """One line, always shown."""
        raise NotImplementedError

    def body(self) -> Content:
        """The rest."""
        raise NotImplementedError

    def changed(self) -> None:
        """Draw anew what has changed."""
        if not self.is_mounted:
            return
        self.query_one(".headline", Static).update(self.headline())
        if self.is_open:
            self.query_one(".body", Static).update(self.body())

    def fold(self, is_open: bool) -> None:
        """Open or close it."""
        self.set_class(is_open, "-open")
        self.changed()

    def action_fold(self) -> None:
        """Change whether it is open."""
        self.fold(not self.is_open)

    def on_click(self, event: Click) -> None:
        """A click on the headline folds; one in the body may begin a selection."""
        if event.widget is not None and event.widget.has_class("headline"):
            event.stop()
            self.action_fold()
