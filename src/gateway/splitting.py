"""Long answers in parts, cut where a reader would: between paragraphs, lines, sentences, words.

A fenced block of code that is cut is closed in one part and opened again in the next, so each part
can be formatted by itself.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .markdown.fences import Fence, opened_by

SMALLEST_LIMIT = 64
_OVERHEAD = 40
"""What opening a block of code again and closing it takes at most."""
_SENTENCES = (". ", "! ", "? ", "。", "; ", ", ", " ")
_NO_WIDTH = "\u200b"

Measure = Callable[[str], int]
"""How a platform counts the length of a text; never less than its characters."""


def utf16_length(text: str) -> int:
    """Length in UTF-16 units, in which some platforms count: most emoji are two."""
    return len(text) + sum(char > "\uffff" for char in text)


@dataclass(slots=True)
class _Piece:
    """A line of the text, or a part of one that is too long."""

    text: str
    end: str
    """What follows it: a line break, or nothing within a line."""
    fence: Fence | None
    """The block of code that is open before it."""
    opens: bool = False
    closes: bool = False


def split_message(text: str, limit: int, measure: Measure = len) -> list[str]:
    """`text` in parts of at most `limit`; nothing is lost but blanks at the cuts."""
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a limit below {SMALLEST_LIMIT} leaves no room for text")
    whole = text.strip("\n")
    if len(whole) <= limit and measure(whole) <= limit:
        return [whole]
    pieces = list(_pieces(whole, limit - _OVERHEAD, measure))
    parts: list[str] = []
    at = 0
    while at < len(pieces):
        end = _fitting(pieces, at, limit, measure)
        if end < len(pieces):
            end = _good_cut(pieces, at, end)
        part = _joined(pieces, at, end)
        if part.strip():
            parts.append(part)
        at = end
        if at < len(pieces) and pieces[at].closes:
            at += 1  # the part before was closed already
    return parts or [""]


def _pieces(text: str, room: int, measure: Measure) -> Iterator[_Piece]:
    fence: Fence | None = None
    lines = text.split("\n")
    for number, line in enumerate(lines):
        end = "\n" if number < len(lines) - 1 else ""
        if len(line) > room or measure(line) > room:
            rest = line
            while rest:
                cut = _cut_at(rest, room - 1, measure)
                piece, rest = rest[:cut], rest[cut:]
                # Part of a line must not look like the beginning or end of a block of code.
                looks = opened_by(piece) or (fence is not None and fence.closed_by(piece))
                yield _Piece(_NO_WIDTH + piece if looks else piece, "" if rest else end, fence)
            continue
        if fence is None:
            opened = opened_by(line)
            yield _Piece(line, end, None, opens=opened is not None)
            fence = opened
        else:
            closes = fence.closed_by(line)
            yield _Piece(line, end, fence, closes=closes)
            fence = None if closes else fence


def _cut_at(text: str, room: int, measure: Measure) -> int:
    """Where to cut a line so that at most `room` comes before it."""
    if len(text) <= room and measure(text) <= room:
        return len(text)
    most = bisect.bisect_right(range(1, min(room, len(text)) + 1), room, key=_sizes(text, measure))
    most = max(1, most)
    for mark in _SENTENCES:
        place = text.rfind(mark, most // 3, most)
        if place > 0:
            return place + len(mark) if place + len(mark) <= most else place
    return most


def _sizes(text: str, measure: Measure) -> Callable[[int], int]:
    return lambda length: measure(text[:length])


def _fitting(pieces: list[_Piece], begin: int, limit: int, measure: Measure) -> int:
    """The end of the longest run of pieces from `begin` that fits; at least one piece."""
    low, high = begin + 1, len(pieces)
    # Parts are short beside the text: look for the end near the beginning first.
    step = 1
    while low + step < high and measure(_joined(pieces, begin, low + step)) <= limit:
        low, step = low + step, step * 2
    high = min(high, low + step)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(_joined(pieces, begin, middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _good_cut(pieces: list[_Piece], begin: int, end: int) -> int:
    """The best place to cut, not before the last two thirds of what fits."""
    earliest = begin + 1
    total = sum(len(piece.text) + 1 for piece in pieces[begin:end])
    seen = 0
    for at in range(begin, end):
        seen += len(pieces[at].text) + 1
        if seen > total // 3:
            earliest = max(begin + 1, at + 1)
            break
    best = end
    rank = _rank(pieces, end)
    for at in range(end - 1, earliest - 1, -1):
        if (higher := _rank(pieces, at)) > rank:
            best, rank = at, higher
    if best > begin + 1 and pieces[best - 1].opens:
        return best - 1  # an opening line alone would be an empty block
    return best


def _rank(pieces: list[_Piece], at: int) -> int:
    """How good a cut before a piece is."""
    before, after = pieces[at - 1], pieces[at]
    if after.closes:
        return 1
    if after.fence is not None:
        return 2 if not before.opens and before.end else 0
    if not before.text.strip() or not after.text.strip() or before.closes or after.opens:
        return 4
    return 3 if before.end else 1


def _joined(pieces: list[_Piece], begin: int, end: int) -> str:
    """A run of pieces as a part that stands alone."""
    first, last = pieces[begin], pieces[end - 1]
    text = "".join(piece.text + piece.end for piece in pieces[begin : end - 1]) + last.text
    opening, closing = "", ""
    if first.fence is not None and not first.closes:
        opening = f"{first.fence.opening}\n"
    still = opened_by(last.text) if last.opens else None if last.closes else last.fence
    if still is not None:
        closing = f"\n{still.mark}"
    if not opening:
        text = text.lstrip("\n")
    if not closing:
        text = text.rstrip()
    return opening + text + closing
