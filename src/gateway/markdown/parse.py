"""Markdown as a tree: blocks, and text with emphasis, code and links in it.

Models write loose Markdown, cut off anywhere, so nothing here can fail: what does not close is
text. Each kind of emphasis is open at most once at a time, which bounds the depth, and the time
grows with the length of the text only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .fences import opened_by
from .inline import Inline, parse_inline

MAX_DEPTH = 4
"""Quotes and lists within each other; deeper ones are shown at this depth."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_RULE = re.compile(
    r" {0,3}([-*_])[ \t]*+(?:\1[ \t]*+){2,}+"
)  # possessive: what was read is not kept
_ITEM = re.compile(r"([ \t]*)([-*+•]|\d{1,9}[.)])[ \t]+(.*)")
_QUOTE = re.compile(r" {0,3}> ?(.*)")
_TABLE_RULE = re.compile(r":?-+:?")


@dataclass(slots=True)
class _Block:
    apart: bool = field(default=False, kw_only=True)
    """Whether a blank line comes before it."""


@dataclass(slots=True)
class Paragraph(_Block):
    """Lines of text."""

    text: list[Inline]


@dataclass(slots=True)
class Heading(_Block):
    """A title; level 1 is the largest."""

    level: int
    text: list[Inline]


@dataclass(slots=True)
class CodeBlock(_Block):
    """Text to be shown as it is."""

    language: str
    code: str


@dataclass(slots=True)
class Quote(_Block):
    """What somebody else said."""

    blocks: list[Block]


@dataclass(slots=True)
class Item:
    """One point of a list."""

    lead: str
    """The blanks before it, as written."""
    mark: str
    """Its number as written, such as "3."; empty for a bullet."""
    text: list[Inline]

    @property
    def indent(self) -> int:
        """How deep it is."""
        return len(self.lead.expandtabs(4))


@dataclass(slots=True)
class Items(_Block):
    """A list; nested points have a greater indent."""

    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Table(_Block):
    """Cells in rows; `lines` is the table as written."""

    rows: list[list[str]]
    lines: list[str]


@dataclass(slots=True)
class Rule(_Block):
    """A line across."""


Block = Paragraph | Heading | CodeBlock | Quote | Items | Table | Rule


def parse(text: str, depth: int = 0) -> list[Block]:
    """The blocks of a text."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        known = len(blocks)
        apart = at > 0 and not lines[at - 1].strip()
        at = _block(lines, at, blocks, depth)
        if len(blocks) > known:
            blocks[known].apart = apart
    return blocks


def join_blocks(blocks: list[Block], shown: list[str]) -> str:
    """Blocks as they are shown, one below the other, with a blank line where there was one."""
    text = ""
    for block, part in zip(blocks, shown, strict=True):
        if part:
            text += ("\n\n" if block.apart else "\n") + part if text else part
    return text.strip("\n")


def _block(lines: list[str], at: int, blocks: list[Block], depth: int) -> int:
    """Read one block from line `at`; returns the line after it."""
    line = lines[at]
    if not line.strip():
        return at + 1
    if opened_by(line):
        return _code(lines, at, blocks)
    if heading := _HEADING.fullmatch(line):
        blocks.append(Heading(len(heading[1]), parse_inline(_title(heading[2]))))
        return at + 1
    if _RULE.fullmatch(line):
        blocks.append(Rule())
        return at + 1
    if _QUOTE.fullmatch(line) and depth < MAX_DEPTH:
        return _quote(lines, at, blocks, depth)
    if _begins_table(lines, at):
        return _table(lines, at, blocks)
    if _ITEM.fullmatch(line):
        return _items(lines, at, blocks)
    return _paragraph(lines, at, blocks, depth)


def _code(lines: list[str], at: int, blocks: list[Block]) -> int:
    fence = opened_by(lines[at])
    assert fence is not None
    indent = len(lines[at]) - len(lines[at].lstrip(" \t"))
    code = []
    at += 1
    while at < len(lines):
        if fence.closed_by(lines[at]):
            at += 1
            break
        line = lines[at]
        code.append(line[indent:] if not line[:indent].strip() else line)
        at += 1
    blocks.append(CodeBlock(fence.info, "\n".join(code)))
    return at


def _quote(lines: list[str], at: int, blocks: list[Block], depth: int) -> int:
    inside = []
    while at < len(lines) and (quoted := _QUOTE.fullmatch(lines[at])):
        inside.append(quoted[1])
        at += 1
    blocks.append(Quote(parse("\n".join(inside), depth + 1)))
    return at


def _title(text: str) -> str:
    """A heading's text without the marks that may end it."""
    title = text.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if bare.endswith((" ", "\t")) else title


def _begins_table(lines: list[str], at: int) -> bool:
    if "|" not in lines[at] or at + 1 >= len(lines) or "|" not in lines[at + 1]:
        return False
    return all(_TABLE_RULE.fullmatch(cell) for cell in _cells(lines[at + 1]))


def _table(lines: list[str], at: int, blocks: list[Block]) -> int:
    begin = at
    at += 2
    while at < len(lines) and "|" in lines[at]:
        at += 1
    shown = lines[begin:at]
    rows = [_cells(line) for number, line in enumerate(shown) if number != 1]
    blocks.append(Table(rows, shown))
    return at


def _cells(line: str) -> list[str]:
    inside = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inside)]


def _items(lines: list[str], at: int, blocks: list[Block]) -> int:
    listed = Items()
    while at < len(lines) and (item := _ITEM.fullmatch(lines[at])):
        mark = item[2] if item[2][0].isdigit() else ""
        text = [item[3]]
        at += 1
        # Lines that go on are indented; a fence, a heading or another point begins anew.
        while at < len(lines) and lines[at][:1] in (" ", "\t") and lines[at].strip():
            if _ITEM.fullmatch(lines[at]) or opened_by(lines[at]):
                break
            text.append(lines[at].strip())
            at += 1
        listed.items.append(Item(item[1], mark, parse_inline("\n".join(text))))
        # One blank line between points does not end a list.
        if at + 1 < len(lines) and not lines[at].strip() and _ITEM.fullmatch(lines[at + 1]):
            at += 1
    blocks.append(listed)
    return at


def _paragraph(lines: list[str], at: int, blocks: list[Block], depth: int) -> int:
    text = [lines[at]]
    at += 1
    while at < len(lines) and lines[at].strip():
        line = lines[at]
        if opened_by(line) or _HEADING.fullmatch(line) or _RULE.fullmatch(line):
            break
        if _ITEM.fullmatch(line) or (_QUOTE.fullmatch(line) and depth < MAX_DEPTH):
            break
        if _begins_table(lines, at):
            break
        text.append(line)
        at += 1
    blocks.append(Paragraph(parse_inline("\n".join(text))))
    return at
