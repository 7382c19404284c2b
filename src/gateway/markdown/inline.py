"""Text with emphasis, code and links in it, read from left to right."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Literal

Style = Literal["bold", "italic", "strike", "spoiler"]

_MARKS: tuple[tuple[str, Style], ...] = (
    ("**", "bold"),
    ("__", "bold"),
    ("~~", "strike"),
    ("||", "spoiler"),
    ("*", "italic"),
    ("_", "italic"),
)
_ESCAPABLE = frozenset("\\`*_{}[]()#+-.!|~>")
_LINK = re.compile(
    r"(!?)\[((?:[^\[\]\\\n]|\\.)*)\]"
    r"\([ \t]{0,3}<?([^()\s<>]*(?:\([^()\s<>]*\)[^()\s<>]*)*)>?"
    r"(?:[ \t]{1,3}\"([^\"\n]*)\")?[ \t]{0,3}\)"
)
_PLAIN = re.compile(r"[^\\`*_~|!\[]+")
_TICKS = re.compile(r"`+")


@dataclass(slots=True)
class Text:
    """Characters as they are."""

    text: str


@dataclass(slots=True)
class Code:
    """Characters as they are, in a fixed width."""

    text: str


@dataclass(slots=True)
class Styled:
    """Emphasis on what is inside."""

    style: Style
    inside: list[Inline]


@dataclass(slots=True)
class Link:
    """A link; an image is one whose `image` is set."""

    inside: list[Inline]
    url: str
    image: bool = False


Inline = Text | Code | Styled | Link


@dataclass(slots=True)
class _Open:
    """An emphasis that was begun, and what has come since."""

    mark: str
    style: Style
    inside: list[Inline] = field(default_factory=list)


def parse_inline(text: str) -> list[Inline]:
    """The pieces of a text."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str, links: bool = True) -> None:
        self._text = text
        self._links = links
        self._at = 0
        self._root: list[Inline] = []
        self._stack: list[_Open] = []
        self._unclosed_ticks: set[int] = set()

    def read(self) -> list[Inline]:
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if plain := _PLAIN.match(text, self._at):
                self._add(plain[0])
                self._at = plain.end()
            elif char == "\\" and text[self._at + 1 : self._at + 2] in _ESCAPABLE:
                self._add(text[self._at + 1 : self._at + 2] or "\\")
                self._at += 2
            elif char == "`":
                self._code()
            elif char in "![" and self._links and (link := _LINK.match(text, self._at)):
                self._link(link)
            elif not self._emphasis():
                self._add(char)
                self._at += 1
        while self._stack:
            self._give_up()
        return _merged(self._root)

    def _here(self) -> list[Inline]:
        return self._stack[-1].inside if self._stack else self._root

    def _add(self, text: str) -> None:
        self._here().append(Text(text))

    def _code(self) -> None:
        ticks = _TICKS.match(self._text, self._at)
        assert ticks is not None
        count = len(ticks[0])
        end = -1
        if count not in self._unclosed_ticks:
            for other in _TICKS.finditer(self._text, ticks.end()):
                if len(other[0]) == count:
                    end = other.start()
                    break
            else:
                self._unclosed_ticks.add(count)
        if end < 0:
            self._add(ticks[0])
            self._at = ticks.end()
            return
        code = self._text[ticks.end() : end]
        if len(code) > 2 and code[0] == code[-1] == " " and code.strip():
            code = code[1:-1]
        self._here().append(Code(code))
        self._at = end + count

    def _link(self, match: re.Match[str]) -> None:
        inside = _Reader(match[2], links=False).read()
        self._here().append(Link(inside, match[3], image=bool(match[1])))
        self._at = match.end()

    def _emphasis(self) -> bool:
        """Begin or end an emphasis here; False if there is none."""
        text, at = self._text, self._at
        before = text[at - 1 : at] if at else ""
        if self._stack:
            # The innermost is ended first, so that "***" ends both italic and bold.
            mark = self._stack[-1].mark
            if text.startswith(mark, at) and self._may_end(mark, before):
                self._end(len(self._stack) - 1)
                return True
        for mark, style in _MARKS:
            if not text.startswith(mark, at):
                continue
            after = text[at + len(mark) : at + len(mark) + 1]
            level = next((n for n, opened in enumerate(self._stack) if opened.mark == mark), None)
            if level is not None:
                if self._may_end(mark, before):
                    self._end(level)
                    return True
                continue
            word = mark[0] == "_" and before.isalnum()
            if after and not after.isspace() and after != mark[0] * 2 and not word:
                if any(opened.style == style for opened in self._stack):
                    continue
                self._stack.append(_Open(mark, style))
                self._at += len(mark)
                return True
        return False

    def _may_end(self, mark: str, before: str) -> bool:
        after = self._text[self._at + len(mark) : self._at + len(mark) + 1]
        if not before or before.isspace() or not self._stack:
            return False
        return not (mark[0] == "_" and after.isalnum())

    def _end(self, level: int) -> None:
        while len(self._stack) > level + 1:
            self._give_up()
        opened = self._stack.pop()
        self._at += len(opened.mark)
        if opened.inside:
            self._here().append(Styled(opened.style, _merged(opened.inside)))
        else:
            self._add(opened.mark * 2)

    def _give_up(self) -> None:
        """What was begun last is text after all."""
        opened = self._stack.pop()
        self._add(opened.mark)
        self._here().extend(opened.inside)


def _merged(pieces: list[Inline]) -> list[Inline]:
    """Neighbouring texts as one; joined once, since adding to a long text copies it."""
    merged: list[Inline] = []
    for is_text, group in itertools.groupby(pieces, lambda piece: isinstance(piece, Text)):
        if is_text:
            merged.append(Text("".join(piece.text for piece in group if isinstance(piece, Text))))
        else:
            merged += group
    return merged
