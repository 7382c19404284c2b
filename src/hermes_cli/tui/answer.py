"""What the model says: Markdown that grows while it is streamed."""

from __future__ import annotations

from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownStream

from .texts import clean


class Answer(Markdown):
    """One stretch of the model's text."""

    DEFAULT_CSS = """
    Answer {
        margin: 1 0;
        padding: 0 2 0 2;
        background: transparent;
        MarkdownFence {
            background: $surface; color: $foreground; margin: 0 0 1 0;
            &:light { background: $surface; }
        }
        MarkdownFence > Label { padding: 0 1; }
        MarkdownH1, MarkdownH2, MarkdownH3 {
            margin: 0 0 1 0; content-align: left middle; color: $primary; text-style: bold;
            background: transparent; border: none; padding: 0;
        }
        MarkdownBulletList, MarkdownOrderedList { margin: 0 0 1 0; }
        MarkdownTable { margin: 0 0 1 0; }
    }
    """

    def __init__(self, text: str = "") -> None:
        self._pieces = [text] if text else []
        # Opening an address is the person's decision, not a stray click's.
        super().__init__(clean(text), open_links=False)
        self._stream: MarkdownStream | None = None
        self.timestamp: float | None = None

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._pieces)

    async def write(self, text: str) -> None:
        """Put a piece behind what is there."""
        self._pieces.append(text)
        if self._stream is None:
            self._stream = Markdown.get_stream(self)
        await self._stream.write(clean(text))

    async def finish(self, text: str | None = None) -> None:
        """Nothing more comes; `text` is the whole of it, where what was streamed may differ."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.stop()
        if text is not None and text != self.text:
            self._pieces = [text]
            await self.update(clean(text))
