"""Markdown as HTML, of few tags and no style, for platforms that show such."""

from __future__ import annotations

import html
import re

from .inline import Code, Inline, Link, Styled, Text, parse_inline
from .parse import Block, CodeBlock, Heading, Items, Paragraph, Quote, Rule, Table, parse
from .plain import checked

_TAGS = {"bold": "strong", "italic": "em", "strike": "del"}
_LINKS = re.compile(r"(?:https?|ftp|mailto|magnet):\S+", re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]+")


def to_html(markdown: str) -> str:
    """Markdown as HTML; hidden text is marked as Matrix does, and shown by everything else."""
    blocks = parse(markdown)
    if len(blocks) == 1 and isinstance(blocks[0], Paragraph):
        return _inline(blocks[0].text)  # a single paragraph needs no box around it
    return "".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{_inline(block.text)}</p>"
    if isinstance(block, Heading):
        return f"<h{block.level}>{_inline(block.text)}</h{block.level}>"
    if isinstance(block, CodeBlock):
        language = block.language if _LANGUAGE.fullmatch(block.language) else ""
        kind = f' class="language-{language}"' if language else ""
        return f"<pre><code{kind}>{_escape(block.code)}\n</code></pre>"
    if isinstance(block, Quote):
        return f"<blockquote>{''.join(_block(inner) for inner in block.blocks)}</blockquote>"
    if isinstance(block, Items):
        return _items(block)
    if isinstance(block, Table):
        return _table(block)
    assert isinstance(block, Rule)
    return "<hr>"


def _items(block: Items) -> str:
    """A list; a deeper indent opens a list within the point before it."""
    tags: list[str] = []
    open_lists: list[tuple[int, str]] = []
    for item in block.items:
        tag = "ol" if item.mark else "ul"
        while open_lists and item.indent < open_lists[-1][0]:
            if len(open_lists) > 1:
                tags.append(f"</li></{open_lists.pop()[1]}>")
            else:
                open_lists[0] = (item.indent, open_lists[0][1])
        if open_lists and item.indent <= open_lists[-1][0] + 1:
            tags.append("</li>")
            if open_lists[-1][1] != tag:
                tags.append(f"</{open_lists[-1][1]}><{tag}>")
                open_lists[-1] = (open_lists[-1][0], tag)
        elif len(open_lists) < 8:
            start = item.mark.rstrip(".)").lstrip("0")
            tags.append(f'<ol start="{start}">' if start not in ("", "1") else f"<{tag}>")
            open_lists.append((item.indent, tag))
        else:
            tags.append("</li>")
        text, box = checked(item)
        tags.append(f"<li>{box + ' ' if box else ''}{_inline(text)}")
    tags += [f"</li></{tag}>" for _, tag in reversed(open_lists)]
    return "".join(tags)


def _table(block: Table) -> str:
    head, *body = block.rows
    width = len(head)
    top = "".join(f"<th>{_cell(cell)}</th>" for cell in head)
    rows = (
        "".join(f"<td>{_cell(cell)}</td>" for cell in (row + [""] * width)[: max(width, len(row))])
        for row in body
    )
    inside = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{inside}</tbody></table>"


def _cell(text: str) -> str:
    return _inline(parse_inline(text))


def _inline(pieces: list[Inline]) -> str:
    return "".join(_piece(piece) for piece in pieces)


def _piece(piece: Inline) -> str:
    if isinstance(piece, Text):
        return _escape(piece.text).replace("\n", "<br>")
    if isinstance(piece, Code):
        return f"<code>{_escape(piece.text)}</code>"
    if isinstance(piece, Styled):
        inside = _inline(piece.inside)
        if piece.style == "spoiler":
            return f"<span data-mx-spoiler>{inside}</span>"
        tag = _TAGS[piece.style]
        return f"<{tag}>{inside}</{tag}>"
    return _link(piece)


def _link(link: Link) -> str:
    label = _inline(link.inside)
    if not _LINKS.fullmatch(link.url):
        return f"{label} ({_escape(link.url)})" if label and link.url else label or "[]"
    return f'<a href="{html.escape(link.url)}">{label or _escape(link.url)}</a>'


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
