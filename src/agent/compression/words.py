"""Words and values of a text: what two statements are about, and what they say of it.

The words of "use port 8080 for the proxy" are {port, proxy}; its values are {8080}. Two statements
with the same words and other values are about the same thing. No language is built in beyond a list
of common English words; scripts without spaces are taken in pairs of characters.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_COMMON_WORDS = """
a about above after again all also always am an and any are as ask at back be because been before
being below between both but by can cannot come could day did do does doing done down each else
even every everything few first for from further get give go going good got had has have having he
her here hers him his how i if in into is it its itself just keep know last later left less let
lets like little long look made make many may maybe me mean might more most much must my need
never new next no nor not nothing now of off ok okay old on once one only or other our out over
own part people please put quite rather really right said same say see seem shall she should since
so some something soon still such sure take tell than thank thanks that the their them then there
these they thing things think this those though through time to today together tomorrow too two
under until up upon us use used uses using very via want was way we well went were what when where
whether which while who whole whom whose why will with within without would yes yet you your yours
instead actually anymore longer switch change changed changing replace replaced update updated
move moved remember note decide decided decision todo finished fixed closed merged cancel
cancelled drop forget settled everyone anyone someone don doesn didn won isn aren wasn weren
couldn shouldn wouldn ll ve re
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_TOKEN = re.compile(r"[^\s,;()<>\[\]{}\"“”‘’`|=]+")
_WORD = re.compile(r"[^\W\d_]+")
_QUOTED = re.compile(r"[`\"“]([^`\"“”\n]{1,60})[`\"”]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
_INNER = re.compile(r"\w[./@:_\\-]\w|[a-z][A-Z]")


class Terms(NamedTuple):
    """What a statement is about, and what it says."""

    words: frozenset[str]
    values: frozenset[str]


@lru_cache(maxsize=4096)
def terms(text: str) -> Terms:
    """The words and the values of a short text."""
    values = set()
    words: set[str] = set()
    begins = True
    for token in _TOKEN.findall(text):
        bare = token.strip(".:!?…'*_")
        if is_value(bare, begins):
            values.add(bare.lower())
        else:
            words.update(map(stem, _WORD.findall(bare.lower())))
        begins = token[-1] in ".:!?…"
    for quoted in _QUOTED.findall(text):
        values.update(part.lower() for part in quoted.split()[:4])
    for run in _UNSPACED.findall(text):
        words.update(run[i : i + 2] for i in range(len(run) - 1))
    words = {word for word in words if len(word) > 2 or not word.isascii()}
    return Terms(frozenset(words - _COMMON - values), frozenset(values))


def is_value(token: str, begins_sentence: bool = False) -> bool:
    """Whether a token names or counts something: a number, a path, a name, an identifier."""
    if not token or len(token) > 120:
        return False
    if any(c.isdigit() for c in token) or (len(token) > 2 and _INNER.search(token)):
        return True
    if len(token) > 1 and token.isupper() and token.isascii():
        return True
    return token[0].isupper() and not begins_sentence and len(token) > 2


def strength(value: str) -> float:
    """How much a value says by itself: a name or a small number little, an identifier a lot."""
    if value.isdigit():
        return 0.4 if len(value) < 3 else 1.0
    return 0.6 if value.isalpha() else 1.0


def stem(word: str) -> str:
    """A word without its commonest English endings, so that task, tasks and tasked are one."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def overlap(first: frozenset[str], other: frozenset[str]) -> float:
    """Which share of the smaller set the two have in common."""
    smaller = min(len(first), len(other))
    return len(first & other) / smaller if smaller else 0.0


def touches(text: str, focus: str | None) -> bool:
    """Whether a text speaks of a topic."""
    if not focus:
        return False
    wanted, about = terms(focus), terms(text)
    return bool((wanted.words | wanted.values) & (about.words | about.values))
