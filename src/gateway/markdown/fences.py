"""Lines that open and close a block of code: one definition for the parser and for splitting."""

from __future__ import annotations

import re
from typing import NamedTuple

# Bounded on purpose: whatever a part of a long answer begins with, closing and opening a block
# again takes few characters.
_FENCE = re.compile(r"[ \t]{0,12}(`{3,8}(?!`)|~{3,8}(?!~))[ \t]*([^\s`]{0,20})([^\n`]{0,60})")


class Fence(NamedTuple):
    """An open block of code."""

    mark: str
    info: str
    """The language, as written after the mark."""

    @property
    def opening(self) -> str:
        """A line that opens such a block."""
        blank = " " if self.info.startswith(self.mark[0]) else ""
        return f"{self.mark}{blank}{self.info}"

    def closed_by(self, line: str) -> bool:
        """Whether this line ends the block."""
        text = line.strip()
        return len(text) >= len(self.mark) and set(text) == {self.mark[0]}


def opened_by(line: str) -> Fence | None:
    """The block of code that a line opens."""
    match = _FENCE.fullmatch(line.rstrip())
    return Fence(match[1], match[2]) if match else None
