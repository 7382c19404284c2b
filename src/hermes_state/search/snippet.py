"""The piece of a message that shows why it was found.

The matched words are marked >>>like<<< this. However long a message is, only a bounded piece of it
is looked at: its beginning and, if nothing matches there, the surroundings of the place where the
index says the first match is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from .folding import (
    MAX_WORD,
    fold,
    folded_words,
    is_unspaced,
    located_words,
    place_in_ascii,
    places_in_ascii,
    words,
)
from .query import Term, can_be_widened

WIDTH = 150
"""Characters of a snippet, marks not counted."""
LEAD = 40
"""How many of them stand before the first match, at most."""
_WINDOW = 1200
_MOST_MATCHES = 64  # of a term
_FEW_MATCHES = 8  # more are found faster by going through all words


class Matcher:
    """What to mark."""

    def __init__(self, terms: tuple[Term, ...], widened: bool) -> None:
        """`widened`: bare words also match inside longer words."""
        self.terms = terms
        self.widened = widened
        self._needles = [(self._needle(term), len(term.words)) for term in terms]
        """For each term, what to look for between single spaces, and how many words it has."""
        self._are_short = max([len(needle) for needle, _ in self._needles]) < MAX_WORD
        """Whether no term could be a word that is longer than it is indexed."""
        self._are_words = max([length for _, length in self._needles]) == 1

    def _needle(self, term: Term) -> str:
        text = " ".join(term.words)
        if self.widened and can_be_widened(term):
            first, last = term.words[0], term.words[-1]
            whole_first = len(first) < 3 or is_unspaced(first)
            return " " * whole_first + text + " " * is_unspaced(last)
        return f" {text}" if term.prefix and not is_unspaced(term.words[-1]) else f" {text} "

    def find_in_ascii(self, folded: str) -> list[tuple[int, int, int]] | None:
        """Matches in an ASCII text that was folded: (start, end, number of the term).

        None where that cannot be told without going through its words.
        """
        if not self._are_short or not (self._are_words or "  " not in folded):
            return None
        limit = self._limit(_MOST_MATCHES)
        text = f" {folded} "
        marks = []
        for number, (needle, _) in enumerate(self._needles):
            at = text.find(needle)
            for _ in range(limit):
                if at < 0:
                    break
                # Of a word that is matched in part, all is marked.
                start = at if needle[0] == " " else text.rfind(" ", 0, at)
                end = at + len(needle)
                end = end - 2 if needle[-1] == " " else text.find(" ", end) - 1
                if end - start > MAX_WORD:
                    return None
                marks.append((start, end, number))
                at = text.find(needle, at + 1)
        return marks

    def _limit(self, limit: int) -> int:
        return min(limit, max(4, 256 // len(self.terms)))

    def find(self, listed: Sequence[str], limit: int = _MOST_MATCHES) -> list[tuple[int, int, int]]:
        """Matches in a list of words: (number of the term, first word, last word).

        No more than `limit` per term, and fewer if there are many terms.
        """
        limit = self._limit(limit)
        text = f" {' '.join(listed)} "
        matches = []
        for number, (needle, length) in enumerate(self._needles):
            at = text.find(needle)
            counted = spaces = 0
            for _ in range(limit):
                if at < 0:
                    break
                spaces += text.count(" ", counted, at + 1)
                counted = at + 1
                matches.append((number, spaces - 1, spaces + length - 2))
                at = text.find(needle, at + 1)
        return matches

    def occurs_in(self, text: str) -> bool:
        """Whether anything would be marked in `text`."""
        return bool(self.find(words(text), limit=1))


def matching_snippet(text: str, matcher: Matcher) -> str | None:
    """The snippet of `text`, or None if nothing in it matches."""
    if len(text) > 2 * _WINDOW or not text.isascii():
        return snippet(text, matcher) if matcher.occurs_in(text) else None
    folded = fold(text)
    in_ascii = matcher.find_in_ascii(folded)
    if in_ascii is not None:
        return _shown(text, in_ascii) if in_ascii else None
    matches = matcher.find(folded_words(folded))
    if not matches:
        return None
    if len(matches) > _FEW_MATCHES:
        places = places_in_ascii(text)
        return _shown(text, [(places[begin][0], places[last][1], n) for n, begin, last in matches])
    marks = []
    for number, first, last in matches:
        start, end = place_in_ascii(folded, first)
        if last > first:
            _, end = place_in_ascii(folded, last)
        marks.append((start, end, number))
    return _shown(text, marks)


def snippet(text: str, matcher: Matcher) -> str:
    """About 150 characters of `text` around the best place, matches marked."""
    text = unicodedata.normalize("NFC", _window(text, matcher))
    located = list(located_words(text))
    matches = matcher.find([word for word, _, _ in located])
    return _shown(text, [(located[begin][1], located[last][2], n) for n, begin, last in matches])


def _shown(text: str, marks: list[tuple[int, int, int]]) -> str:
    """The piece of `text` with most of the marks (begin, end, number of the term)."""
    marks.sort()
    best = _best(marks)
    start = max(0, min(best - LEAD, len(text) - WIDTH))
    if start:
        start = _word_start(text, start, best)
    return _marked(text, start, start + WIDTH, marks)


def _window(text: str, matcher: Matcher) -> str:
    """A piece of a longer text that holds a good match, if it holds any."""
    if len(text) <= 2 * _WINDOW:
        return text
    listed = words(text)
    matches = matcher.find(listed)
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


def _best(ordered: Sequence[tuple[int, int, int]]) -> int:
    """Where to begin so that most different terms are shown."""
    all_terms = len({number for _, _, number in ordered})
    if all_terms == 1:
        return ordered[0][0]
    best, most = 0, 0
    for at, (start, _, _) in enumerate(ordered):
        near = ordered[at : at + 64]
        terms = {number for first, _, number in near if first < start + WIDTH - LEAD}
        if len(terms) > most:
            best, most = start, len(terms)
            if most == all_terms:
                break
    return best


def _word_start(text: str, start: int, before: int) -> int:
    """The beginning of a word soon after `start`, so that none is cut in two."""
    space = text.find(" ", start, min(start + LEAD // 2, before))
    return start if space < 0 else space + 1


def _marked(text: str, start: int, end: int, marks: Iterable[tuple[int, int, int]]) -> str:
    pieces, at = ["…" if start else ""], start
    for first, last, _ in marks:
        if first < at or first >= end:
            continue
        at_most = min(last, first + WIDTH)
        pieces += [text[at:first], ">>>", text[first:at_most], "<<<"]
        at = at_most
    pieces += [text[at:end], "…" if max(at, end) < len(text) else ""]
    return " ".join("".join(pieces).split())


def shortened(text: str, width: int) -> str:
    """`text` on one line, cut to `width` characters."""
    line = " ".join(text[: width + width // 4].split())  # often that is enough
    if len(line) <= width < len(text):
        line = " ".join(text[: width * 4].split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
