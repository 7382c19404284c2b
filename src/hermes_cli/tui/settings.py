"""What the interface itself remembers: theme, whether reasoning is shown, and what was typed.

Two small private files in the Hermes home. A file that cannot be read counts as empty; if one
cannot be written, the choice is forgotten.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from hermes_base.files import write_private

log = logging.getLogger(__name__)

MOST_KEPT = 1_000


class Settings:
    """The choices of the person, kept in `tui.json`."""

    def __init__(self, home: Path) -> None:
        self._path = home / "tui.json"
        self._values: dict[str, Any] = {}
        try:
            values = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read: %s", self._path, error)
            return
        if isinstance(values, dict):
            self._values = values

    def get(self, name: str, default: Any) -> Any:
        """A choice, if it is of the kind of its default."""
        value = self._values.get(name, default)
        return value if isinstance(value, type(default)) else default

    def has(self, name: str) -> bool:
        """Whether the person has chosen."""
        return name in self._values

    def set(self, name: str, value: Any) -> None:
        """Remember a choice."""
        self._values[name] = value
        _write(self._path, json.dumps(self._values, indent=1) + "\n")


class InputHistory:
    """What was sent before, oldest first, in `tui_history.jsonl`; browsed with up and down."""

    def __init__(self, home: Path) -> None:
        self._path = home / "tui_history.jsonl"
        self._entries: list[str] = []
        self._at = 0
        self._draft = ""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:  # nothing was sent yet
            lines = []
        for line in lines[-MOST_KEPT:]:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # truncated by a crash
            if isinstance(entry, str):
                self._entries.append(entry)
        if len(lines) > 2 * MOST_KEPT:
            _write(self._path, "".join(json.dumps(entry) + "\n" for entry in self._entries))
        self._at = len(self._entries)

    def add(self, text: str) -> None:
        """Remember what was sent; the same twice in a row counts once."""
        if text.strip() and (not self._entries or self._entries[-1] != text):
            self._entries.append(text)
            _write(self._path, json.dumps(text) + "\n", append=True)
        self._at = len(self._entries)

    def older(self, current: str) -> str | None:
        """The entry before the one that is shown; None at the oldest."""
        if self._at == 0:
            return None
        if self._at == len(self._entries):
            self._draft = current
        self._at -= 1
        return self._entries[self._at]

    def newer(self) -> str | None:
        """The entry after the one that is shown, at last what was being typed; None beyond that."""
        if self._at == len(self._entries):
            return None
        self._at += 1
        return self._draft if self._at == len(self._entries) else self._entries[self._at]


def _write(path: Path, text: str, *, append: bool = False) -> None:
    try:
        if not append:
            write_private(path, text, durable=False)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        log.warning("%s cannot be written: %s", path, error)
