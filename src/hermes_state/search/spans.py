"""Which message ids belong to which times.

Ids usually follow time, but imported messages have new ids and old times. A span is a stretch of
ids, within one full-text table, in which time does not go back. It reaches to where the next one
begins. Spans let a search go through the messages in the order of time, and leave out what is too
old or too new for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..dialect import tuples
from ..opening import FileConnection

SCHEMA = (
    "CREATE TABLE span (first_id INTEGER PRIMARY KEY, first_time REAL NOT NULL,"
    " last_time REAL NOT NULL)",
)
PART_BITS = 17
"""Ids that differ only in these bits are in the same full-text table."""

_LONGEST = 4096
_DISORDER = 3600.0  # seconds that time may go back within a span
_MOST_RANGES = 64
_END = (1 << 63) - 1


class Range(NamedTuple):
    """Messages in one full-text table."""

    part: int
    first_id: int
    last_id: int
    first_time: float
    last_time: float


def extend(conn: FileConnection, times: Iterable[tuple[int, float]]) -> None:
    """Enter new messages (id, time), in the order of their ids."""
    last = tuples(conn, "SELECT * FROM span ORDER BY first_id DESC LIMIT 1")
    spans: list[list[float]] = [list(last[0])] if last else []
    for message_id, time in times:
        if spans:
            first_id, first_time, last_time = spans[-1]
            if (
                message_id - first_id < _LONGEST
                and message_id >> PART_BITS == int(first_id) >> PART_BITS
                and time > last_time - _DISORDER
            ):
                spans[-1][1:] = min(first_time, time), max(last_time, time)
                continue
        spans.append([message_id, time, time])
    conn.executemany("INSERT OR REPLACE INTO span VALUES (?, ?, ?)", spans)


def include(conn: FileConnection, times: Iterable[tuple[int, float]]) -> None:
    """Enter messages that were read again, or late."""
    for message_id, time in times:
        start = message_id >> PART_BITS << PART_BITS
        conn.execute(
            "INSERT INTO span SELECT ?2, ?3, ?3"
            " WHERE NOT EXISTS (SELECT 1 FROM span WHERE first_id BETWEEN ?1 AND ?2)",
            (start, message_id, time),
        )
        conn.execute(
            "UPDATE span SET first_time = min(first_time, ?3), last_time = max(last_time, ?3)"
            " WHERE first_id = (SELECT max(first_id) FROM span WHERE first_id BETWEEN ?1 AND ?2)"
            " AND (first_time > ?3 OR last_time < ?3)",
            (start, message_id, time),
        )


class Spans:
    """All spans, as they were read."""

    def __init__(self, conn: FileConnection) -> None:
        rows = tuples(conn, "SELECT first_id, first_time, last_time FROM span ORDER BY first_id")
        self._spans: list[Range] = []
        for row, following in itertools.pairwise([*rows, (_END, 0.0, 0.0)]):
            first_id, first_time, last_time = row
            part = first_id >> PART_BITS
            end = min(following[0], (part + 1) << PART_BITS) - 1
            self._spans.append(Range(part, first_id, end, first_time, last_time))
        self._of_all_times: dict[bool, list[Range]] = {}

    def ranges(
        self, since: float | None, until: float | None, oldest_first: bool
    ) -> Sequence[Range]:
        """Ranges that hold all messages of the wanted time, newest (or oldest) first."""
        if since is None and until is None:
            if oldest_first not in self._of_all_times:
                self._of_all_times[oldest_first] = _in_order(self._spans, oldest_first)
            return self._of_all_times[oldest_first]
        return _in_order(
            [
                span
                for span in self._spans
                if (since is None or span.last_time >= since)
                and (until is None or span.first_time <= until)
            ],
            oldest_first,
        )


def _in_order(spans: Sequence[Range], oldest_first: bool) -> list[Range]:
    if oldest_first:
        ordered = sorted(spans, key=lambda span: (span.first_time, span.first_id))
    else:
        ordered = sorted(spans, key=lambda span: (-span.last_time, -span.first_id))
    ordered = _joined(ordered, oldest_first)
    if len(ordered) > _MOST_RANGES:
        ordered = _joined(spans if oldest_first else spans[::-1], oldest_first)
    return ordered


def _joined(spans: Sequence[Range], oldest_first: bool) -> list[Range]:
    """The spans, joined where one follows upon the other in the order in which ids are read."""
    joined: list[Range] = []
    for span in spans:
        last = joined[-1] if joined else None
        if last is None or last.part != span.part:
            joined.append(span)
            continue
        lower, higher = (last, span) if oldest_first else (span, last)
        if lower.last_id + 1 == higher.first_id:
            joined[-1] = Range(
                span.part,
                min(last.first_id, span.first_id),
                max(last.last_id, span.last_id),
                min(last.first_time, span.first_time),
                max(last.last_time, span.last_time),
            )
        else:
            joined.append(span)
    return joined
