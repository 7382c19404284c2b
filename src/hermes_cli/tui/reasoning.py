"""What the model thinks before it speaks: one line, and all of it on request."""

from __future__ import annotations

import time

from textual.content import Content

from .folding import Folding
from .texts import clean, one_line, seconds


class Reasoning(Folding):
    """One stretch of reasoning."""

    DEFAULT_CSS = """
    Reasoning > .body { text-style: italic; }
    """

    def __init__(self, text: str = "", *, is_open: bool = False, is_over: bool = False) -> None:
        super().__init__(is_open=is_open)
        self._pieces = [text] if text else []
        self._began = time.monotonic()
        self._took: float | None = None
        self._is_over = is_over

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._pieces)

    def write(self, text: str) -> None:
        """Put a piece behind what is there."""
        self._pieces.append(text)
        self.changed()

    def finish(self) -> None:
        """The model has begun to speak or to act."""
        if not self._is_over:
            self._is_over = True
            self._took = time.monotonic() - self._began
            self.changed()

    def headline(self) -> Content:
        """Whether it still thinks, and the beginning of it."""
        arrow = "▾" if self.is_open else "▸"
        took = f" for {seconds(self._took)}" if self._took and self._took >= 1 else ""
        said = f"Thought{took}" if self._is_over else "Thinking …"
        parts: list[str | tuple[str, str]] = [f"{arrow} ", (said, "italic $secondary")]
        if not self.is_open:
            parts.append(f"  {one_line(self.text, 120)}")
        return Content.assemble(*parts)

    def body(self) -> Content:
        """All of it."""
        return Content(clean(self.text).strip())
