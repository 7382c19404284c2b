"""How common the words of a query are, from a sample of the index.

The sample is the newest documents of one full-text table that have a word. It decides how much a
word weighs in a score, and which words SQLite looks for first.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from ..dialect import tuples
from ..opening import FileConnection
from .query import Term
from .spans import PART_BITS

SIZE = 128
"""Documents with a word that are counted."""
_MOST_WORDS = 12
_UNKNOWN = 0.01


class Sample(NamedTuple):
    """What is known of the terms of a query."""

    frequency: dict[Term, float]
    """Roughly in which share of the messages each one occurs."""
    total: dict[str, int]
    """In how many messages a word occurs, of those of which it is known: in a small index."""


def sample(conn: FileConnection, terms: Sequence[Term], parts: Sequence[int]) -> Sample:
    """Look how often the terms of a query occur; `parts` are the numbers of the tables."""
    if len(terms) < 2 or not parts:
        return Sample(dict.fromkeys(terms, _UNKNOWN), {})
    part = parts[-2] if len(parts) > 1 else parts[-1]
    words = list(dict.fromkeys([word for term in terms for word in term.words]))[:_MOST_WORDS]
    values = [value for word in words for value in (f'"{word}"', SIZE)]
    frequency: dict[str, float] = {}
    total: dict[str, int] = {}
    for number, count, first, last in tuples(conn, _count_sql(part, len(words)), values):
        if count == SIZE:
            frequency[words[number]] = count / (last - first + 1)
        else:
            frequency[words[number]] = count / (1 << PART_BITS)
            total[words[number]] = count
    return Sample(
        {term: min([frequency.get(word, _UNKNOWN) for word in term.words]) for term in terms},
        total if len(parts) == 1 else {},
    )


@functools.lru_cache(maxsize=64)
def _count_sql(part: int, words: int) -> str:
    """One statement for all words: so few documents are counted in less time than it takes."""
    table = f"doc_{part}"
    return " UNION ALL ".join(
        f"SELECT {number}, count(*), min(rowid), max(rowid) FROM"
        f" (SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?)"
        for number in range(words)
    )
