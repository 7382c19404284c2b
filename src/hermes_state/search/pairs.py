"""Phrases of common words.

To find a phrase SQLite goes through every message that has all of its words. With words that most
messages have, this takes long and may lead to nothing. So, after its own words, each document also
lists the pairs of common words that stand next to each other in it, run by run; a phrase of common
words is looked for as its pairs, of which each is far rarer than the words.

Which words are common is decided when an index is begun, from a sample of the store, and written
down in it, so that documents and queries always agree.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable

from .folding import words
from .query import Term

JOINT = "·"
"""Between the words of a pair; no word contains it."""
BREAK = "¶"
"""Stands where no phrase may reach across."""

USUAL = frozenset(
    words("the of and to a in is it i you that for on with this be as are was not have or we can")
)
"""Taken as common in a store that is too small to tell."""

SAMPLE = 2000
"""How many messages tell which words are common."""
_SHARE = 0.25
_MOST = 16


def common_words(counted: Counter[str], messages: int) -> frozenset[str]:
    """The words that are common, given in how many messages of a sample each one occurs."""
    if messages < SAMPLE:
        return USUAL
    least = messages * _SHARE
    return frozenset(word for word, count in counted.most_common(_MOST) if count >= least)


@functools.lru_cache(maxsize=1024)
def _pair(first: str, second: str) -> str:
    """One string for each pair, of which a long text may have a million."""
    return f"{first}{JOINT}{second}"


def pairs(terms: Iterable[str], common: frozenset[str], before: str = "") -> list[str]:
    """The pairs in a list of words, each run of them after a break; `before` precedes the list."""
    listed: list[str] = []
    adjoining = False
    for word in terms:
        if word in common:
            if before:
                if not adjoining:
                    listed.append(BREAK)
                    adjoining = True
                listed.append(_pair(before, word))
            before = word
        elif before:
            before = ""
            adjoining = False
    return listed


def as_pairs(term: Term, common: frozenset[str]) -> Term:
    """The term, as the pairs it consists of if it is a phrase of common words."""
    if term.prefix or len(term.words) < 2 or not common.issuperset(term.words):
        return term
    joined = zip(term.words, term.words[1:], strict=False)
    return Term(tuple(_pair(word, other) for word, other in joined), quoted=term.quoted)
