"""The distinct words of the store, for words that were typed in part.

Instead of a second full-text index over every piece of every message, the index keeps each distinct
word once, with the three-letter pieces it consists of. What was typed in part is first looked up
here; the whole words found are then searched for. Words have numbers in the order in which they
were first met, frequent ones early, so taking the lowest numbers takes the commonest words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .connection import Connection, tuples
from .search_query import Term, can_be_widened
from .search_text import is_unspaced

SHORTEST, LONGEST = 2, 40
"""Words outside these lengths are found as they are, but not by a part of them."""

SCHEMA = (
    "CREATE TABLE word (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE)",
    "CREATE VIRTUAL TABLE word_part USING fts5(word, content='', columnsize=0, detail=none,"
    " tokenize='trigram case_sensitive 1')",
)

MOST_WORDS = 128
"""How many whole words a part may stand for, when it is alone in its query."""
FEWER_WORDS = 16
"""How many when there are other words."""

_FEW = 16
_COMMONEST = 20
_EARLY = 20_000


def add_words(conn: Connection, counted: Counter[str], known: set[str]) -> None:
    """Enter the words of a batch that are new; `known` remembers them for the next batch."""
    new = {
        word: count
        for word, count in counted.items()
        if word not in known and SHORTEST <= len(word) <= LONGEST
    }
    known.update(new)
    added: list[tuple[Any, ...]] = conn.executemany(
        "INSERT INTO word (word) VALUES (?) ON CONFLICT DO NOTHING RETURNING id, word",
        [(word,) for word in sorted(new, key=new.__getitem__, reverse=True)],
    ).fetchall()
    conn.executemany(
        "INSERT INTO word_part (rowid, word) VALUES (?, ?)",
        [row for row in added if len(row[1]) >= 3],
    )


def is_known(conn: Connection, word: str) -> bool:
    """False if no message contains the word."""
    if is_unspaced(word) or not SHORTEST <= len(word) <= LONGEST:
        return True
    return bool(tuples(conn, "SELECT 1 FROM word WHERE word = ?", (word,)))


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
    pieces = " AND ".join(f'"{part[at : at + 3]}"' for at in range(len(part) - 2))
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
    is the quickest way for many rare words, and too slow with one of the commonest among them.
    Then we name the words. Only if more than `limit` begin with the same one or two letters, the
    rarer ones are left out; what remains occurs in nearly every message that has any of them.
    """
    if not term.prefix:
        return [term]
    last = term.words[-1]
    if is_unspaced(last):
        return [Term(term.words)]
    if len(term.words) > 1 or len(last) > LONGEST:
        return [term]
    found = beginning_with(conn, last, max(limit, _FEW) + 1)
    merge = len(found) > _FEW and found[0][0] > _COMMONEST
    if merge or (len(found) > limit and len(last) >= 3):
        return [term]
    return [Term((word,)) for word in dict.fromkeys([last, *(word for _, word in found[:limit])])]


def widen(conn: Connection, term: Term, limit: int) -> list[Term]:
    """What a term stands for when its bare words may also be parts of longer ones."""
    if not can_be_widened(term):
        return expand_prefix(conn, term, limit)
    first, last = term.words[0], term.words[-1]
    if len(term.words) == 1:
        found: Iterable[str] = containing(conn, first, limit) if len(first) <= LONGEST else ()
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
