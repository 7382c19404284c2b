"""The candidates for what is being typed, in a list above the input. The input keeps the focus."""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from .texts import one_line


class Candidate(NamedTuple):
    """One of them."""

    text: str
    """What is put in place of what was typed."""
    display: str
    meta: str


class Completions(OptionList, can_focus=False):
    """Shown while there are candidates."""

    DEFAULT_CSS = """
    Completions {
        height: auto; max-height: 8; display: none; background: $panel; border: none; padding: 0 1;
        scrollbar-size-vertical: 1;
    }
    Completions.-open { display: block; }
    Completions:focus { border: none; }
    Completions > .option-list--option-highlighted { background: $primary 30%; text-style: bold; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.candidates: list[Candidate] = []
        self.start = 0
        """From where on a candidate replaces the text before the cursor."""
        self._before: str | None = None
        """The text before the cursor that they are for."""

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return self.has_class("-open")

    def chosen(self, before: str) -> Candidate | None:
        """The one that is highlighted, unless it is for something else than what is typed now."""
        if not self.is_open or self.highlighted is None or self._before not in (None, before):
            return None
        return self.candidates[self.highlighted]

    def offer(self, candidates: list[Candidate], start: int, before: str | None = None) -> None:
        """Show these, the first of them highlighted; none closes the list.

        `before` is the text before the cursor that they are for.
        """
        self.candidates, self.start, self._before = candidates, start, before
        self.clear_options()
        width = max((len(candidate.display) for candidate in candidates), default=0)
        room = max(20, self.app.size.width - min(width, 40) - 8)
        self.add_options(
            Option(
                Content.assemble(
                    (f"{one_line(candidate.display, 40):<{min(width, 40)}}", "$foreground"),
                    (f"  {one_line(candidate.meta, room)}", "$muted"),
                )
            )
            for candidate in candidates
        )
        self.set_class(bool(candidates), "-open")
        if candidates:
            self.highlighted = 0

    def close(self) -> None:
        """Show none."""
        if self.is_open:
            self.offer([], 0)

    def move(self, by: int) -> None:
        """Highlight another one, from the last on to the first."""
        if self.candidates:
            self.highlighted = ((self.highlighted or 0) + by) % len(self.candidates)
