"""The matches of an expression, newest (or oldest) first, as many as are needed and no more.

The tables of the index are gone through one after the other in the order of time. After each one
the clock is looked at: past its time a search ends with what it has. So a phrase of words that
each occur in most messages, and that nowhere stand together, does not hold anyone up.
"""

from __future__ import annotations

import functools
import heapq
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from ..dialect import tuples
from .clock import WorkClock
from .filters import Filters
from .index import IndexConnection, facet
from .spans import Range, Spans

BLOCK = 400
"""How many matches are ranked against each other."""
MOST_TITLES = 50

_MOST_CANDIDATES = 20_000
_FLOODING = 8
_FEW = 64
_TITLES_LOOKED_AT = 1000


class Candidate(NamedTuple):
    """A message, or a title, that matches."""

    message_id: int | None
    session_id: str
    conversation_id: str
    timestamp: float
    score: float


_as_candidate = cast(
    Callable[[tuple[Any, ...]], Candidate], functools.partial(tuple.__new__, Candidate)
)
"""Makes a row that was read a candidate; called for each match, so quicker than `_make`."""


class Wanted(NamedTuple):
    """How much is asked for, and in which order."""

    need: int
    """Hits, or conversations."""
    order: str | None
    """"newest", "oldest", or None for relevance."""
    one_per_conversation: bool
    titles_first: int
    """How many titles may come before the messages."""
    budget: float
    """Seconds of work."""


@functools.lru_cache(maxsize=256)
def _matches_sql(part: int, condition: str, oldest_first: bool) -> str:
    table = f"doc_{part}"
    return (
        f"SELECT {table}.rowid, m.session_id, coalesce(s.conversation_id, s.id),"
        f" CAST(m.timestamp AS REAL), relevance({table}) FROM {table}"
        f" CROSS JOIN state.messages AS m ON m.id = {table}.rowid"
        " CROSS JOIN state.sessions AS s ON s.id = m.session_id"
        f" WHERE {table} MATCH ? AND {table}.rowid BETWEEN ? AND ? AND {condition}"
        f" ORDER BY {table}.rowid {'ASC' if oldest_first else 'DESC'} LIMIT ?"
    )


class Collector:
    """Goes through the index once, for one query."""

    def __init__(
        self,
        conn: IndexConnection,
        expression: Callable[[Sequence[str]], str],
        filters: Filters,
        wanted: Wanted,
        clock: WorkClock,
        match: str,
        spans: Spans,
    ) -> None:
        """`match` is the full-text expression; `expression` makes it, given facets not to occur."""
        self.candidates: list[Candidate] = []
        """Block after block: those of an earlier block come first whatever their score."""
        self.complete = True
        """False if some of the index was not looked at for want of time."""
        self._conn = conn
        self._expression = expression
        self._filters = filters
        self._wanted = wanted
        self._clock = clock
        self._match = match
        self._spans = spans
        self._conversations: set[str] = set()
        self._flooding: list[str] = []
        self._slowest = 0.0

    def run(self) -> None:
        """Collect what is wanted, if there is as much; in whole blocks unless ordered by time."""
        filters, oldest_first = self._filters, self._wanted.order == "oldest"
        for place in self._spans.ranges(filters.since, filters.until, oldest_first):
            if self._enough() and not self._may_come_first(place):
                return
            if self._out_of_time():
                return
            self._read(place)

    def _enough(self) -> bool:
        candidates = len(self.candidates)
        count = len(self._conversations) if self._wanted.one_per_conversation else candidates
        whole = bool(self._wanted.order) or candidates % BLOCK == 0
        return (whole and count >= self._wanted.need) or candidates >= _MOST_CANDIDATES

    def _may_come_first(self, place: Range) -> bool:
        """Whether a message in the range may come before the last one that is needed."""
        if len(self.candidates) >= _MOST_CANDIDATES:
            return False
        times = [candidate.timestamp for candidate in self.candidates]
        if self._wanted.order == "newest":
            return place.last_time > heapq.nlargest(self._wanted.need, times)[-1]
        if self._wanted.order == "oldest":
            return place.first_time < heapq.nsmallest(self._wanted.need, times)[-1]
        return False

    def _out_of_time(self) -> bool:
        if self._slowest and self._clock.left() < self._slowest:
            self.complete = False
        return not self.complete

    def _read(self, place: Range) -> None:
        condition, values = self._filters.message_conditions()
        low, high = place.first_id, place.last_id
        oldest_first = self._wanted.order == "oldest"
        sql = _matches_sql(place.part, condition, oldest_first)
        self._conn.scorer.new_table()
        taken = 0
        while True:
            left = self._clock.left()
            candidates = len(self.candidates)
            wanted = BLOCK - candidates % BLOCK
            if self._wanted.order:
                wanted = min(wanted, max(self._wanted.need, _FEW))
            rows = tuples(self._conn, sql, (self._match, low, high, *values, wanted))
            self._slowest = max(self._slowest, left - self._clock.left())
            self.candidates += map(_as_candidate, rows)
            if self._wanted.one_per_conversation:
                self._conversations.update(row[2] for row in rows)
            taken += len(rows)
            if len(rows) < wanted or (self._enough() and taken >= self._wanted.need):
                return
            if self._out_of_time():
                return
            if oldest_first:
                low = rows[-1][0] + 1
            else:
                high = rows[-1][0] - 1
            if self._wanted.one_per_conversation:
                # Sessions with very many matches would fill block after block.
                counts = Counter(row[1] for row in rows)
                self._flooding += [
                    facet("s", session) for session, count in counts.items() if count >= _FLOODING
                ]
                self._match = self._expression(self._flooding)


def collect_titles(conn: IndexConnection, match: str, filters: Filters) -> list[Candidate]:
    """Sessions whose title matches, those titled last first; their time is when they began."""
    conn.scorer.new_table()
    # Most searches match no title, and are spared the statement that looks at sessions.
    scores = dict(
        tuples(
            conn,
            "SELECT rowid, relevance(title_doc) FROM title_doc WHERE title_doc MATCH ?"
            " ORDER BY rowid DESC LIMIT ?",
            (match, _TITLES_LOOKED_AT),
        )
    )
    return titled(conn, scores, filters) if scores else []


def titled(conn: IndexConnection, scores: dict[int, float], filters: Filters) -> list[Candidate]:
    """The sessions that are wanted of those with these titles, in this order."""
    condition, values = filters.session_conditions()
    for operator, time_limit in ((">=", filters.since), ("<=", filters.until)):
        if time_limit is not None:
            condition += f" AND s.started_at {operator} ?"
            values.append(time_limit)
    visible = "" if filters.include_inactive else "AND (active = 1 OR compacted = 1)"
    rows = tuples(
        conn,
        f"SELECT (SELECT id FROM state.messages WHERE session_id = s.id {visible}"
        "  ORDER BY id LIMIT 1), s.id, coalesce(s.conversation_id, s.id), s.started_at, title.id"
        " FROM json_each(?) AS hit"
        " CROSS JOIN title ON title.id = hit.value"
        " CROSS JOIN state.sessions AS s ON s.id = title.session_id"
        f" WHERE {condition} ORDER BY hit.key LIMIT ?",
        (json.dumps(list(scores)), *values, MOST_TITLES),
    )
    return [_as_candidate((*row[:4], scores[row[4]])) for row in rows]
