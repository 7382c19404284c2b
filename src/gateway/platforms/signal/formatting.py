"""Markdown as Signal shows it: plain text, and ranges of it that have a style.

Between formatting and sending the styles are in the text as control characters, one for each; what
a model wrote of those is left out.
"""

from __future__ import annotations

import re

from ...markdown.inline import Code, Inline, Link, Styled, Text
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

_MARKS = {"bold": "\x02", "italic": "\x1d", "strike": "\x1e", "spoiler": "\x0f", "code": "\x11"}
_STYLES = {
    "\x02": "BOLD", "\x1d": "ITALIC", "\x1e": "STRIKETHROUGH", "\x0f": "SPOILER",
    "\x11": "MONOSPACE",
}  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_UNSEEN = re.compile(r"[\s\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff\ufffc]+")
NOTHING = "…"
MOST_STYLES = 200


def to_signal(markdown: str) -> str:
    """Markdown as text with marks; Signal takes no message that shows nothing."""
    blocks = parse(_CONTROL.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n")))
    text = join_blocks(blocks, [_block(block) for block in blocks])
    return text if _UNSEEN.sub("", _without_marks(text)) else NOTHING


def split_styles(marked: str) -> tuple[str, list[str]]:
    """The text itself, and its styles as signal-cli takes them: `start:length:STYLE`, counted in
    UTF-16 units."""
    shown: list[str] = []
    styles: list[str] = []
    begun: dict[str, int] = {}
    at = 0
    for char in marked:
        if char not in _STYLES:
            shown.append(char)
            at += 2 if char > "\uffff" else 1
        elif char not in begun:
            begun[char] = at
        else:
            start = begun.pop(char)
            if at > start and len(styles) < MOST_STYLES:
                styles.append(f"{start}:{at - start}:{_STYLES[char]}")
    return "".join(shown), styles


def shown_bytes(markdown: str) -> int:
    """How long Signal takes a text to be: its bytes once it is formatted."""
    shown = _without_marks(to_signal(markdown))
    return max(len(markdown), len(shown.encode("utf-8", "replace")))


def _without_marks(text: str) -> str:
    return _CONTROL.sub("", text)


def _marked(text: str, style: str) -> str:
    mark = _MARKS[style]
    return f"{mark}{text}{mark}" if text.strip() else text


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _inline(block.text)
    if isinstance(block, Heading):
        return _marked(_inline(block.text, ("bold",)), "bold")
    if isinstance(block, CodeBlock):
        return _marked(block.code, "code")
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
        return _marked("\n".join(block.lines), "code")
    return "———"


def _inline(pieces: list[Inline], within: tuple[str, ...] = ()) -> str:
    return "".join(_piece(piece, within) for piece in pieces)


def _piece(piece: Inline, within: tuple[str, ...]) -> str:
    if isinstance(piece, Text):
        return piece.text
    if isinstance(piece, Code):
        return _marked(piece.text, "code")
    if isinstance(piece, Styled):
        inside = _inline(piece.inside, (*within, piece.style))
        return inside if piece.style in within else _marked(inside, piece.style)
    return _link(piece, within)


def _link(link: Link, within: tuple[str, ...]) -> str:
    label = _inline(link.inside, within)
    if not label or _without_marks(label) == link.url:
        return link.url or label
    return f"{label} ({link.url})" if link.url else label
