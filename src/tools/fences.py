"""Putting foreign text into a fenced block of Markdown that it cannot leave."""

from __future__ import annotations

import re

LONGEST = 8
"""Signs of a fence that our own Markdown reader takes for one."""
_RUNS = {sign: re.compile(f"{sign}+") for sign in "`~"}
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,20}")
_NO_WIDTH = "\u200b"


def fenced(text: str, language: str = "") -> str:
    """`text` as a block of code, whose fence is longer than any run of its sign in the text.

    Where more than eight backticks were needed, the fence is made of tildes. If these do not do
    either, the lines that would end the block begin with a sign without width.
    """
    if not _LANGUAGE.fullmatch(language):
        language = ""
    for sign in _RUNS:
        fence = fence_for(text, sign)
        if len(fence) <= LONGEST:
            return f"{fence}{language}\n{text}\n{fence}"
    fence = "~" * LONGEST
    inside = "\n".join(map(_closing_hidden, text.replace("\r", "\n").split("\n")))
    return f"{fence}{language}\n{inside}\n{fence}"


def fence_for(text: str, sign: str = "`") -> str:
    """A fence that is longer than any run of its sign in the text; at least three signs."""
    longest = max((len(run[0]) for run in _RUNS[sign].finditer(text)), default=0)
    return sign * max(3, longest + 1)


def _closing_hidden(line: str) -> str:
    text = line.strip()
    closes = len(text) >= LONGEST and not text.strip("~")
    return _NO_WIDTH + line if closes else line
