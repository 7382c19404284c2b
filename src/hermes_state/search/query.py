"""What a person typed, as a full-text expression.

The language: words that must all occur; "several words" in this order; word* for any word that
begins so; `a OR b`; `-word` or `NOT word` for what must not occur. Everything else is text, so
every string is a valid query. A word with punctuation inside (foo_bar.py, a@b.c) means its parts in
order.

Invariant: an expression consists of our own operators and of words that `folding` produced,
quoted. Nothing that was typed gets into it in any other way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .folding import is_unspaced, words

MAX_QUERY = 2048
MAX_TERMS = 48
"""Further words of a longer query are not looked at."""

MAX_PHRASE = 128
"""Words of a phrase that are looked at: those after them may be any."""
MOST_APART = 12
"""How many brackets are put into each other; SQLite's parser takes no more than 100."""

NOWHERE = "§"
"""A word that no message contains."""

_OPERATORS = frozenset(("AND", "OR", "NOT"))
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»＂", '"'))
_PIECE = re.compile(r'[(,;]*(-?)"([^"]*)"(\*?)(?=\s|[^\w"]|$)|\S+')


class Term(NamedTuple):
    """One or more words in order."""

    words: tuple[str, ...]
    prefix: bool = False
    """The last word stands for every word that begins with it."""
    quoted: bool = False
    """Typed in quotes: never widened."""


class Query(NamedTuple):
    """What must and what must not occur."""

    groups: tuple[tuple[Term, ...], ...] = ()
    """Each group must occur, by any of its terms."""
    excluded: tuple[Term, ...] = ()


class Expression(NamedTuple):
    """A full-text expression, and the numbers that its phrases have in SQLite."""

    text: str
    phrases: tuple[tuple[range, ...], ...]
    """For each group of the query and each of its terms: the phrases that it stands for."""


def parse(typed: str) -> Query:
    """Read a query; never fails. Without anything to look for, `groups` is empty."""
    typed = typed[:MAX_QUERY]
    if typed.isascii() and typed.replace(" ", "").isalnum():  # words and no more: most queries
        plain = typed.split()
        if len(plain) == 1 or _OPERATORS.isdisjoint(plain):
            distinct = dict.fromkeys(words(" ".join(plain[:MAX_TERMS])))
            return Query(tuple([(Term((word,)),) for word in distinct]))
    if typed[:1] == typed[-1:] == '"' and typed.isascii() and typed.count('"') == 2:  # a phrase
        term = _term(typed[1:-1], False, True)
        return Query(((term,),)) if term.words else Query()
    pieces = _pieces(typed.translate(_QUOTES))
    groups: list[list[Term]] = []
    excluded: list[Term] = []
    joins = negated = False
    last: list[Term] | None = None  # where an OR adds its right side
    count = 0
    last_term = max((at for at, (_, _, term) in enumerate(pieces) if term.words), default=-1)
    for place, (sign, text, term) in enumerate(pieces):
        before_term = place < last_term
        between = last is not None and before_term
        if text == "OR" and between:
            joins = True
        elif text == "AND" and between:
            joins = False
        elif text == "NOT" and before_term:
            negated = True
        elif term.words and count < MAX_TERMS:
            count += 1
            if joins and last is not None and not negated and not sign:
                last.append(term)
            elif negated or sign:
                excluded.append(term)
                last = excluded
            else:
                groups.append([term])
                last = groups[-1]
            joins = negated = False
    unique = dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups)
    return Query(tuple(unique), tuple(dict.fromkeys(excluded)))


def _pieces(typed: str) -> list[tuple[bool, str, Term]]:
    """(excluded by a leading minus?, the text when it may be an operator, the term)."""
    pieces = []
    for match in _PIECE.finditer(typed):
        phrase = match.group(2)
        if phrase is not None:
            pieces.append((bool(match.group(1)), "", _term(phrase, bool(match.group(3)), True)))
            continue
        piece = match.group()
        sign = len(piece) > 1 and piece[0] == "-" and bool(words(piece[1]))
        prefix = len(piece) > 1 and piece[-1] == "*" and bool(words(piece[-2]))
        operator = piece.strip("()")
        pieces.append((sign, operator, _term(piece, prefix, False)))
    return pieces


def _term(text: str, prefix: bool, quoted: bool) -> Term:
    listed = words(text)
    if len(listed) > MAX_PHRASE:
        listed, prefix, quoted = listed[:MAX_PHRASE], False, True
    return Term(tuple(listed), prefix, quoted)


def phrase(term: Term) -> str:
    """The term in the syntax of full-text expressions."""
    return f'"{" ".join(term.words)}"' + ("*" if term.prefix else "")


def any_of(phrases: Sequence[str]) -> str:
    """An expression that holds where one of `phrases` occurs."""
    return phrases[0] if len(phrases) == 1 else "(" + " OR ".join(phrases) + ")"


def build(
    query: Query,
    alternatives: Callable[[Term], Sequence[Term]],
    *,
    required: Sequence[Sequence[str]] = (),
    forbidden: Sequence[str] = (),
    frequency: Callable[[int], float] = float,
) -> Expression:
    """The expression for `query`.

    `alternatives` gives the terms a term stands for, the one that was typed first. Of each list in
    `required` one word must occur as well, and none of `forbidden`. `frequency` says how common a
    group (by its number) is.
    """
    groups = query.groups
    phrases: list[tuple[range, ...]] = [()] * len(groups)
    parts: list[str] = []
    position = apart = 0
    for number in sorted(range(len(groups)), key=frequency) if len(groups) > 1 else (0,):
        group = groups[number]
        some = alternatives(group[0])
        if len(group) == len(some) == 1:  # nearly always
            phrases[number] = (range(position, position + 1),)
            position += 1
            parts.append(phrase(some[0]))
        else:
            options: dict[str, None] = {}
            bounds = [position]
            for term in group:
                options |= dict.fromkeys(map(phrase, alternatives(term)))
                bounds.append(position + len(options))
            phrases[number] = tuple(itertools.starmap(range, itertools.pairwise(bounds)))
            position = bounds[-1]
            parts.append(any_of(list(options)))
        if len(parts) == 2 < len(groups) and apart < MOST_APART:
            # A chain of ANDs moves all its members on at each step. Set apart (by a NOT, since an
            # AND within an AND is merged with it), the two rarest move alone until they meet.
            apart += 1
            parts = [f'(({" AND ".join(parts)}) NOT "{NOWHERE}")']
            position += 1
    for facets in required:
        parts.append(any_of([f'"{word}"' for word in facets]))
    text = " AND ".join(parts)
    if forbidden or query.excluded:
        without = [*(f'"{word}"' for word in forbidden), *map(phrase, query.excluded)]
        text = f"({text}) NOT {any_of(without)}"
    return Expression(text, tuple(phrases))


def can_be_widened(term: Term) -> bool:
    """Whether a bare word may also match inside longer words."""
    if term.quoted or term.prefix:
        return False
    if len(term.words) == 1:
        return len(term.words[0]) >= 3
    return not (is_unspaced(term.words[0]) and is_unspaced(term.words[-1]))
