"""What may reach the terminal: text, and nothing that the terminal would obey.

Names from chat platforms, titles, search results, tool output, logs and what a model says are other
people's words. Whatever a command prints to a terminal goes through `harmless`, which shows control
characters and those that reorder text as escapes. A pipe or a file gets every byte as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

# Bold, dim and back again are our own, and do no harm in a stranger's words either.
_OBEYED = re.compile(
    "(\x1b\\[[012]m|\r\n)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Text as it is, with what a terminal would obey or hide written as escapes."""
    return "".join(
        char if char in "\n\t" or char.isprintable() else char.encode("unicode_escape").decode()
        for char in text
    )


def harmless(text: str) -> str:
    """Text in which a terminal finds nothing to obey but line ends, tabs, bold and dim."""
    return text if text.isascii() and text.isprintable() else _OBEYED.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    if match[1]:
        return "\n" if match[1] == "\r\n" else match[1]
    return match[0].encode("unicode_escape").decode()


class _Guarded:
    """A terminal's stream that writes only what is harmless."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(harmless(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guard_terminal() -> None:
    """Let standard output and error, where they are a terminal, pass only what is harmless."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Guarded) and stream.isatty():
            setattr(sys, name, _Guarded(stream))


def unguarded(stream: TextIO) -> TextIO:
    """The stream for escapes of our own: moving the cursor, the clipboard."""
    return cast(TextIO, getattr(stream, "unguarded", stream))
