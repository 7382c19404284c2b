"""Markdown as WhatsApp's own marks; it has no way to say that a mark is none."""

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
from ...splitting import utf16_length

_MARKS = {"bold": "*", "italic": "_", "strike": "~", "spoiler": ""}
_UNSEEN = re.compile(r"[\s`*_~\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
NOTHING = "…"


def format_message(markdown: str) -> str:
    """Markdown as a message that WhatsApp takes: it refuses one that shows nothing."""
    blocks = parse(_CONTROL.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n")))
    text = join_blocks(blocks, [_block(block) for block in blocks]).strip()
    return text if _UNSEEN.sub("", text) else NOTHING


def shown_length(markdown: str) -> int:
    """How long WhatsApp takes a text to be once it is formatted."""
    return max(len(markdown), utf16_length(format_message(markdown)))


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _inline(block.text)
    if isinstance(block, Heading):
        text = _inline(block.text, within="bold")
        return f"*{text}*" if text.strip() else ""
    if isinstance(block, CodeBlock):
        return _code(block.code)
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
        return _code("\n".join(block.lines))
    return "———"


def _code(code: str) -> str:
    return f"```{code.replace('```', 'ˋˋˋ')}```" if code.strip() else ""


def _inline(pieces: list[Inline], *, within: str = "") -> str:
    return "".join(_piece(piece, within) for piece in pieces)


def _piece(piece: Inline, within: str) -> str:
    if isinstance(piece, Text):
        return piece.text
    if isinstance(piece, Code):
        return f"`{piece.text}`"
    if isinstance(piece, Styled):
        inside = _inline(piece.inside, within=within or piece.style)
        # A mark is one only beside its text.
        mark = "" if piece.style == within or inside != inside.strip() else _MARKS[piece.style]
        return f"{mark}{inside}{mark}"
    label = _inline(piece.inside, within=within)
    if not label or label == piece.url:
        return piece.url or label
    return f"{label} ({piece.url})" if piece.url else label
