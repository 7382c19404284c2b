"""Messages on their way into the index: as many as fit into one transaction.

Of a long message, what is indexed is bounded, so that no message takes more time or memory than a
batch does: its first words with their order, then each further word once, and only so many
different ones. Words that nobody would type (see `vocabulary`) are counted on their own:
the numbers and hashes of a long log do not crowd out its words.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .folding import words
from .pairs import BREAK, pairs
from .spans import PART_BITS
from .vocabulary import is_listed

BATCH_ROWS = 8192
BATCH_BYTES = 4 * 1024 * 1024

MOST_WORDS = 1_000_000
"""Words of a message that can be found as phrases; those after them are found one by one."""
MOST_DIFFERENT = 100_000
"""Different words of a long message that can be found; as many again that only machines write."""

_LONG = 1 << 20  # characters of a text from which on what is indexed of it is bounded
_PIECE = 1 << 18  # characters turned into words at a time


class WordLimit:
    """What is indexed of one long message."""

    def __init__(self) -> None:
        self._admitted: set[str] = set()
        self._words_left = MOST_WORDS
        self._machine_words_left = self._others_left = MOST_DIFFERENT

    def admit(self, listed: list[str]) -> list[str]:
        """The words of its next piece that are indexed, with a break where some are left out."""
        new = [word for word in dict.fromkeys(listed) if self._is_new(word)]
        if self._words_left <= 0:  # each further word once, in no order that could be searched
            return [part for word in new for part in (BREAK, word)]
        self._words_left -= len(listed)
        if self._admitted.issuperset(listed):
            return listed
        kept: list[str] = []
        for word in listed:
            if word in self._admitted:
                kept.append(word)
            elif not kept or kept[-1] != BREAK:
                kept.append(BREAK)
        return kept

    def _is_new(self, word: str) -> bool:
        """Whether a word is met for the first time and there is room for it."""
        if word in self._admitted:
            return False
        if is_listed(word):
            if self._others_left <= 0:
                return False
            self._others_left -= 1
        else:
            if self._machine_words_left <= 0:
                return False
            self._machine_words_left -= 1
        self._admitted.add(word)
        return True


@dataclass
class Batch:
    """Documents to be written, by part, and what goes with them."""

    common: frozenset[str]
    """The words of which pairs are listed."""
    documents: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    times: list[tuple[int, float]] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    last: tuple[int, float] | None = None

    def add(
        self, message_id: int, timestamp: float, size: int, facets: str, texts: Iterable[str]
    ) -> None:
        """Take a message in; `size` is what it counts for in bytes."""
        self.rows += 1
        self.last = message_id, timestamp
        self.size += size
        body, listed = [facets], []
        limit: WordLimit | None = None
        for text in texts:
            if not text:
                continue
            if len(body) > 1:
                body.append(BREAK)
            if len(text) > _LONG:
                limit = limit or WordLimit()
            before = ""
            for piece in pieces(text):
                terms = words(piece)
                if limit is not None:
                    terms = limit.admit(terms)
                self.counted.update(terms)
                listed += pairs(terms, self.common, before)
                before = terms[-1] if terms and terms[-1] in self.common else ""
                body += terms if limit is None else [" ".join(terms)]
        if len(body) == 1:
            return  # without words it cannot be found
        document = " ".join(itertools.chain(body, listed))
        self.documents.setdefault(message_id >> PART_BITS, []).append((message_id, document))
        self.times.append((message_id, timestamp))

    @property
    def is_full(self) -> bool:
        return self.rows >= BATCH_ROWS or self.size >= BATCH_BYTES


def pieces(text: str) -> Iterator[str]:
    """`text` in pieces that end between words where possible."""
    start = 0
    while len(text) - start > _PIECE:
        middle, end = start + _PIECE // 2, start + _PIECE
        end = max(text.rfind(" ", middle, end), text.rfind("\n", middle, end))
        end = start + _PIECE if end < 0 else end
        yield text[start:end]
        start = end
    yield text[start:] if start else text
