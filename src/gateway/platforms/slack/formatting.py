"""Markdown as Slack's mrkdwn.

Everything that Slack reads as an instruction (mentions, links, commands in angle brackets) is
escaped, so an answer notifies nobody; only links that the Markdown has become links.
"""

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
_LINKS = re.compile(r"(?:https?://|mailto:)[^\s<>|]+", re.IGNORECASE)
_UNSEEN = re.compile(r"[\s`*_~\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]+")
NOTHING = "…"


def format_message(markdown: str) -> str:
    """Markdown as a message that Slack takes: it refuses one that shows nothing."""
    blocks = parse(markdown)
    text = join_blocks(blocks, [_block(block) for block in blocks])
    return text if _UNSEEN.sub("", text) else NOTHING


def shown_length(markdown: str) -> int:
    """How long Slack takes a text to be: after formatting, escapes included."""
    return max(len(markdown), len(format_message(markdown)))


def escape(text: str) -> str:
    """Text in which Slack reads no instruction."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
        return "\n".join(_item(item) for item in block.items)
    if isinstance(block, Table):
        return _code("\n".join(block.lines))
    assert isinstance(block, Rule)
    return "———"


def _code(code: str) -> str:
    if not code.strip():
        return ""
    return f"```\n{escape(code.replace('```', 'ˋˋˋ'))}\n```"


def _item(item: Item) -> str:
    text, box = checked(item)
    return f"{item.lead}{box or item.mark or '•'} {_inline(text)}"


def _inline(pieces: list[Inline], *, within: str = "") -> str:
    return "".join(_piece(piece, within) for piece in pieces)


def _piece(piece: Inline, within: str) -> str:
    if isinstance(piece, Text):
        return escape(piece.text)
    if isinstance(piece, Code):
        return f"`{escape(piece.text)}`"
    if isinstance(piece, Styled):
        inside = _inline(piece.inside, within=within or piece.style)
        mark = "" if piece.style == within or inside != inside.strip() else _MARKS[piece.style]
        return f"{mark}{inside}{mark}"
    return _link(piece, within)


def _link(link: Link, within: str) -> str:
    label = _inline(link.inside, within=within).replace("|", "¦")
    if not _LINKS.fullmatch(link.url):
        return f"{label} ({escape(link.url)})" if label and link.url else label or "[]"
    url = escape(link.url)
    return f"<{url}|{label}>" if label and label != url else f"<{url}>"
