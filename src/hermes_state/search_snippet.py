"""The piece of a message that shows why it was found.

The matched words are marked >>>like<<< this. However long a message is, only a bounded piece of it
is looked at: its beginning and, if nothing matches there, the surroundings of the place where the
index says the first match is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .search_query import Term, can_be_widened
from .search_text import is_unspaced, located_words, words

WIDTH = 150
"""Characters of a snippet, marks not counted."""
LEAD = 40
"""How many of them stand before the first match, at most."""
_WINDOW = 1200
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Matcher:
    """What to mark."""

    terms: tuple[Term, ...]
    widened: bool
    """Bare words also match inside longer words."""

    def _needle(self, term: Term) -> str:
        """What to look for in folded words that stand between single spaces."""
        text = " ".join(term.words)
        if self.widened and can_be_widened(term):
            first, last = term.words[0], term.words[-1]
            whole_first = len(first) < 3 or is_unspaced(first)
            return " " * whole_first + text + " " * is_unspaced(last)
        return f" {text}" if term.prefix and not is_unspaced(term.words[-1]) else f" {text} "

    def find(self, found: Sequence[str], limit: int = 64) -> list[tuple[int, int, int]]:
        """Matches in a list of words: (number of the term, first word, last word).

        No more than `limit` per term, and fewer if there are many terms.
        """
        limit = min(limit, max(4, 256 // len(self.terms)))
        text = f" {' '.join(found)} "
        matches = []
        for number, term in enumerate(self.terms):
            needle = self._needle(term)
            at = text.find(needle)
            for _ in range(limit):
                if at < 0:
                    break
                first = text.count(" ", 0, at + 1) - 1
                matches.append((number, first, first + len(term.words) - 1))
                at = text.find(needle, at + 1)
        return matches

    def occurs_in(self, text: str) -> bool:
        """Whether anything would be marked in `text`."""
        return bool(self.find(words(text), limit=1))


def snippet(text: str, matcher: Matcher) -> str:
    """About 150 characters of `text` around the best place, matches marked."""
    text = unicodedata.normalize("NFC", _window(text, matcher))
    located = list(located_words(text))
    matches = matcher.find([word for word, _, _ in located])
    marks = [(located[first][1], located[last][2], number) for number, first, last in matches]
    best = _best(marks)
    start = max(0, min(best - LEAD, len(text) - WIDTH))
    if start:
        start = _word_start(text, start, best)
    return _marked(text, start, start + WIDTH, marks)


def _window(text: str, matcher: Matcher) -> str:
    """A piece of a longer text that holds a good match, if it holds any."""
    if len(text) <= 2 * _WINDOW:
        return text
    found = words(text)
    matches = matcher.find(found)
    if not matches:
        return text[: 2 * _WINDOW]
    density: dict[int, set[int]] = {}
    for number, first, _ in matches:
        density.setdefault(first // 16, set()).add(number)
    block = max(density, key=lambda key: (len(density[key]), -key))
    wanted = min(first for _, first, _ in matches if first // 16 == block)
    start, end = 0, len(text)
    while end - start > _WINDOW:
        middle = (start + end) // 2
        before = len(words(text[start:middle]))
        if wanted < before:
            end = middle
        else:
            start, wanted = middle, wanted - before
    return text[max(0, start - _WINDOW // 2) : end + _WINDOW // 2]


def _best(marks: Iterable[tuple[int, int, int]]) -> int:
    """Where to begin so that most different terms are shown."""
    ordered = sorted(marks)
    best, most = 0, 0
    for at, (start, _, _) in enumerate(ordered):
        near = ordered[at : at + 64]
        terms = {number for first, _, number in near if first < start + WIDTH - LEAD}
        if len(terms) > most:
            best, most = start, len(terms)
    return best


def _word_start(text: str, start: int, before: int) -> int:
    """The beginning of a word soon after `start`, so that none is cut in two."""
    space = text.find(" ", start, min(start + LEAD // 2, before))
    return start if space < 0 else space + 1


def _marked(text: str, start: int, end: int, marks: Iterable[tuple[int, int, int]]) -> str:
    pieces, at = ["…" if start else ""], start
    for first, last, _ in sorted(marks):
        if first < at or first >= end:
            continue
        at_most = min(last, first + WIDTH)
        pieces += [text[at:first], ">>>", text[first:at_most], "<<<"]
        at = at_most
    pieces += [text[at:end], "…" if max(at, end) < len(text) else ""]
    return _SPACE.sub(" ", "".join(pieces)).strip()


def shortened(text: str, width: int) -> str:
    """`text` on one line, cut to `width` characters."""
    line = _SPACE.sub(" ", text[: width * 4]).strip()
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
