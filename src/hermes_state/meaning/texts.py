"""Ranking a few texts that are at hand, such as what is remembered, as messages are ranked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..search.alike import LEAST_ALIKE, LEAST_ALONE, WEIGHT
from ..search.folding import words
from ..search.forms import forms
from ..search.query import Term, parse
from ..search.question import read_question
from ..search.rank import rarity

if TYPE_CHECKING:
    from .embedder import Embedder


def rank_texts(
    query: str, texts: Sequence[str], embedder: Embedder | None = None
) -> list[tuple[int, float]]:
    """Which of the texts fit what a person typed, best first, and how much of it they cover.

    A quick model also finds texts that have none of its words; others are not asked.
    """
    parsed = parse(query)
    question = read_question(query, parsed, time.time())
    languages = question.languages if question is not None else ()
    pieces = question.pieces if question is not None else _terms(parsed.groups)
    if not pieces or not texts:
        return []
    listed = [words(text) for text in texts]
    has = [[_occurs(term, languages, told) for told in listed] for term in pieces]
    weights = [rarity(max(sum(row), 1) / (len(texts) + 1)) for row in has]
    scores = [
        sum(weight for weight, row in zip(weights, has, strict=True) if row[place]) / sum(weights)
        for place in range(len(texts))
    ]
    if embedder is not None and embedder.is_quick:
        for place, likeness in enumerate(_likeness(query, texts, embedder)):
            if scores[place] or likeness >= LEAST_ALONE:
                scores[place] += WEIGHT * max(likeness - LEAST_ALIKE, 0.0)
    ranked = sorted(range(len(texts)), key=lambda place: -scores[place])
    return [(place, scores[place]) for place in ranked if scores[place] > 0.0]


def _terms(groups: Sequence[Sequence[Term]]) -> tuple[Term, ...]:
    return tuple(term for group in groups for term in group)


def _occurs(term: Term, languages: tuple[str, ...], told: Sequence[str]) -> bool:
    if len(term.words) == 1:
        wanted = {term.words[0], *forms(term.words[0], languages)}
        return not wanted.isdisjoint(told)
    length = len(term.words)
    return any(tuple(told[at : at + length]) == term.words for at in range(len(told) - length + 1))


def _likeness(query: str, texts: Sequence[str], embedder: Embedder) -> list[float]:
    """How like the query the texts are, in units of how much that varies with any sentence."""
    from .feed import ask
    from .usual import SENTENCES
    from .vectors import normalized

    vectors = ask(embedder, [*SENTENCES, *texts])
    alike = vectors @ normalized(embedder.embed([query], is_question=True))[0]
    usual, own = alike[: len(SENTENCES)], alike[len(SENTENCES) :]
    scores: list[float] = ((own - usual.mean()) / max(float(usual.std()), 1e-6)).tolist()
    return scores
