"""What a question is about: the words that carry it, each with the forms it may have.

A sentence as people type it has words that say nothing (what, did, we). They are left out; the rest
need not all occur (see `related`). What has operators, quotes or prefixes is no question but means
exactly what it says, and a name with punctuation inside (foo_bar.py) stays one phrase.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..dialect import tuples
from ..opening import FileConnection
from . import stop_words
from .folding import is_unspaced, words
from .forms import forms
from .query import MAX_QUERY, Query, Term
from .times import Named, asks_when, named_time
from .vocabulary import containing, is_listed

MOST_TERMS = 16
"""Terms of a question that are looked for; of more, the first."""
SENTENCE = 5
"""Words that are taken for a sentence although none of them says nothing."""
_MOST_ALTERNATIVES = 24
_LONGER_WORDS = 8

_NAME_SIGN = re.compile(r"\w[._/\\@:#=+]\w|\w-\w*\d|\d-\w|\w--?\d")
_KANA = re.compile("[\u3041-\u309f]+")
_KATAKANA = re.compile("[\u30a0-\u30ff]+")


class Asked(NamedTuple):
    """One thing that a question is about."""

    name: str
    """The word, as it is shown."""
    phrases: tuple[Term, ...]
    """What stands for it; that which was typed first."""


class Question(NamedTuple):
    """What a text asks for, and which languages it may be in."""

    pieces: tuple[Term, ...]
    languages: tuple[str, ...]
    is_sentence: bool
    """Whether it has words that say nothing, or many words: people type keywords otherwise."""
    named: Named | None = None
    """The time that it names."""
    asks_when: bool = False


def read_question(typed: str, query: Query, now: float) -> Question | None:
    """The question that was typed, or None if it is an expression of the query language."""
    if query.excluded or not query.groups:
        return None
    for group in query.groups:
        if len(group) > 1 or group[0].prefix or group[0].quoted:
            return None
    raw = typed[:MAX_QUERY].split()
    if len(raw) > 1 and "AND" in raw[1:-1]:
        return None
    pieces = list(dict.fromkeys(term for piece in raw for term in _terms(piece)))
    single = [term.words[0] for term in pieces if len(term.words) == 1]
    languages = stop_words.languages_of(single)
    small = frozenset().union(*(stop_words.BY_LANGUAGE[language] for language in languages))
    kept = [term for term in pieces if len(term.words) > 1 or term.words[0] not in small]
    named = named_time(typed[:MAX_QUERY], now)
    about = tuple(kept)
    if named is not None and all(named.words.issuperset(term.words) for term in kept):
        about = ()  # it asks for all that was said then
    elif not kept:
        about = tuple(pieces)
    return Question(
        about[:MOST_TERMS],
        languages,
        len(kept) < len(pieces) or len(kept) >= SENTENCE,
        named,
        asks_when(typed[:MAX_QUERY]),
    )


def _terms(piece: str) -> Iterator[Term]:
    listed = words(piece)
    if len(listed) > 1 and _NAME_SIGN.search(piece) and not any(map(is_unspaced, listed)):
        yield Term(tuple(listed))
        return
    run = ""
    for word in listed:
        if is_unspaced(word):
            run += word
            continue
        yield from _unspaced_terms(run)
        run = ""
        yield Term((word,))
    yield from _unspaced_terms(run)


def _unspaced_terms(run: str) -> Iterator[Term]:
    """Pairs of characters of a text without spaces, without its small words."""
    if not run:
        return
    text = run
    for small in stop_words.UNSPACED:
        text = text.replace(small, " ")
    if len(_KANA.sub("", text).strip()) > 0:
        text = _KANA.sub(" ", text)  # in Japanese mostly endings
    for part in text.split() or [run]:
        if len(part) == 1 or (_KATAKANA.fullmatch(part) and len(part) < 6):
            yield Term(tuple(part))
        else:
            for at in range(len(part) - 1):
                yield Term((part[at], part[at + 1]))


def resolve(conn: FileConnection, question: Question) -> list[Asked]:
    """The terms of a question with those of their forms that occur; those without any are left out.

    A word that the store does not have stands for longer words that contain it.
    """
    possible = {
        term: forms(term.words[0], question.languages)
        for term in question.pieces
        if len(term.words) == 1
    }
    looked_up = [word for some in possible.values() for word in some]
    looked_up += [word for term in question.pieces if len(term.words) > 1 for word in term.words]
    known = {
        word
        for (word,) in tuples(
            conn,
            "SELECT word.word FROM json_each(?) AS form CROSS JOIN word ON word.word = form.value",
            (json.dumps(list(dict.fromkeys(looked_up))),),
        )
    }
    asked: list[Asked] = []
    taken: set[str] = set()
    for term in question.pieces:
        if len(term.words) > 1:
            if all(word in known or not is_listed(word) for word in term.words):
                asked.append(Asked(shown(term.words), (term,)))
            continue
        word = term.words[0]
        if word in taken:  # another form of the same
            continue
        found = [form for form in possible[term] if form in known]
        if word not in known and not is_listed(word):
            found.insert(0, word)  # of the kind that the vocabulary leaves out
        if not found and len(word) >= 4:
            found = containing(conn, [word], _LONGER_WORDS)[word]
        if found:
            taken.update(found)
            phrases = tuple(Term((form,)) for form in found[:_MOST_ALTERNATIVES])
            asked.append(Asked(word, phrases))
    return asked


def shown(listed: Sequence[str]) -> str:
    """The words of a term as a person reads them."""
    return ("" if all(map(is_unspaced, listed)) else " ").join(listed)
