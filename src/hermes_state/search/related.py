"""Messages that fit a question in part, ranked by how much of it they cover.

For each term of the question the newest messages that have it are looked up; a rare term counts
more. What stands in the turns around a message counts a little as well, term by term: the answer to
a question is often in the turn after the one that has its words. So for each term a message gets
the best of its own weight and those of its neighbours, which count less the further away they are;
the sum over the terms is its score.

What is looked at is bounded, whatever was typed and however much is stored: so many messages of a
term, so many of them with their neighbours, and the time.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dialect import tuples
from .alike import LEAST_ALIKE, LEAST_ALONE, Alike
from .clock import WorkClock
from .collect import Candidate, titled
from .document import as_text
from .filters import Filters
from .index import IndexConnection, Outline
from .query import any_of, phrase
from .question import Asked, Question, shown
from .rank import rarity
from .spans import Range
from .times import tells_time

if TYPE_CHECKING:
    from ..meaning.meaning import Likeness

MOST_OF_A_TERM = 1500
"""Messages with a term that are looked at, the newest; fewer if there are many terms."""
_LEAST_OF_A_TERM = 400
_MOST_OF_ALL = 7500
_MOST_CUT = 3
CENTRES = 80
"""Messages at a time whose neighbours are looked at."""
_MOST_ROUNDS = 5
REACH = 5
"""Turns before and after a message that count for it."""
BEFORE = tuple(0.7 * 0.7**n for n in range(REACH))
AFTER = tuple(0.4 * 0.7**n for n in range(REACH))
"""How much the turns before a message count for it, and those after it; the next ones first."""

AT_NAMED_TIME = 0.2
"""What a message of the time that a question names gains, of the score of a full match."""
TITLE_SHARE = 0.5
"""How much of a question a title must have to be a hit."""
TITLE_WEIGHT = 0.8
_UNSEEN = 1.0  # weight of a term that only titles have
_MOST_TITLES = 200
TELLS_TIME = 0.05
"""What a message that names a time gains if the question asks for one."""

SATURATION = 0.8
LENGTH_WEIGHT = 0.2
_READ = 2000  # characters of a message in which a time is looked for
_USUAL_LENGTH = 240.0  # bytes of a turn
_LEAST = SATURATION * (1.0 - LENGTH_WEIGHT)
_PER_BYTE = SATURATION * LENGTH_WEIGHT / _USUAL_LENGTH
_SHARES = (*AFTER[::-1], 1.0, *BEFORE)
"""What a message counts for the turns before it, for itself, and for those after it."""


class Related:
    """One question on one connection."""

    def __init__(
        self,
        conn: IndexConnection,
        question: Question,
        asked: Sequence[Asked],
        filters: Filters,
        clock: WorkClock,
        outline: Outline,
        likeness: Likeness | None = None,
    ) -> None:
        """With `likeness`, messages are wanted as well that are like the question by meaning."""
        self._conn = conn
        self._alike = None if likeness is None else Alike(likeness, conn, filters)
        self._question = question
        self._asked = asked
        self._filters = filters
        self._clock = clock
        self._outline = outline
        # Neighbours count whatever their role is, so that is looked at afterwards.
        self._required = [
            any_of([f'"{word}"' for word in facets])
            for facets in filters._replace(roles=()).required(conn)
        ]
        self._forbidden = [f'"{word}"' for word in filters.forbidden()]
        share = _MOST_OF_ALL // max(len(asked), 1)
        self._most = min(MOST_OF_A_TERM, max(_LEAST_OF_A_TERM, share))
        self.weights: list[float] = []
        """By term, how much it counts."""
        self.fits: dict[int, tuple[float, ...]] = {}
        """For messages that were looked at, what each term adds to the score."""
        self.masks: dict[int, int] = {}
        """For messages that have terms, which (a bit for each)."""

    @property
    def _missing(self) -> float:
        """What the words of the question would count that the store does not have."""
        count = len(self._question.pieces) - len(self._asked)
        return max(count, 0) * rarity(1.0 / max(int(self._outline.feed[1]), 1))

    @property
    def total(self) -> float:
        """The score of a message that has all terms."""
        return sum(self.weights)

    def candidates(self, need: int, one_per_conversation: bool = False) -> list[Candidate]:
        """The messages that fit best, best first; about as many as are needed.

        With `one_per_conversation`, of about as many conversations.
        """
        if not self._asked and self._alike is None:
            return self._of_time(need)
        masks = self.masks = self._gather()
        best: list[Candidate] = []
        known: set[int] = set()
        filters = self._filters
        # These are looked at only once the best are known, so there must be more of them.
        is_narrow = filters.roles or filters.since is not None or filters.until is not None
        is_wide = one_per_conversation or self._question.named is not None or is_narrow
        enough = _MOST_ROUNDS * CENTRES if is_wide else 2 * need + 20
        ordered = self._by_own_words(masks)[: CENTRES * _MOST_ROUNDS]
        if self._alike is not None:
            ordered = self._alike.ahead_of(ordered, LEAST_ALIKE if self._asked else LEAST_ALONE)
        for start in range(0, len(ordered), CENTRES):
            scores = self._with_neighbours(ordered[start : start + CENTRES], masks)
            best_first = sorted(zip(scores.values(), scores, strict=True), reverse=True)
            some = [number for _, number in best_first[:enough]]
            best += self._visible([n for n in some if n not in known], scores)
            known.update(some)
            if self._clock.left() < 0.0:
                break
            count = len({hit.conversation_id for hit in best} if one_per_conversation else best)
            if count >= need and self._question.named is None:
                break
        best.sort(key=_order)
        if self._question.asks_when:
            best[: 3 * need] = self._with_times(best[: 3 * need])
        return best

    def _of_time(self, need: int) -> list[Candidate]:
        """What was said at the time that the question names, the newest first."""
        named = self._question.named
        if named is None:
            return []
        filters = self._filters
        since = named.since if filters.since is None else max(filters.since, named.since)
        until = named.until if filters.until is None else min(filters.until, named.until)
        condition, values = filters._replace(since=since, until=until).message_conditions()
        said: list[Candidate] = []
        for place in self._outline.spans.ranges(since, until, False):
            bounds = place.first_id, place.last_id
            rows = tuples(self._conn, _said_sql(condition), (*bounds, *values, need - len(said)))
            said += [Candidate._make((*row, 0.0)) for row in rows]
            if len(said) >= need or self._clock.left() < 0.0:
                break
        return said

    def _with_times(self, some: Sequence[Candidate]) -> list[Candidate]:
        """The candidates of a question for a time in order: what names a time counts more."""
        numbers = json.dumps([candidate.message_id for candidate in some])
        telling = {
            number
            for number, text in tuples(self._conn, _BEGINNINGS, (_READ, numbers))
            if tells_time(as_text(text) or "")
        }
        more = TELLS_TIME * self.total
        weighed = [
            candidate._replace(score=candidate.score + more)
            if candidate.message_id in telling
            else candidate
            for candidate in some
        ]
        return sorted(weighed, key=_order)

    def titles(self) -> list[Candidate]:
        """Sessions whose titles have much of what is asked, best first; after `candidates`."""
        covered: dict[int, float] = {}
        for asked, weight in zip(self._asked, self.weights, strict=True):
            text = self._expression(any_of(list(map(phrase, asked.phrases))))
            for (number,) in tuples(self._conn, _TITLES, (text, _MOST_TITLES)):
                covered[number] = covered.get(number, 0.0) + (weight or _UNSEEN)
        least = TITLE_SHARE * max(self.total, _UNSEEN)
        scores = {n: TITLE_WEIGHT * weight for n, weight in covered.items() if weight >= least}
        if not scores:
            return []
        return sorted(titled(self._conn, scores, self._filters), key=_order)

    def explain(self, hit: Candidate) -> dict[str, Any]:
        """What a hit has of the question, term by term."""
        number = hit.message_id or 0
        adds = self.fits.get(number, ())
        mask = self.masks.get(number, 0)
        by_meaning = self._alike.adds.get(number, 0.0) if self._alike is not None else None
        full = (self.total + self._missing) or 1.0
        return {
            "meaning": None if by_meaning is None else round(by_meaning, 3),
            "covers": round(min(1.0, sum(adds) / full), 3),
            "fits": round(min(1.0, hit.score / full), 3),
            "terms": [
                {
                    "term": asked.name,
                    "forms": [shown(term.words) for term in asked.phrases],
                    "weight": round(weight, 3),
                    "adds": round(added, 3),
                    "where": "message" if mask >> place & 1 else "beside" if added else "nowhere",
                }
                for place, (asked, weight, added) in enumerate(
                    zip(self._asked, self.weights, adds, strict=False)
                )
            ],
            "time": self._question.named is not None
            and self._question.named.since <= hit.timestamp < self._question.named.until,
        }

    # Which messages have which terms

    def _gather(self) -> dict[int, int]:
        """Messages with a bit for each term that they have; sets the weights."""
        masks: dict[int, int] = {}
        filters = self._filters
        ranges = self._outline.spans.ranges(filters.since, filters.until, False)
        last = min(max([place.last_id for place in ranges], default=0), int(self._outline.feed[1]))
        texts = [any_of(list(map(phrase, asked.phrases))) for asked in self._asked]
        cut: list[int] = []
        for number, text in enumerate(texts):
            count, oldest = self._read(ranges, text, 1 << number, masks)
            is_cut = count >= self._most
            stretch = last - oldest + 1 if is_cut else last
            self.weights.append(rarity(count / max(stretch, 1)) if count else 0.0)
            if is_cut:
                cut.append(number)
        # Of a common term there are older ones too. They are wanted where other terms are as well.
        cut.sort(key=self.weights.__getitem__, reverse=True)
        whole = [text for number, text in enumerate(texts) if number not in cut]
        for place, number in enumerate(cut[:_MOST_CUT]):
            if whole and self._clock.left() > 0.0:
                both = f"({texts[number]}) AND {any_of(whole)}"
                self._read(ranges, both, 1 << number, masks)
            for other in cut[:place]:
                if self._clock.left() > 0.0:
                    both = f"({texts[number]}) AND ({texts[other]})"
                    self._read(ranges, both, 1 << number | 1 << other, masks)
        return masks

    def _read(
        self, ranges: Sequence[Range], text: str, bits: int, masks: dict[int, int]
    ) -> tuple[int, int]:
        """Give the bits to the newest messages that match; how many they are, and the oldest."""
        expression = self._expression(text)
        count = oldest = 0
        for place in ranges:
            bounds = place.first_id, place.last_id
            rows = tuples(
                self._conn, _ids_sql(place.part), (expression, *bounds, self._most - count)
            )
            for (number,) in rows:
                masks[number] = masks.get(number, 0) | bits
            count += len(rows)
            if rows:
                oldest = rows[-1][0]
            if count >= self._most or self._clock.left() < 0.0:
                break
        return count, oldest

    def _expression(self, text: str) -> str:
        text = " AND ".join([f"({text})", *self._required])
        return f"({text}) NOT {any_of(self._forbidden)}" if self._forbidden else text

    def _by_own_words(self, masks: dict[int, int]) -> list[int]:
        """The messages, those first whose own words count most; of equal ones the newest."""
        alike: dict[int, list[int]] = {}
        for number, mask in masks.items():
            alike.setdefault(mask, []).append(number)
        ordered: list[int] = []
        for mask in sorted(alike, key=self._weight, reverse=True):
            ordered += sorted(alike[mask], reverse=True)
            if len(ordered) >= CENTRES * _MOST_ROUNDS:
                break
        return ordered

    def _weight(self, mask: int) -> float:
        return sum(weight for n, weight in enumerate(self.weights) if mask >> n & 1)

    # What stands around them

    def _with_neighbours(self, centres: Sequence[int], masks: dict[int, int]) -> dict[int, float]:
        """Scores of the messages and those around them."""
        visible = "" if self._filters.include_inactive else _VISIBLE
        condition, values = self._filters.session_conditions()
        ((windows,),) = tuples(
            self._conn, _windows_sql(visible, condition), (json.dumps(centres), *values)
        )
        parts: dict[int, list[float]] = {}
        nothing = [0.0] * len(self._asked)
        alone = set(centres)
        of_mask: dict[int, list[tuple[int, float]]] = {}
        seen: list[list[int]] = []
        for centre, size, before, after in json.loads(windows):
            turns = [*reversed(before), (centre, size), *after]
            seen.append([number for number, _ in turns])
            middle = len(before)
            theirs = [parts.setdefault(number, nothing[:]) for number, _ in turns]
            for place, (number, length) in enumerate(turns):
                mask = masks.get(number)
                if not mask or (place != middle and number in alone):
                    continue  # has nothing, or is looked at with all of its own neighbours
                if mask not in of_mask:
                    weights = enumerate(self.weights)
                    of_mask[mask] = [(n, weight) for n, weight in weights if mask >> n & 1]
                factor = (SATURATION + 1.0) / (1.0 + _LEAST + _PER_BYTE * (length or 0))
                first = max(0, place - REACH)
                near = theirs[first : place + REACH + 1]
                shares = _SHARES[first - place + REACH :]
                for term, weight in of_mask[mask]:
                    adds = weight * factor
                    for turn, share in zip(near, shares, strict=False):
                        if adds * share > turn[term]:
                            turn[term] = adds * share
        scores = {}
        for number, adds_of in parts.items():
            scores[number] = sum(adds_of)
            self.fits[number] = tuple(adds_of)
        if self._alike is not None:
            self._alike.add(seen, scores, self.total + self._missing)
        return scores

    def _visible(self, numbers: Sequence[int], scores: dict[int, float]) -> list[Candidate]:
        """Those of the messages that are wanted, as the store has them now."""
        condition, values = self._filters.message_conditions()
        rows = tuples(self._conn, _wanted_sql(condition), (json.dumps(numbers), *values))
        named = self._question.named
        if named is None:
            return [Candidate._make((*row, scores[row[0]])) for row in rows]
        more = AT_NAMED_TIME * self.total
        return [
            Candidate._make((*row, scores[row[0]] + more * (named.since <= row[3] < named.until)))
            for row in rows
        ]


def _order(candidate: Candidate) -> tuple[float, int]:
    return -candidate.score, -(candidate.message_id or 0)


_VISIBLE = " AND ({m}active = 1 OR {m}compacted = 1)"


@functools.lru_cache(maxsize=64)
def _ids_sql(part: int) -> str:
    table = f"doc_{part}"
    return (
        f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND rowid BETWEEN ? AND ?"
        " ORDER BY rowid DESC LIMIT ?"
    )


@functools.lru_cache(maxsize=64)
def _windows_sql(visible: str, condition: str) -> str:
    """For each message the turns before it (the last first) and after it, with their lengths."""
    in_turns = visible.format(m="")
    turns = (
        "json((SELECT json_group_array(json_array(id, size)) FROM (SELECT id, octet_length(content)"
        " AS size FROM state.messages WHERE session_id = m.session_id AND id {than} m.id"
        f" AND role IN ('user', 'assistant') AND octet_length(content) > 0{in_turns}"
        f" ORDER BY id {{direction}} LIMIT {REACH})))"
    )
    return (
        "SELECT json_group_array(json_array(m.id, octet_length(m.content), "
        + turns.format(than="<", direction="DESC")
        + ", "
        + turns.format(than=">", direction="ASC")
        + ")) FROM json_each(?) AS centre CROSS JOIN state.messages AS m ON m.id = centre.value"
        " CROSS JOIN state.sessions AS s ON s.id = m.session_id"
        f" WHERE {condition}{visible.format(m='m.')}"
    )


@functools.lru_cache(maxsize=64)
def _wanted_sql(condition: str) -> str:
    return (
        "SELECT m.id, m.session_id, coalesce(s.conversation_id, s.id), CAST(m.timestamp AS REAL)"
        " FROM json_each(?) AS hit CROSS JOIN state.messages AS m ON m.id = hit.value"
        f" CROSS JOIN state.sessions AS s ON s.id = m.session_id WHERE {condition}"
    )


@functools.lru_cache(maxsize=64)
def _said_sql(condition: str) -> str:
    return (
        "SELECT m.id, m.session_id, coalesce(s.conversation_id, s.id), CAST(m.timestamp AS REAL)"
        " FROM state.messages AS m CROSS JOIN state.sessions AS s ON s.id = m.session_id"
        " WHERE m.id BETWEEN ? AND ? AND m.role IN ('user', 'assistant') AND m.origin_id IS NULL"
        f" AND octet_length(m.content) > 0 AND {condition} ORDER BY m.id DESC LIMIT ?"
    )


_BEGINNINGS = (
    "SELECT m.id, CAST(substr(m.content, 1, ?) AS BLOB) FROM json_each(?) AS hit"
    " CROSS JOIN state.messages AS m ON m.id = hit.value"
)

_TITLES = "SELECT rowid FROM title_doc WHERE title_doc MATCH ? ORDER BY rowid DESC LIMIT ?"
