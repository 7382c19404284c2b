"""The plain blocks of a transcript: what the person said, and lines about what happened."""

from __future__ import annotations

from typing import Literal

from textual.content import Content
from textual.widgets import Static

from .texts import clean

Kind = Literal["info", "warning", "error", "output"]
_SIGNS: dict[str, str] = {"info": "· ", "warning": "! ", "error": "✗ ", "output": ""}


class UserMessage(Static):
    """What the person said."""

    DEFAULT_CSS = """
    UserMessage {
        margin: 1 0;
        padding: 0 1;
        border-left: outer $primary;
        background: $surface;
        color: $foreground;
    }
    """

    def __init__(self, text: str, timestamp: float | None = None) -> None:
        super().__init__(clean(text), markup=False)
        self.text = text
        self.timestamp = timestamp


class Notice(Static):
    """A line about what happened, or what a command has to say."""

    DEFAULT_CSS = """
    Notice { margin: 1 0; padding: 0 2; color: $muted; }
    Notice.-warning { color: $warning; }
    Notice.-error { color: $error; }
    Notice.-output { color: $foreground; border-left: outer $panel; padding: 0 1; }
    """

    def __init__(self, text: str, kind: Kind = "info") -> None:
        super().__init__(f"{_SIGNS[kind]}{clean(text)}", markup=False, classes=f"-{kind}")
        self.text = text


class Welcome(Static):
    """What an empty conversation shows."""

    DEFAULT_CSS = """
    Welcome { padding: 1 2; color: $muted; }
    """

    def __init__(self, model: str = "") -> None:
        super().__init__(_welcome(model))

    def tell(self, model: str) -> None:
        """Say which model answers."""
        self.update(_welcome(model))


def _welcome(model: str) -> Content:
    about = f"Talking to {model}." if model else "Starting …"
    keys = (
        ("Enter", " sends, "),
        ("Ctrl+J", " begins a new line, "),
        ("/", " lists commands, "),
        ("@", " names files, "),
        ("F1", " shows every key."),
    )
    parts: list[str | tuple[str, str]] = [
        ("Hermes", "bold $primary"),
        f"\n{about} What was said is kept, whatever happens.\n\n",
    ]
    for key, does in keys:
        parts += [(key, "$foreground"), does]
    return Content.assemble(*parts)
