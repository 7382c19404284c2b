"""The conversation on the screen: a scroll of blocks that follows its end.

Of a long conversation only the last part is drawn; the rest is drawn when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from .folding import Folding

if TYPE_CHECKING:  # Markdown is imported when the first frame is there
    from .answer import Answer

PAGE = 40
"""Blocks that are drawn at once."""


class Earlier(Static, can_focus=True):
    """Stands for the blocks that are not drawn yet; a click or Enter draws more."""

    DEFAULT_CSS = """
    Earlier { color: $primary; padding: 0 2; margin: 0 0 1 0; text-style: underline; }
    Earlier:focus { text-style: bold underline; }
    """
    BINDINGS = [("enter", "more", "Show")]  # noqa: RUF012 - as Textual declares it

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} earlier blocks (click to show more)", markup=False)

    def on_click(self) -> None:
        """Draw more."""
        self.action_more()

    def action_more(self) -> None:
        """Draw more."""
        transcript = self.parent
        assert isinstance(transcript, Transcript)
        # Not this widget's own work: it is removed by it.
        transcript.run_worker(transcript.show_earlier(), group="earlier", exclusive=True)


class Transcript(VerticalScroll, can_focus=False):
    """The blocks of one conversation."""

    DEFAULT_CSS = """
    Transcript {
        height: 1fr; padding: 1 1 0 1; background: $background;
        scrollbar-size-vertical: 1; scrollbar-background: $background; scrollbar-color: $panel;
        scrollbar-background-hover: $background; scrollbar-color-hover: $primary;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._undrawn: list[Widget] = []

    def on_mount(self) -> None:
        """Follow the end."""
        self.anchor()

    async def show(self, blocks: Sequence[Widget]) -> None:
        """Show these instead of what is there."""
        for answer in self._answers():
            await answer.finish()
        await self.remove_children()
        self._undrawn = list(blocks[:-PAGE])
        drawn = list(blocks[-PAGE:])
        if self._undrawn:
            drawn.insert(0, Earlier(len(self._undrawn)))
        await self.mount_all(drawn)
        self.anchor()

    async def show_earlier(self) -> None:
        """Draw some of the blocks before."""
        more, self._undrawn = self._undrawn[-PAGE:], self._undrawn[:-PAGE]
        await self.query(Earlier).remove()
        first = self.children[0] if self.children else None
        drawn = list(more)
        if self._undrawn:
            drawn.insert(0, Earlier(len(self._undrawn)))
        await self.mount_all(drawn, before=first)

    async def add(self, block: Widget) -> None:
        """Put a block at the end."""
        await self.mount(block)

    def answers(self) -> list[str]:
        """The texts of the model, newest first, as far as they are drawn."""
        return [answer.text for answer in reversed(self._answers()) if answer.text.strip()]

    def _answers(self) -> list[Answer]:
        return list(self.query("Answer"))  # type: ignore[arg-type]

    def fold_all(self) -> None:
        """Open every block that folds; or close them, if all are open."""
        blocks = self.foldings()
        is_open = not all(block.is_open for block in blocks)
        for block in blocks:
            block.fold(is_open)

    def foldings(self) -> Iterable[Folding]:
        """The blocks that fold."""
        return list(self.query(Folding))
