"""Markdown as Discord shows it: nearly as it is.

Discord reads Markdown itself. What it does not know is rewritten: tables become code, deep headings
bold, pictures links. Whether anybody is notified is not decided here: every message is sent with
mentions switched off.
"""

from __future__ import annotations

import re

from ...markdown.fences import Fence, opened_by
from ...splitting import utf16_length

_DEEP_HEADING = re.compile(r" {0,3}#{4,6}[ \t]+(\S.*)")
_IMAGE = re.compile(r"!\[([^\[\]\n]{0,500})\]\(([^()\s]{1,2000})\)")
_TABLE_RULE = re.compile(r"[ \t]*\|?(?:[ \t]*:?-{1,200}:?[ \t]*\|)+[ \t]*(?::?-{1,200}:?[ \t]*)?")
_UNSEEN = re.compile(r"[\s\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]+")
NOTHING = "…"


def format_message(markdown: str) -> str:
    """Markdown as a message that Discord takes: it refuses one that shows nothing."""
    lines = markdown.replace("\r\n", "\n").split("\n")
    shown: list[str] = []
    fence: Fence | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if fence is not None:
            fence = None if fence.closed_by(line) else fence
        elif fence := opened_by(line):
            pass
        elif end := _table_end(lines, at):
            shown += ["```", *(row.replace("`", "ˋ") for row in lines[at:end]), "```"]
            at = end
            continue
        else:
            line = _line(line)
        shown.append(line)
        at += 1
    text = "\n".join(shown)
    return text if _UNSEEN.sub("", text) else NOTHING


def shown_length(markdown: str) -> int:
    """How long Discord takes a text to be: after formatting, in UTF-16 units to be safe."""
    return max(utf16_length(markdown), utf16_length(format_message(markdown)))


def _line(line: str) -> str:
    if heading := _DEEP_HEADING.fullmatch(line):
        return f"**{heading[1].rstrip('# ').replace('**', '')}**"
    return _IMAGE.sub(lambda image: f"[{image[1] or 'picture'}]({image[2]})", line)


def _table_end(lines: list[str], at: int) -> int | None:
    """The line after a table that begins at a line; None if none does."""
    if "|" not in lines[at] or at + 1 >= len(lines):
        return None
    if "|" not in lines[at + 1] or not _TABLE_RULE.fullmatch(lines[at + 1]):
        return None
    end = at + 2
    while end < len(lines) and "|" in lines[end] and not opened_by(lines[end]):
        end += 1
    return end
