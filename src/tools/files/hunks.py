"""What a patch says, whatever its notation: files, and hunks of lines to keep, remove and add."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Mark = Literal[" ", "-", "+"]

COUNTS = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
"""The head of a hunk that says at which lines it is."""


@dataclass(slots=True)
class Hunk:
    """Lines to be found in a file, and what becomes of them."""

    lines: list[tuple[Mark, str]] = field(default_factory=list)
    start: int | None = None
    """The line of the old file where it should be, from 1; None if the patch does not say."""
    anchors: list[str] = field(default_factory=list)
    """Lines that come somewhere before it, each after the one before."""
    at_end: bool = False
    """Whether it is at the end of the file."""
    unended: bool = False
    """Whether the last new line has no newline at its end."""

    @property
    def has_returns(self) -> bool:
        """Whether it shows carriage returns at line ends, so that their absence means something."""
        return any(text.endswith("\r") for _, text in self.lines)

    def side(self, mark: Mark) -> list[str]:
        """The lines as they are before ("-") or after ("+")."""
        return [text for own, text in self.lines if own in (" ", mark)]


@dataclass(slots=True)
class FilePatch:
    """What a patch does to one file."""

    action: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    hunks: list[Hunk] = field(default_factory=list)
    mode: int | None = None
    exact: bool = False
    """Whether the patch says where files end with a newline, as unified diffs do."""


def mark_of(line: str) -> tuple[Mark, str] | None:
    """A line of a hunk; a context line that is empty may have lost its space."""
    if not line:
        return " ", ""
    if line[0] == "+":
        return "+", line[1:]
    if line[0] == "-":
        return "-", line[1:]
    return (" ", line[1:]) if line[0] == " " else None


def drop_last_empty(hunk: Hunk, last: str) -> None:
    """An empty line between a hunk and what follows belongs to neither."""
    if last == "" and hunk.lines and hunk.lines[-1] == (" ", ""):
        hunk.lines.pop()
