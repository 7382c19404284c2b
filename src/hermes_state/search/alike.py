"""Messages that are like a question by meaning, beside those that have its words.

The messages most like it are looked at together with those that have its words. What likeness adds
to the score of any of them is measured in the same way: how far it is above what is usual, the
turns around a message counting as well, since an answer often stands beside what it answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .filters import Filters
from .index import IndexConnection

if TYPE_CHECKING:
    from ..meaning.meaning import Likeness

WEIGHT = 0.05
"""What likeness adds for each standard deviation, of the score of a full match."""
LEAST_ALIKE = 0.5
"""Standard deviations above the average from which on it counts."""
LEAST_ALONE = 2.5
"""The same for a question of which the store has no word."""
MOST = 40
"""Messages that are looked at because of their meaning alone."""
_BEFORE = (0.8, 0.56, 0.39)
_AFTER = (0.48, 0.34, 0.24)
"""How much the turns before a message count for it, and those after it; the next ones first."""
_WHOLE = 1.0 + _BEFORE[0]


class Alike:
    """One question on one connection."""

    def __init__(self, likeness: Likeness, conn: IndexConnection, filters: Filters) -> None:
        self._likeness = likeness
        self._conn, self._filters = conn, filters
        self.adds: dict[int, float] = {}
        """What it added to the scores of messages."""

    def ahead_of(self, others: Sequence[int], least: float) -> list[int]:
        """The messages most like the question, then the others."""
        from ..meaning.coarse import allowed_by

        nearest = self._likeness.nearest(allowed_by(self._conn, self._filters), MOST)
        scores = self._likeness.of(nearest)
        alike = dict.fromkeys(n for n in nearest if scores.get(n, -1.0) >= least)
        return [*alike, *(number for number in others if number not in alike)]

    def add(self, windows: Iterable[Sequence[int]], scores: dict[int, float], full: float) -> None:
        """Add likeness to the scores of messages; a window is a message with those around it.

        `full` is the score of a message that has all words of the question.
        """
        windows = list(windows)
        likeness = self._likeness.of({number for window in windows for number in window})
        weight = WEIGHT * (full or 1.0)
        best: dict[int, float] = {}
        for window in windows:
            row = [likeness.get(number, 0.0) for number in window]
            for place, number in enumerate(window):
                total = row[place]
                for away, share in enumerate(_BEFORE[:place], 1):
                    total += share * row[place - away]
                for share, beside in zip(_AFTER, row[place + 1 :], strict=False):
                    total += share * beside
                if total > best.get(number, 0.0):
                    best[number] = total
        for number, total in best.items():
            above = total / _WHOLE - LEAST_ALIKE
            if above > 0.0 and number in scores:
                self.adds[number] = weight * above
                scores[number] += weight * above
