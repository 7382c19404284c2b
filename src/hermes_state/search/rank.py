"""How well a document matches, computed while SQLite goes through the matches.

The usual formula (rare words, many occurrences and short documents count more), with a bonus where
the words of the query stand close together in the order they were typed. SQLite's own `bm25` first
counts every match in the index; here the caller says how rare the words are, so scoring costs the
same for the commonest word.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

import apsw

SATURATION = 1.2
LENGTH_WEIGHT = 0.75
NEARNESS = 0.5
RECENCY = 0.3
"""How much more the score of a message of this moment counts than that of a very old one."""
HALF_LIFE = 30 * 86400.0
"""Seconds after which half of that is left."""

_LEAST_PENALTY = SATURATION * (1.0 - LENGTH_WEIGHT)
_LONG = 20_000  # words; in longer documents occurrences are not counted
_COUNTED_PHRASES = 8
_MOST_OFFSETS = 1_000_000
_ASSUMED_LENGTH = 50.0
_FAR = 1000  # words; beyond, nearness counts no less


def rarity(frequency: float) -> float:
    """Weight of a word that occurs in this share of the documents."""
    return math.log(1.0 + (1.0 - min(frequency, 0.99)) / max(frequency, 1e-7))


class ScoredTerm(NamedTuple):
    """One term of a query."""

    weight: float
    phrases: range
    """Numbers of the phrases of the expression that it stands for."""
    occurs: bool
    """Every match has it, since there is no alternative to it."""


class Scorer:
    """The SQL function `relevance`; `prepare` tells it about the query it is used in."""

    def __init__(self) -> None:
        self._terms: tuple[ScoredTerm, ...]
        self.known: Set[int | None] = frozenset()
        """Documents that need no score."""
        self.places: dict[int, float] = {}
        """How far into each long document the first match is, from 0 to 1."""
        self.new_search()
        self.prepare(list)

    def new_search(self) -> None:
        """Forget what the last search found."""
        self.known = frozenset()
        self.places.clear()
        self._offsets_left = _MOST_OFFSETS

    def prepare(self, terms: Callable[[], Sequence[ScoredTerm]]) -> None:
        """Set what to score by, in the order in which it was typed; asked for at the first match.

        So a query that matches nothing needs not know how rare its words are.
        """
        self._asked, self._terms = terms, ()
        self._only = -1
        """The number of the phrase if the query is nothing else."""
        self.new_table()

    def _ask(self) -> None:
        terms = self._terms = tuple(self._asked())
        if len(terms) == 1 and len(terms[0].phrases) == 1:
            weight, phrases, self._only_occurs = terms[0]
            self._only, self._only_weight = phrases[0], weight * (SATURATION + 1.0)

    def new_table(self) -> None:
        """The next documents come from another table."""
        self._per_word = 0.0

    def __call__(self, api: apsw.FTS5ExtensionApi, /, *_: object) -> float:
        if self.known and api.rowid in self.known:
            return 0.0
        per_word = self._per_word
        if not per_word:
            if not self._terms:
                self._ask()
            rows = api.row_count
            average = api.column_total_size(0) / rows if rows else _ASSUMED_LENGTH
            per_word = self._per_word = SATURATION * LENGTH_WEIGHT / max(average, 1.0)
        length = api.column_size(0)
        penalty = _LEAST_PENALTY + per_word * length
        only = self._only
        if only >= 0 and length <= _LONG:  # most queries; called for each match
            count = len(api.phrase_column_offsets(only, 0)) or self._only_occurs
            return self._only_weight * count / (count + penalty)
        score = 0.0
        before: list[int] = []
        for weight, phrases, occurs in self._terms:
            if length > _LONG:
                places = self._places_in_long(api, phrases, length)
            elif len(phrases) == 1:
                places = api.phrase_column_offsets(phrases[0], 0)
            else:
                places = []
                for phrase in phrases[:_COUNTED_PHRASES]:
                    places += api.phrase_column_offsets(phrase, 0)
            count = len(places) or occurs
            score += weight * count * (SATURATION + 1.0) / (count + penalty)
            if before and places:
                score += NEARNESS * weight / _gap(before, places)
            before = places
        return score

    def _places_in_long(self, api: apsw.FTS5ExtensionApi, phrases: range, length: int) -> list[int]:
        """Where the first term that occurs stands; nothing for the terms after it.

        There may be millions of places. After so many in one search, no more are asked for.
        """
        places: list[int] = []
        if self._offsets_left > 0 and not self.places.get(api.rowid):
            for phrase in phrases[:_COUNTED_PHRASES]:
                places += api.phrase_column_offsets(phrase, 0)
            if places:
                self.places[api.rowid] = min(places) / length
                self._offsets_left -= len(places)
        return places


def _gap(first: list[int], second: list[int]) -> int:
    """The fewest words from a place in `first` to a later one in `second`; 1 if adjacent."""
    if len(first) == 1:
        after = [place - first[0] for place in second[:16] if place > first[0]]
        return min(_FAR, *after) if after else _FAR
    first.sort()
    nearest = _FAR
    for place in second[:16]:
        at = bisect_right(first, place - 1)
        if at:
            nearest = min(nearest, place - first[at - 1])
            if nearest == 1:
                break
    return nearest
