"""Markdown as plain text: what a reader would see, without its marks."""

from __future__ import annotations

from .inline import Code, Inline, Styled, Text
from .parse import (
    Block,
    CodeBlock,
    Heading,
    Item,
    Items,
    Paragraph,
    Quote,
    Rule,
    Table,
    join_blocks,
    parse,
)

_BOXES = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}


def to_plain(markdown: str) -> str:
    """Markdown as plain text."""
    blocks = parse(markdown)
    return join_blocks(blocks, [_block(block) for block in blocks])


def checked(item: Item) -> tuple[list[Inline], str]:
    """A point's text, and the box in front of it if it is a task."""
    if item.text and isinstance(item.text[0], Text):
        first = item.text[0].text
        for mark, box in _BOXES.items():
            if first.startswith(mark):
                return [Text(first.removeprefix(mark)), *item.text[1:]], box
    return item.text, ""


def inline_text(pieces: list[Inline]) -> str:
    """The text of pieces, links with where they go."""
    return "".join(_piece(piece) for piece in pieces)


def _block(block: Block) -> str:
    if isinstance(block, Paragraph | Heading):
        return inline_text(block.text)
    if isinstance(block, CodeBlock):
        return block.code
    if isinstance(block, Quote):
        inside = "\n".join(filter(None, (_block(inner) for inner in block.blocks)))
        return "\n".join(f"> {line}" for line in inside.split("\n")) if inside else ""
    if isinstance(block, Items):
        return "\n".join(_item(item) for item in block.items)
    if isinstance(block, Table):
        return "\n".join(block.lines)
    assert isinstance(block, Rule)
    return "———"


def _item(item: Item) -> str:
    text, box = checked(item)
    return f"{item.lead}{box or item.mark or '•'} {inline_text(text)}"


def _piece(piece: Inline) -> str:
    if isinstance(piece, Text | Code):
        return piece.text
    inside = inline_text(piece.inside)
    if isinstance(piece, Styled):
        return inside
    if not inside or inside == piece.url:
        return piece.url or inside
    return f"{inside} ({piece.url})" if piece.url else inside
