"""The distinct words of the store, for words that were typed in part.

Instead of a second full-text index over every piece of every message, the index keeps each distinct
word once, with the three-letter pieces it consists of. What was typed in part is first looked up
here; the whole words found are then searched for. Words have numbers in the order in which they
were first met, frequent ones early, so taking the lowest numbers takes the commonest words.

Words that only a machine would write (hashes, ids, encoded data) are left out: nearly every one of
them is new, and nobody remembers a piece from the middle of one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..dialect import tuples, value
from ..opening import FileConnection
from .folding import is_unspaced
from .query import Term, can_be_widened

SCHEMA = (
    "CREATE TABLE word (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE)",
    "CREATE VIRTUAL TABLE word_part USING fts5(word, content='', columnsize=0, detail=none,"
    " tokenize='trigram case_sensitive 1')",
)

MOST_WORDS = 128
"""How many whole words a part may stand for, when it is alone in its query."""
FEWER_WORDS = 8
"""How many when there are other words."""

_SHORTEST, _LONGEST = 2, 40
_COMMONEST = 20
_EARLY = 20_000
_SMALL = 5000
_AT_ONCE = 10_000
_MOST_KNOWN = 500_000
_PARTS_AT_ONCE = 4
# Eight letters and digits or more: hexadecimal, or changing between the two three times or more.
_MACHINE_WORD = re.compile(r"(?=.{8})(?:(?=\D*\d)[0-9a-f]+|(?:\d+\D+){2,}\d*|(?:\D+\d+){2,}\D*)")

_CONTAINING = [
    " UNION ALL ".join(
        f"SELECT {number}, word FROM (SELECT word.word AS word FROM word_part"
        " CROSS JOIN word ON word.id = word_part.rowid"
        " WHERE word_part MATCH ? AND instr(word.word, ?) ORDER BY word_part.rowid LIMIT ?)"
        for number in range(count)
    )
    for count in range(_PARTS_AT_ONCE + 1)
]
"""Statements for so many parts of words; each takes pieces, the part and a limit."""


def is_listed(word: str) -> bool:
    """Whether a word that occurs is in the vocabulary."""
    return _SHORTEST <= len(word) <= _LONGEST and (
        word.isalpha() or not _MACHINE_WORD.fullmatch(word)
    )


def add_words(conn: FileConnection, counted: Counter[str], known: set[str]) -> None:
    """Enter the words of a batch that are new; `known` remembers them for the next batch."""
    if len(known) > _MOST_KNOWN:
        known.clear()
    new = [word for word in counted if word not in known and is_listed(word)]
    new.sort(key=counted.__getitem__, reverse=True)
    known.update(new)
    for first in range(0, len(new), _AT_ONCE):
        added: list[tuple[Any, ...]] = conn.executemany(
            "INSERT INTO word (word) VALUES (?) ON CONFLICT DO NOTHING RETURNING id, word",
            [(word,) for word in new[first : first + _AT_ONCE]],
        ).fetchall()
        conn.executemany(
            "INSERT INTO word_part (rowid, word) VALUES (?, ?)",
            [row for row in added if len(row[1]) >= 3],
        )


OCCURS = "(SELECT 1 FROM word WHERE word = ?)"
"""An expression that is NULL for a listed word that no message contains."""


def may_occur(conn: FileConnection, word: str) -> bool:
    """False if it is certain that no message contains the word."""
    return not is_listed(word) or value(conn, f"SELECT {OCCURS}", (word,)) is not None


def beginning_with(conn: FileConnection, start: str, limit: int) -> list[tuple[int, str]]:
    """Numbers and words that begin with `start`, the commonest first."""
    end = start[:-1] + chr(ord(start[-1]) + 1)
    if len(start) < 3:
        # Many words begin so; sorting them all would take longer than reading the early ones.
        early = tuples(
            conn,
            "SELECT id, word FROM word NOT INDEXED WHERE id <= ? AND word >= ? AND word < ?"
            " ORDER BY id LIMIT ?",
            (_EARLY, start, end, limit),
        )
        if len(early) >= limit:
            return early
    return tuples(
        conn,
        "SELECT id, word FROM (SELECT id, word FROM word WHERE word >= ? AND word < ? LIMIT ?)"
        " ORDER BY id LIMIT ?",
        (start, end, _EARLY, limit),
    )


def containing(conn: FileConnection, parts: Sequence[str], limit: int) -> dict[str, list[str]]:
    """For each part (three letters or more) words that contain it, the commonest first."""
    words: dict[str, list[str]] = {part: [] for part in parts}
    for first in range(0, len(parts), _PARTS_AT_ONCE):
        some = parts[first : first + _PARTS_AT_ONCE]
        values = [value for part in some for value in (_pieces(part), part, limit)]
        for number, word in tuples(conn, _CONTAINING[len(some)], values):
            words[some[number]].append(word)
    return words


def _pieces(part: str) -> str:
    """Two pieces of it that a word must have; that all of it stands there is seen in the word.

    Beginnings and ends of words are alike, so the pieces are from within.
    """
    last = len(part) - 3
    if last < 3:
        return f'"{part[:3]}" AND "{part[last:]}"'
    return f'"{part[1:4]}" AND "{part[last - 1 : -1]}"'


def expand_prefix(conn: FileConnection, term: Term, limit: int) -> list[Term]:
    """What a term stands for: itself, or words that begin with its last one.

    SQLite can look for a prefix itself. It then merges all that is known of every such word, which
    is too slow if one of the commonest words of a large store is among them. Then the `limit`
    commonest are named instead; one of them occurs in nearly every message that has any.
    """
    if not term.prefix:
        return [term]
    last = term.words[-1]
    if is_unspaced(last):
        return [Term(term.words)]
    if len(term.words) > 1:
        return [term]
    if (value(conn, "SELECT max(id) FROM word") or 0) < _SMALL:
        return [term]
    longer = beginning_with(conn, last, limit)
    if not longer or longer[0][0] > _COMMONEST:
        return [term]
    return [Term((word,)) for word in dict.fromkeys([last, *(word for _, word in longer)])]


def widen(conn: FileConnection, terms: Sequence[Term], limit: int) -> dict[Term, list[Term]]:
    """What each term stands for when its bare words may also be parts of longer ones."""
    widenable = [term for term in terms if can_be_widened(term)]
    parts = [term.words[0] for term in widenable if _is_part(term)]
    longer = containing(conn, list(dict.fromkeys(parts)), limit) if parts else {}
    stands_for: dict[Term, list[Term]] = {}
    for term in terms:
        if term not in widenable:
            stands_for[term] = expand_prefix(conn, term, limit)
            continue
        first, last = term.words[0], term.words[-1]
        words = longer.get(first, ())
        if len(term.words) == 1:
            stands_for[term] = [Term((word,)) for word in dict.fromkeys([first, *words])]
            continue
        starts = dict.fromkeys([first, *(word for word in words if word.endswith(first))])
        stands_for[term] = [
            term,
            *(Term((start, *term.words[1:]), prefix=not is_unspaced(last)) for start in starts),
        ]
    return stands_for


def _is_part(term: Term) -> bool:
    """Whether longer words that have the first of a term may be listed."""
    first = term.words[0]
    if len(term.words) == 1:
        return len(first) <= _LONGEST
    return len(first) >= 3 and not is_unspaced(first)
