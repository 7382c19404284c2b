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
from collections.abc import Iterable
from typing import Any

from ..connection import Connection, tuples, value
from .query import Term, can_be_widened
from .text import is_unspaced

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
# Eight letters and digits or more: hexadecimal, or changing between the two three times or more.
_MACHINE_WORD = re.compile(r"(?=.{8})(?:(?=\D*\d)[0-9a-f]+|(?:\d+\D+){2,}\d*|(?:\D+\d+){2,}\D*)")


def is_listed(word: str) -> bool:
    """Whether a word that occurs is in the vocabulary."""
    return _SHORTEST <= len(word) <= _LONGEST and (
        word.isalpha() or not _MACHINE_WORD.fullmatch(word)
    )


def add_words(conn: Connection, counted: Counter[str], known: set[str]) -> None:
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


def may_occur(conn: Connection, word: str) -> bool:
    """False if it is certain that no message contains the word."""
    return not is_listed(word) or value(conn, f"SELECT {OCCURS}", (word,)) is not None


def beginning_with(conn: Connection, start: str, limit: int) -> list[tuple[int, str]]:
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


def containing(conn: Connection, part: str, limit: int) -> list[str]:
    """Words that contain `part` (three letters or more), the commonest first."""
    # Pieces that together have every letter; that they stand together is seen in the word itself.
    places = dict.fromkeys([*range(0, len(part) - 2, 3), len(part) - 3])
    pieces = " AND ".join(f'"{part[at : at + 3]}"' for at in places)
    found = tuples(
        conn,
        "SELECT word.word FROM word_part CROSS JOIN word ON word.id = word_part.rowid"
        " WHERE word_part MATCH ? AND instr(word.word, ?) ORDER BY word_part.rowid LIMIT ?",
        (pieces, part, limit),
    )
    return [word for (word,) in found]


def expand_prefix(conn: Connection, term: Term, limit: int) -> list[Term]:
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
    found = beginning_with(conn, last, limit)
    if not found or found[0][0] > _COMMONEST:
        return [term]
    return [Term((word,)) for word in dict.fromkeys([last, *(word for _, word in found)])]


def widen(conn: Connection, term: Term, limit: int) -> list[Term]:
    """What a term stands for when its bare words may also be parts of longer ones."""
    if not can_be_widened(term):
        return expand_prefix(conn, term, limit)
    first, last = term.words[0], term.words[-1]
    if len(term.words) == 1:
        found: Iterable[str] = containing(conn, first, limit) if len(first) <= _LONGEST else ()
        return [Term((word,)) for word in dict.fromkeys([first, *found])]
    starts = [first]
    if len(first) >= 3 and not is_unspaced(first):
        starts += [word for word in containing(conn, first, limit) if word.endswith(first)]
    return [
        term,
        *(
            Term((start, *term.words[1:]), prefix=not is_unspaced(last))
            for start in dict.fromkeys(starts)
        ),
    ]
