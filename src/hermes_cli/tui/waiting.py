"""The queue on screen: messages for after the running turn, and pictures for the next message."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from textual.content import Content
from textual.widgets import Static

from .texts import one_line

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Message:
    """A queued message: sent, but its turn has not begun."""

    id: str
    text: str
    how: str
    """queued, steered or interrupting."""


_DESCRIPTIONS = {
    "queued": "waits for the end of this answer",
    "steered": "is passed to the running answer",
    "interrupting": "comes as soon as this answer has stopped",
    "sending": "is being sent",
}


class Waiting(Static):
    """A few lines above the input; nothing if nothing waits."""

    DEFAULT_CSS = """
    Waiting { height: auto; padding: 0 2; color: $muted; display: none; background: $surface; }
    Waiting.-some { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.messages: list[Message] = []
        self.images: list[str] = []

    def add(self, message: Message) -> None:
        """Add a queued message, or change how it waits."""
        for number, known in enumerate(self.messages):
            if known.id == message.id:
                self.messages[number] = message
                break
        else:
            self.messages.append(message)
        self._draw()

    def has(self, message_id: str) -> bool:
        """Whether a message still waits."""
        return any(message.id == message_id for message in self.messages)

    def take(self, message_id: str = "", text: str | None = None) -> bool:
        """Remove a queued message, by its id or (a steered one) by its text."""
        for message in self.messages:
            if message.id == message_id or (
                text is not None and message.text.strip() == text.strip()
            ):
                self.messages.remove(message)
                self._draw()
                return True
        return False

    def attach(self, path: str) -> None:
        """A picture goes with the next message."""
        if path not in self.images:
            self.images.append(path)
        self._draw()

    def detach_last(self) -> str | None:
        """Leave out the picture that was attached last; returns its path."""
        path = self.images.pop() if self.images else None
        self._draw()
        return path

    def forget_images(self) -> None:
        """They have been sent."""
        self.images.clear()
        self._draw()

    def clear_all(self) -> None:
        """Another conversation is shown."""
        self.messages.clear()
        self.images.clear()
        self._draw()

    def _draw(self) -> None:
        lines = [
            Content.assemble(
                ("» ", "bold $warning"),
                (one_line(message.text, 50), "$foreground"),
                f"  {_DESCRIPTIONS[message.how]}",
            )
            for message in self.messages[:SHOWN]
        ]
        if len(self.messages) > SHOWN:
            lines.append(Content(f"  and {len(self.messages) - SHOWN} more"))
        if self.images:
            names = ", ".join(PurePath(path).name for path in self.images)
            hint = "  goes with your message · Backspace leaves it out"
            lines.append(Content.assemble(("▣ ", "$accent"), (names, "$foreground"), hint))
        self.update(Content("\n").join(lines))
        self.set_class(bool(lines), "-some")
