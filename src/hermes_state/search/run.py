"""One search: which messages and titles match, in which order."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any

from ..dialect import tuples
from . import vocabulary
from .clock import WorkClock
from .collect import BLOCK, Candidate, Collector, Wanted, collect_titles
from .filters import Filters
from .index import IndexConnection
from .pairs import as_pairs
from .query import Expression, Query, Term, build, can_be_widened
from .question import Question, resolve, shown
from .rank import HALF_LIFE, RECENCY, ScoredTerm, rarity
from .related import Related
from .sample import Sample, sample
from .snippet import Matcher
from .spans import PART_BITS

if TYPE_CHECKING:
    from ..meaning.meaning import Likeness

log = logging.getLogger(__name__)

LEFT_FOR_WIDENING = 0.01

_FEW_PHRASES = 4
MARKED_FORMS = 8
"""Forms of a question's word that are marked in snippets."""

Alternatives = dict[Term, list[Term]]
"""What each term of a query stands for."""
Hits = list[tuple[Candidate, str, Matcher]]
"""Candidates, how they were found, and what to mark in them."""


class Search:
    """One search on one connection, whose index has caught up."""

    def __init__(
        self,
        conn: IndexConnection,
        query: Query,
        filters: Filters,
        wanted: Wanted,
        occurring: dict[str, bool],
        question: Question | None = None,
        likeness: Callable[[], Likeness | None] = lambda: None,
    ) -> None:
        """`occurring` says of some words whether they may occur.

        With a question, messages that fit it in part follow those that have all words; `likeness`
        says which are like it by meaning, and is asked only then.
        """
        self._conn = conn
        self._query = query
        self._terms = [term for group in query.groups for term in group]
        self._filters = filters
        self._wanted = wanted
        self._clock = WorkClock(wanted.budget)
        self._now = time.time()
        self._required = filters.required(conn)
        self._outline = conn.require_outline()
        self._common = self._outline.common
        self._occurring = occurring
        self._question = question
        self._likeness = likeness
        self._fitting: Related | None = None
        conn.scorer.new_search()

    @functools.cached_property
    def _sample(self) -> Sample:
        """How often the terms occur; not asked for if one of them does not."""
        return sample(self._conn, self._terms, self._outline.parts)

    def hits(self) -> Hits:
        """What was found, best first; at least as much as is wanted, if there is as much."""
        hits = self._matching()
        if self._question is None or len(hits) >= self._wanted.need:
            return hits
        if hits and (self._wanted.order or not self._question.is_sentence):
            return hits  # keywords; or what fits in part would stand between what matches, by time
        return hits + self._related(self._question, hits)

    def _related(self, question: Question, hits: Hits) -> Hits:
        """Further hits that have some of what a question is about."""
        asked = resolve(self._conn, question)
        likeness = self._likeness() if question.pieces else None
        if not asked and question.named is None and likeness is None:
            return []
        related = Related(
            self._conn, question, asked, self._filters, self._clock, self._outline, likeness
        )
        need = self._wanted.need + len(hits)
        known = {(kind == "title", hit.message_id, hit.session_id) for hit, kind, _ in hits}
        self._fitting = related
        one_each = self._wanted.one_per_conversation
        found = [(hit, "related") for hit in related.candidates(need, one_each)]
        if self._may_match_titles and asked:
            found += [(hit, "title") for hit in related.titles()]
            found.sort(key=lambda hit: -hit[0].score)
        if self._wanted.order:
            sign = -1 if self._wanted.order == "newest" else 1
            found = sorted(found[: self._wanted.need], key=lambda hit: sign * hit[0].timestamp)
        terms = [term for one in asked for term in one.phrases[:MARKED_FORMS]] or self._terms
        matcher = Matcher(tuple(dict.fromkeys(terms)), widened=False)
        further: Hits = [
            (hit, kind, matcher)
            for hit, kind in found
            if (kind == "title", hit.message_id, hit.session_id) not in known
        ]
        if self._wanted.one_per_conversation:
            seen = {hit.conversation_id for hit, _, _ in hits}
            further = [hit for hit in _firsts(further) if hit[0].conversation_id not in seen]
        return further

    def explain(self, hit: Candidate, kind: str) -> dict[str, Any]:
        """How a hit was found and ranked."""
        words = [shown(term.words) for term in self._terms]
        why: dict[str, Any] = {"how": kind, "score": round(hit.score, 3), "words": words}
        if kind == "related" and self._fitting is not None:
            return why | self._fitting.explain(hit)
        age = max(self._now - hit.timestamp, 0.0)
        return why | {"recency": round(1.0 + RECENCY * 0.5 ** (age / HALF_LIFE), 3)}

    def _matching(self) -> Hits:
        """What has all words, or longer words that contain them."""
        limit = vocabulary.MOST_WORDS if len(self._terms) == 1 else vocabulary.FEWER_WORDS
        need, first = self._wanted.need, self._wanted.titles_first
        stands_for = self._occurring_of(
            {term: vocabulary.expand_prefix(self._conn, term, limit) for term in self._terms}
        )
        titles, messages = self._pass(stands_for, need)
        hits: Hits = []
        if titles or messages:
            exact = Matcher(tuple(self._terms), widened=False)
            hits = self._ordered(
                exact, ("title", titles[:first]), ("exact", messages), ("title", titles[first:])
            )
        if len(hits) >= need:
            return hits
        widenable = sum(map(can_be_widened, self._terms))
        if self._question is not None and self._question.is_sentence:
            return hits  # a sentence, of which nobody typed every word in part
        if not widenable or self._clock.left() < LEFT_FOR_WIDENING:
            return hits
        limit = max(8, vocabulary.MOST_WORDS // widenable)
        matching = {message.message_id for message in messages}
        wider: Alternatives = {}
        all_found = False
        if (rarest := self._decisive_group(len(matching))) is not None:
            wider = self._occurring_of(vocabulary.widen(self._conn, rarest, limit))
            all_found = self._are_all(matching, rarest, wider)
            if all_found and not self._may_match_titles:
                return hits
        others = [term for term in self._terms if term not in wider]
        wider |= self._occurring_of(vocabulary.widen(self._conn, others, limit))
        if wider == stands_for:
            return hits  # there are no longer words to find
        return hits + self._widened(wider, hits, matching, all_found)

    def _widened(
        self, wider: Alternatives, hits: Hits, matching: Set[int | None], all_found: bool
    ) -> Hits:
        """Further hits, with words that contain what was typed; only titles if `all_found`.

        `found` are the messages that have the words themselves.
        """
        need = self._wanted.need + len(hits)
        titles, messages = self._pass(wider, need, matching, only_titles=all_found)
        matcher = Matcher(tuple(self._terms), widened=True)
        known = {(kind == "title", hit.message_id, hit.session_id) for hit, kind, _ in hits}
        seen = (
            {hit.conversation_id for hit, _, _ in hits}
            if self._wanted.one_per_conversation
            else set()
        )
        further = self._ordered(matcher, ("title", titles), ("partial", messages))
        return [
            hit
            for hit in further
            if (hit[1] == "title", hit[0].message_id, hit[0].session_id) not in known
            and hit[0].conversation_id not in seen
        ]

    def _occurring_of(self, stands_for: Alternatives) -> Alternatives:
        """For each term those of what it stands for that may occur."""
        return {
            term: [
                term if len(term.words) == 1 else as_pairs(term, self._common)
                for place, term in enumerate(alternatives)
                # Single words after the first come from the vocabulary.
                if (place and len(term.words) == 1) or self._may_occur(term)
            ]
            for term, alternatives in stands_for.items()
        }

    @property
    def _may_match_titles(self) -> bool:
        return self._outline.has_titles and self._filters.allow_titles

    def _pass(
        self,
        stands_for: Alternatives,
        need: int,
        known: Set[int | None] = frozenset(),
        *,
        only_titles: bool = False,
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Titles and messages that match when each term stands for its alternatives.

        Messages that are `known` need no score.
        """
        groups = self._query.groups
        for group in groups:
            if not any(stands_for[term] for term in group):
                return [], []

        query = self._query
        if query.excluded:
            excluded = tuple(as_pairs(term, self._common) for term in query.excluded)
            query = query._replace(excluded=excluded)

        def expression(also_forbidden: Sequence[str] = ()) -> Expression:
            return build(
                query,
                stands_for.__getitem__,
                required=self._required,
                forbidden=[*self._filters.forbidden(), *also_forbidden],
                # Of two, it does not matter which comes first.
                frequency=self._group_frequency if len(groups) > 2 else float,
            )

        first = expression()
        self._conn.scorer.prepare(lambda: self._scored_terms(first))
        titles: list[Candidate] = []
        if self._may_match_titles:
            titles = collect_titles(self._conn, first.text, self._filters)
            titles = self._sorted(titles)
        if only_titles:
            return titles, []
        self._conn.scorer.known = known
        collector = Collector(
            self._conn,
            lambda forbidden: expression(forbidden).text,
            self._filters,
            self._wanted._replace(need=need),
            self._clock,
            first.text,
            self._outline.spans,
        )
        collector.run()
        if not collector.complete:
            log.info("A search took too long; the older part of the index was not looked at")
        return titles, collector.candidates

    def _scored_terms(self, expression: Expression) -> list[ScoredTerm]:
        frequency = self._sample.frequency
        return [
            ScoredTerm(rarity(frequency[term]), numbers, len(group) == 1)
            for group, phrases in zip(self._query.groups, expression.phrases, strict=True)
            for term, numbers in zip(group, phrases, strict=True)
        ]

    def _group_frequency(self, number: int) -> float:
        group, frequency = self._query.groups[number], self._sample.frequency
        if len(group) == 1:
            return frequency[group[0]]
        return max(frequency[term] for term in group)

    def _decisive_group(self, count: int) -> tuple[Term, ...] | None:
        """The rarest group, if so few messages as were found may be all that have it.

        If they are, it does not matter in how many longer words the others are, which takes longer
        to find out.
        """
        groups = self._query.groups
        if len(groups) < 2 or (not count and len(self._outline.parts) == 1):
            return None
        number = min(range(len(groups)), key=self._group_frequency)
        if self._group_frequency(number) * (1 << PART_BITS) > count:
            return None  # there are more of them in a single table
        return groups[number]

    def _are_all(
        self, matching: Set[int | None], group: tuple[Term, ...], stands_for: Alternatives
    ) -> bool:
        """Whether no messages but these, which all have the group, have it."""
        phrases = sum(len(stands_for[term]) for term in group)
        if not phrases or phrases > _FEW_PHRASES:
            return not phrases
        if phrases == 1 and not self._required and self._is_total(group, len(matching)):
            return True
        text = build(Query((group,)), stands_for.__getitem__, required=self._required).text
        for part in self._outline.parts:
            table = f"doc_{part}"
            rows = tuples(
                self._conn,
                f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?",
                (text, len(matching) + 1),
            )
            if not all(row[0] in matching for row in rows):
                return False
        return True

    def _is_total(self, group: tuple[Term, ...], count: int) -> bool:
        """Whether it is known that so many messages have the group, a single word."""
        (term, *others), total = group, self._sample.total
        plain = not others and len(term.words) == 1 and not term.prefix
        return plain and total.get(term.words[0]) == count

    def _may_occur(self, term: Term) -> bool:
        for word in term.words[:-1] if term.prefix else term.words:
            if word not in self._occurring:
                self._occurring[word] = vocabulary.may_occur(self._conn, word)
            if not self._occurring[word]:
                return False
        return True

    def _keys(self, candidates: Sequence[Candidate]) -> list[tuple[float, ...]]:
        """For each candidate of a block its sort key: smaller comes first."""
        if self._wanted.order:
            sign = -1 if self._wanted.order == "newest" else 1
            return [(sign * at, sign * (number or 0)) for number, _, _, at, _ in candidates]
        now, half_life, recency = self._now, HALF_LIFE, RECENCY
        # Called for each of several hundred matches, so without a further call for each.
        return [
            (
                -score * (1.0 + recency * 0.5 ** (max(now - at, 0.0) / half_life)),
                -at,
                -(number or 0),
            )
            for number, _, _, at, score in candidates
        ]

    def _sorted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        keys = self._keys(candidates)
        return [candidates[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]

    def _ordered(self, matcher: Matcher, *lists: tuple[str, list[Candidate]]) -> Hits:
        """The lists (how they were found, candidates) one after the other, each in order.

        By time they are one list.
        """
        hits: Hits
        if self._wanted.order:
            hits = [
                (message, kind, matcher) for kind, candidates in lists for message in candidates
            ]
            keys = self._keys([hit[0] for hit in hits])
            hits = [hits[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]
        else:
            hits = [
                (message, kind, matcher)
                for kind, candidates in lists
                for start in range(0, len(candidates), BLOCK)
                for message in self._sorted(candidates[start : start + BLOCK])
            ]
        return _firsts(hits) if self._wanted.one_per_conversation else hits


def _firsts(hits: Hits) -> Hits:
    """The first hit of each conversation."""
    firsts: dict[str, tuple[Candidate, str, Matcher]] = {}
    for hit in hits:
        firsts.setdefault(hit[0].conversation_id, hit)
    return list(firsts.values())
