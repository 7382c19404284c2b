"""Markdown as text with IRC's marks: bold, italic and struck through; everything else is plain."""

from __future__ import annotations

import re

from ...markdown.inline import Code, Inline, Styled, Text
from ...markdown.parse import (
    Block,
    CodeBlock,
    Heading,
    Items,
    Paragraph,
    Quote,
    Table,
    join_blocks,
    parse,
)
from ...markdown.plain import checked

BOLD, ITALIC, STRIKE = "\x02", "\x1d", "\x1e"
_MARKS = {"bold": BOLD, "italic": ITALIC, "strike": STRIKE, "spoiler": ""}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TOGGLE = re.compile(f"[{BOLD}{ITALIC}{STRIKE}]")


def to_irc(markdown: str) -> str:
    """Markdown as IRC shows it, one message a line; what a model wrote in codes is left out."""
    text = _CONTROL.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n"))
    blocks = parse(text.replace("\t", "    "))
    return join_blocks(blocks, [_block(block) for block in blocks])


def lines_of(formatted: str) -> list[str]:
    """The lines of such a text that show something; marks that are open go on in the next."""
    lines = []
    open_marks: list[str] = []
    for line in formatted.split("\n"):
        before = "".join(open_marks)
        for mark in _TOGGLE.findall(line):
            if mark in open_marks:
                open_marks.remove(mark)
            else:
                open_marks.append(mark)
        if _TOGGLE.sub("", line).strip():
            lines.append(before + line.rstrip(" "))
    return lines or ["…"]


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _inline(block.text)
    if isinstance(block, Heading):
        inside = _inline(block.text).replace(BOLD, "")
        return f"{BOLD}{inside}{BOLD}" if inside else ""
    if isinstance(block, CodeBlock):
        return block.code
    if isinstance(block, Quote):
        inside = "\n".join(filter(None, (_block(inner) for inner in block.blocks)))
        return "\n".join(f"> {line}" for line in inside.split("\n")) if inside else ""
    if isinstance(block, Items):
        return "\n".join(
            f"{item.lead}{box or item.mark or '•'} {_inline(text)}"
            for item in block.items
            for text, box in (checked(item),)
        )
    if isinstance(block, Table):
        return "\n".join(block.lines)
    return "———"


def _inline(pieces: list[Inline]) -> str:
    return "".join(_piece(piece) for piece in pieces)


def _piece(piece: Inline) -> str:
    if isinstance(piece, Text | Code):
        return piece.text
    inside = _inline(piece.inside)
    if isinstance(piece, Styled):
        mark = _MARKS[piece.style]
        return f"{mark}{inside}{mark}"
    if not inside or inside == piece.url:
        return piece.url or inside
    return f"{inside} ({piece.url})" if piece.url else inside
