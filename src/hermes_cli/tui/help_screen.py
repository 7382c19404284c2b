"""Help: every key and every command."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Static

from tui_gateway.client import Client, ConnectionLostError, RpcFailedError

from .completing import LOCAL_COMMANDS

log = logging.getLogger(__name__)

NAMES_WIDTH = 24

KEYS = (
    (
        "Writing",
        (
            ("Enter", "send"),
            ("Shift+Enter, Ctrl+J", "new line (or end the line with \\ and press Enter)"),
            ("↑ ↓", "what you sent before"),
            ("Tab", "complete a command, a path, a title; @ names a file"),
            ("paste, drop", "long texts become a short mark, pictures go along"),
        ),
    ),
    (
        "While it answers",
        (
            ("Esc", "stop the answer"),
            ("Enter", "send at once: stops, steers or waits, as /busy says"),
            ("Ctrl+R", "show or fold reasoning"),
            ("Ctrl+O", "open or fold every card; click or Ctrl+↑ and Enter for one"),
        ),
    ),
    (
        "Everything else",
        (
            ("Shift+Tab", "plan only, or guarded again; /mode explains, /mode full lifts the wall"),
            ("F2, Ctrl+S", "choose a conversation"),
            ("Ctrl+N", "new conversation"),
            ("F4, Ctrl+G", "copy an answer or a block of code"),
            ("mouse, Ctrl+C", "select text and copy it"),
            ("PgUp PgDn, wheel", "scroll"),
            ("F3, /theme", "change the colours"),
            ("Ctrl+C twice, Ctrl+D", "leave; what runs is stored"),
        ),
    ),
)


class Section(Static):
    """A title, and pairs of a name and what it does, wrapped beside the names."""

    def __init__(self, title: str, pairs: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self._section, self._pairs = title, pairs

    def on_resize(self, event: Resize) -> None:
        """Fill the width."""
        room = max(20, event.size.width - NAMES_WIDTH - 1)
        lines = [Content.styled(self._section, "bold $primary")]
        for name, description in self._pairs:
            first, *more = wrap(description, room) or [""]
            named = f"  {name:<{NAMES_WIDTH - 2}}"
            lines.append(Content.assemble((named, "$accent"), (first, "$foreground")))
            lines += [Content.styled(" " * NAMES_WIDTH + line, "$foreground") for line in more]
        self.update(Content("\n").join(lines))


class HelpScreen(ModalScreen[None]):
    """Closes with Escape, F1 or q."""

    DEFAULT_CSS = """
    HelpScreen {
        align: center middle; background: $background 60%;
        & > .box {
            width: 92%; max-width: 110; height: 90%;
            background: $surface; padding: 0 1;
            border: round $primary; border-title-color: $primary;
        }
        & VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
        & Static { height: auto; margin: 0 0 1 0; }
        & .hint { color: $muted; margin: 0; height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,question_mark", "close", "Close"),
    ]

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def compose(self) -> ComposeResult:
        """The keys; the commands follow."""
        with Vertical(classes="box") as box:
            box.border_title = "Help"
            with VerticalScroll():
                for title, pairs in KEYS:
                    yield Section(title, list(pairs))
            yield Static("Esc closes · ↑↓ scroll", classes="hint")

    def on_mount(self) -> None:
        """Ask for the commands."""
        self.query_one(VerticalScroll).focus()
        self.run_worker(self._list_commands())

    async def _list_commands(self) -> None:
        try:
            catalog = await self._client.request("commands.catalog")
        except (RpcFailedError, ConnectionLostError) as error:
            log.info("No list of commands: %s", error)
            return
        sections = [(category["name"], category["pairs"]) for category in catalog["categories"]]
        sections.append(("This screen", [list(pair) for pair in LOCAL_COMMANDS.items()]))
        await self.query_one(VerticalScroll).mount_all(
            Section(title, pairs) for title, pairs in sections
        )

    def action_close(self) -> None:
        """Close."""
        self.dismiss()
