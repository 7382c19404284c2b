"""Markdown as XMPP's message styling (XEP-0393), which reads well where nothing is styled, too."""

from __future__ import annotations

import re

from ...markdown.inline import Code, Inline, Link, Styled, Text
from ...markdown.parse import (
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
from ...markdown.plain import checked

_MARKS = {"bold": "*", "italic": "_", "strike": "~", "spoiler": ""}
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_UNSEEN = re.compile(r"[\s`*_~\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]+")
NOTHING = "…"


def format_message(markdown: str) -> str:
    """Markdown as the text of a message: never empty, and nothing in it that XML does not know."""
    blocks = parse(clean(markdown))
    text = join_blocks(blocks, [_block(block) for block in blocks])
    return text if _UNSEEN.sub("", text) else NOTHING


def shown_length(markdown: str) -> int:
    """How long a text is once it is formatted."""
    return max(len(markdown), len(format_message(markdown)))


def clean(text: str) -> str:
    """Text that can stand in XML: one wrong character, and a server ends the connection."""
    return _NO_XML.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _inline(block.text)
    if isinstance(block, Heading):
        text = _inline(block.text, within="bold").strip()
        return f"*{text}*" if text else ""
    if isinstance(block, CodeBlock):
        return _code(block.code)
    if isinstance(block, Quote):
        inside = "\n".join(filter(None, (_block(inner) for inner in block.blocks)))
        return "\n".join(f"> {line}" for line in inside.split("\n")) if inside else ""
    if isinstance(block, Items):
        return "\n".join(_item(item) for item in block.items)
    if isinstance(block, Table):
        return _code("\n".join(block.lines))
    assert isinstance(block, Rule)
    return "———"


def _code(code: str) -> str:
    if not code.strip():
        return ""
    # A line that is a fence would end the block.
    return "```\n" + re.sub(r"^```", "ˋˋˋ", code, flags=re.MULTILINE) + "\n```"


def _item(item: Item) -> str:
    text, box = checked(item)
    return f"{item.lead}{box or item.mark or '•'} {_inline(text)}"


def _inline(pieces: list[Inline], *, within: str = "") -> str:
    return "".join(_piece(piece, within) for piece in pieces)


def _piece(piece: Inline, within: str) -> str:
    if isinstance(piece, Text):
        return piece.text
    if isinstance(piece, Code):
        return f"`{piece.text}`"
    if isinstance(piece, Styled):
        inside = _inline(piece.inside, within=within or piece.style)
        # A mark beside a blank, or over the end of a line, is none.
        plain = piece.style == within or inside != inside.strip() or "\n" in inside
        mark = "" if plain or not inside else _MARKS[piece.style]
        return f"{mark}{inside}{mark}"
    return _link(piece, within)


def _link(link: Link, within: str) -> str:
    label = _inline(link.inside, within=within)
    if not label or label == link.url:
        return link.url or label
    return f"{label} ({link.url})" if link.url else label
