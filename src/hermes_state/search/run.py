"""One search: which messages and titles match, in which order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence, Set

from ..connection import Connection, tuples
from . import vocabulary
from .collect import BLOCK, Candidate, Collector, Wanted, collect_titles
from .filters import Filters
from .index import IndexConnection
from .pairs import as_pairs
from .query import Expression, Query, Term, build, can_be_widened
from .rank import HALF_LIFE, RECENCY, ScoredTerm, rarity
from .snippet import Matcher
from .spans import PART_BITS

log = logging.getLogger(__name__)

LEFT_FOR_WIDENING = 0.01

_SAMPLE = 128
_SAMPLED_WORDS = 12
_UNKNOWN = 0.01
_FEW_PHRASES = 4

Alternatives = dict[Term, list[Term]]
"""What each term of a query stands for."""
Hits = list[tuple[Candidate, str, Matcher]]
"""Candidates, how they were found, and what to mark in them."""


class Search:
    """One search on one connection, whose index has caught up."""

    def __init__(
        self, conn: IndexConnection, query: Query, filters: Filters, wanted: Wanted
    ) -> None:
        self._conn = conn
        self._query = query
        self._terms = [term for group in query.groups for term in group]
        self._filters = filters
        self._wanted = wanted
        self._deadline = time.thread_time() + wanted.budget
        self._now = time.time()
        self._required = filters.required(conn)
        self._outline = conn.require_outline()
        self._common = self._outline.common
        self._frequency = _frequencies(conn, self._terms, self._outline.parts)
        self._occurring: dict[str, bool] = {}
        conn.scorer.new_search()

    def hits(self) -> Hits:
        """What was found, best first; at least as much as is wanted, if there is as much."""
        limit = vocabulary.MOST_WORDS if len(self._terms) == 1 else vocabulary.FEWER_WORDS
        need, first = self._wanted.need, self._wanted.titles_first
        stands_for = self._alternatives(vocabulary.expand_prefix, limit)
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
        if not widenable or self._deadline - time.thread_time() < LEFT_FOR_WIDENING:
            return hits
        wider = self._alternatives(vocabulary.widen, max(8, vocabulary.MOST_WORDS // widenable))
        if wider == stands_for:
            return hits  # there are no longer words to find
        return hits + self._widened(wider, hits, messages)

    def _widened(self, wider: Alternatives, hits: Hits, found: list[Candidate]) -> Hits:
        """Further hits, with words that contain what was typed; `found` are messages without."""
        titles, messages = self._pass(
            wider, self._wanted.need + len(hits), {one.message_id for one in found}
        )
        matcher = Matcher(tuple(self._terms), widened=True)
        known = {(kind == "title", one.message_id, one.session_id) for one, kind, _ in hits}
        seen = (
            {one.conversation_id for one, _, _ in hits}
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

    def _alternatives(
        self, expand: Callable[[Connection, Term, int], Sequence[Term]], limit: int
    ) -> Alternatives:
        """For each term those of what it expands to that may occur."""
        return {
            term: [
                as_pairs(one, self._common)
                for place, one in enumerate(expand(self._conn, term, limit))
                # Single words after the first come from the vocabulary.
                if (place and len(one.words) == 1) or self._may_occur(one)
            ]
            for term in self._terms
        }

    def _pass(
        self, stands_for: Alternatives, need: int, found: Set[int | None] | None = None
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Titles and messages that match when each term stands for its alternatives.

        Messages that were `found` already may be left out if there are no others.
        """
        groups = self._query.groups
        for group in groups:
            if not any(stands_for[term] for term in group):
                return [], []

        query = self._query
        if query.excluded:
            excluded = tuple(as_pairs(one, self._common) for one in query.excluded)
            query = query._replace(excluded=excluded)

        def expression(also_forbidden: Sequence[str] = ()) -> Expression:
            return build(
                query,
                stands_for.__getitem__,
                required=self._required,
                forbidden=[*self._filters.forbidden(), *also_forbidden],
                frequency=self._group_frequency,
            )

        first = expression()
        self._conn.scorer.prepare(
            [
                ScoredTerm(rarity(self._frequency[term]), numbers, occurs=len(group) == 1)
                for group, phrases in zip(groups, first.phrases, strict=True)
                for term, numbers in zip(group, phrases, strict=True)
            ]
        )
        titles: list[Candidate] = []
        if self._outline.has_titles and self._filters.allow_titles:
            titles = collect_titles(self._conn, first.text, self._filters)
            titles = self._sorted(titles)
        if found is not None and self._are_all(found, stands_for):
            return titles, []
        collector = Collector(
            self._conn,
            lambda forbidden: expression(forbidden).text,
            self._filters,
            self._wanted._replace(need=need),
            self._deadline,
            first.text,
            self._outline.spans,
        )
        collector.run()
        if not collector.complete:
            log.info("A search took too long; the older part of the index was not looked at")
        return titles, collector.candidates

    def _group_frequency(self, number: int) -> float:
        group = self._query.groups[number]
        if len(group) == 1:
            return self._frequency[group[0]]
        return max(self._frequency[term] for term in group)

    def _are_all(self, found: Set[int | None], stands_for: Alternatives) -> bool:
        """Whether no messages but these have the rarest group of the query.

        Then it does not matter in how many longer words the others are, which takes longer to find.
        """
        groups = self._query.groups
        if len(groups) < 2:
            return False
        number = min(range(len(groups)), key=self._group_frequency)
        if self._group_frequency(number) * (1 << PART_BITS) > len(found):
            return False  # there are more of them in a single table
        rarest = groups[number]
        if sum(len(stands_for[term]) for term in rarest) > _FEW_PHRASES:
            return False
        text = build(Query((rarest,)), stands_for.__getitem__, required=self._required).text
        for part in self._outline.parts:
            table = f"doc_{part}"
            rows = tuples(
                self._conn,
                f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?",
                (text, len(found) + 1),
            )
            if not all(row[0] in found for row in rows):
                return False
        return True

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
            hits = [(one, kind, matcher) for kind, found in lists for one in found]
            keys = self._keys([hit[0] for hit in hits])
            hits = [hits[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]
        else:
            hits = [
                (one, kind, matcher)
                for kind, found in lists
                for start in range(0, len(found), BLOCK)
                for one in self._sorted(found[start : start + BLOCK])
            ]
        if self._wanted.one_per_conversation:
            firsts: dict[str, tuple[Candidate, str, Matcher]] = {}
            for hit in hits:
                firsts.setdefault(hit[0].conversation_id, hit)
            hits = list(firsts.values())
        return hits


def _frequencies(
    conn: Connection, terms: Sequence[Term], numbers: Sequence[int]
) -> dict[Term, float]:
    """For each term, roughly in which share of the messages it occurs, from a sample.

    `numbers` are those of the full-text tables.
    """
    if len(terms) < 2 or not numbers:
        return dict.fromkeys(terms, _UNKNOWN)
    table = f"doc_{numbers[-2] if len(numbers) > 1 else numbers[-1]}"
    known: dict[str, float] = {}

    def of_word(word: str) -> float:
        if word not in known and len(known) < _SAMPLED_WORDS:
            count, first, last = tuples(
                conn,
                "SELECT count(*), min(rowid), max(rowid) FROM"
                f" (SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?)",
                (f'"{word}"', _SAMPLE),
            )[0]
            spread = last - first + 1 if count == _SAMPLE else 1 << PART_BITS
            known[word] = count / spread
        return known.get(word, _UNKNOWN)

    return {term: min(map(of_word, term.words)) for term in terms}
