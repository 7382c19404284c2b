"""Markdown as the HTML that Telegram's Bot API takes.

The text that is shown is never longer than the Markdown it came from, so a part that was cut to
the platform's limit fits after formatting; tags and escapes do not count there.
"""

from __future__ import annotations

import html
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

_TAGS = {"bold": "b", "italic": "i", "strike": "s", "spoiler": "tg-spoiler"}
_LINKS = re.compile(r"(?:https?|tg|mailto|tel):\S+", re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]+")
_TAG = re.compile(r"<[^<>]*>")


def to_telegram_html(markdown: str) -> str:
    """Markdown as Telegram HTML; any text gives HTML that Telegram can parse."""
    blocks = parse(markdown)
    return join_blocks(blocks, [_block(block) for block in blocks])


def format_message(markdown: str) -> str:
    """Markdown as a message that Telegram takes: it refuses one that shows nothing."""
    formatted = to_telegram_html(markdown)
    return formatted if without_tags(formatted).strip() else "…"


def without_tags(formatted: str) -> str:
    """The text of such HTML, for when Telegram does not take the markup."""
    return html.unescape(_TAG.sub("", formatted))


def _block(block: Block, *, quoted: bool = False) -> str:
    if isinstance(block, Paragraph):
        return _inline(block.text)
    if isinstance(block, Heading):
        return f"<b>{_inline(block.text, bold=True)}</b>" if block.text else ""
    if isinstance(block, CodeBlock):
        return _code(block)
    if isinstance(block, Quote):
        inside = "\n".join(filter(None, (_block(inner, quoted=True) for inner in block.blocks)))
        # Telegram has no quotes in quotes.
        return inside if quoted or not inside else f"<blockquote>{inside}</blockquote>"
    if isinstance(block, Items):
        return "\n".join(_item(item) for item in block.items)
    if isinstance(block, Table):
        return f"<pre>{_escape(chr(10).join(block.lines))}</pre>"
    assert isinstance(block, Rule)
    return "———"


def _code(block: CodeBlock) -> str:
    if not block.code.strip():
        return ""
    code = _escape(block.code)
    if _LANGUAGE.fullmatch(block.language):
        return f'<pre><code class="language-{block.language}">{code}</code></pre>'
    return f"<pre>{code}</pre>"


def _item(item: Item) -> str:
    text, box = checked(item)
    return f"{item.lead}{box or item.mark or '•'} {_inline(text)}"


def _inline(pieces: list[Inline], *, bold: bool = False) -> str:
    return "".join(_piece(piece, bold) for piece in pieces)


def _piece(piece: Inline, bold: bool) -> str:
    if isinstance(piece, Text):
        return _escape(piece.text)
    if isinstance(piece, Code):
        return f"<code>{_escape(piece.text)}</code>"
    if isinstance(piece, Styled):
        if piece.style == "bold" and bold:
            return _inline(piece.inside, bold=True)
        tag = _TAGS[piece.style]
        return f"<{tag}>{_inline(piece.inside, bold=bold or piece.style == 'bold')}</{tag}>"
    return _link(piece, bold)


def _link(link: Link, bold: bool) -> str:
    label = _inline(link.inside, bold=bold)
    if not _LINKS.fullmatch(link.url):
        return f"{label} ({_escape(link.url)})" if label and link.url else label or "[]"
    return f'<a href="{html.escape(link.url)}">{label or _escape(link.url)}</a>'


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
