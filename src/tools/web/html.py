"""HTML as a stream of texts and tags, in time that grows with its length and no faster.

The web's pages are often broken and sometimes hostile. Like a browser, this never goes back: every
character is looked at a bounded number of times, whatever the page contains. (The parser of the
standard library rescans unfinished tags and takes hours for a few megabytes of `<!`.)
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

_TAG_NAME = re.compile(r"[a-zA-Z][^\s/>]*+")
_ATTRIBUTE = re.compile(r"[\s/]*+([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+)?+")
_UNQUOTED = re.compile(r"[^\s>]*+")
_SKIP = re.compile(r"[\s/=]*+")
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "iframe", "noembed", "noframes", "xmp")
}
_MAX_ATTRIBUTES = 200


class Text(NamedTuple):
    """Text between tags, with its character references replaced."""

    text: str


class Start(NamedTuple):
    """An opening tag; names in small letters, the first of equal attributes counts."""

    name: str
    attributes: dict[str, str]


class End(NamedTuple):
    """A closing tag."""

    name: str


def tokens(page: str) -> Iterator[Text | Start | End]:
    """The texts and tags of a page; comments and what a browser would not show are left out."""
    position, length = 0, len(page)
    while position < length:
        opening = page.find("<", position)
        if opening < 0:
            yield Text(unescape(page[position:]))
            return
        if opening > position:
            yield Text(unescape(page[position:opening]))
        position = opening
        following = page[opening + 1 : opening + 2]
        if following.isascii() and following.isalpha():
            tag, position = _start(page, opening)
            if tag is None:
                return
            yield tag
            if tag.name in _RAW_TEXT:
                end = _RAW_TEXT[tag.name].search(page, position)
                stop = end.start() if end else length
                if tag.name in ("title", "textarea"):
                    yield Text(unescape(page[position:stop]))
                position = stop
        elif following and following in "!?/":
            position, name = _markup(page, opening)
            if name:
                yield End(name)
        else:
            yield Text("<")
            position += 1


def unescape(text: str) -> str:
    """`text` with its character references replaced; absurd ones stay as they are."""
    try:
        return html.unescape(text) if "&" in text else text
    except ValueError:  # a number of thousands of digits
        return text


def _markup(page: str, opening: int) -> tuple[int, str]:
    """Where a comment, declaration or closing tag ends, and the closing tag's name."""
    if page.startswith("<!--", opening):
        end = page.find("-->", opening + 4)
        return (end + 3 if end >= 0 else len(page)), ""
    end = page.find(">", opening)
    after = end + 1 if end >= 0 else len(page)
    name = _TAG_NAME.match(page, opening + 2) if page[opening + 1] == "/" else None
    return after, name[0].lower() if name and end >= 0 else ""


def _start(page: str, opening: int) -> tuple[Start | None, int]:
    """An opening tag and where it ends; None if the page ends inside it."""
    name = _TAG_NAME.match(page, opening + 1)
    assert name is not None, "the caller saw a letter"
    position = name.end()
    attributes: dict[str, str] = {}
    while True:
        match = _ATTRIBUTE.match(page, position)
        if match is None:
            skipped = _SKIP.match(page, position)
            position = skipped.end() if skipped else position
            if page.startswith(">", position):
                return Start(name[0].lower(), attributes), position + 1
            if position >= len(page):
                return None, position
            continue
        position, value = match.end(), ""
        if "=" in match[0][match.end(1) - match.start() :]:
            quote = page[position : position + 1]
            if quote and quote in "\"'":
                end = page.find(quote, position + 1)
                if end < 0:
                    return None, len(page)
                value, position = page[position + 1 : end], end + 1
            else:
                bare = _UNQUOTED.match(page, position)
                assert bare is not None, "it may match nothing"
                value, position = bare[0], bare.end()
        if len(attributes) < _MAX_ATTRIBUTES:
            attributes.setdefault(match[1].lower(), unescape(value))
