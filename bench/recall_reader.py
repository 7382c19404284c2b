"""A stand-in for a summarising model: it reads the prompt as a hurried clerk would.

It is not told what was planted. It has read another made-up conversation before, from the same
generator, so that it knows the usual words, small talk above all; it reports sentences with a word
that it never met. That suits these conversations, in which every planted value is a word of its
own, better than it would suit real ones. It rewrites an entry that shares rare words, takes out an
open point when the plainest words say that it is over, and overlooks a seeded share of everything
it could have reported. A real model understands more, and overlooks other things.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from typing import NamedTuple

from .recall_talk import Talk

OVERLOOKED = 0.18
"""The share of what it could report that it does not."""
_USUAL = 12
"""A word met so often says nothing of what a sentence is about."""
LONGEST = 24
"""Words of an entry."""

_MESSAGE = re.compile(r"^\[#(\d+) (user|assistant)\] ", re.MULTILINE)
_NEXT = re.compile(r"^\[#\d+ ", re.MULTILINE)
_ENTRY = re.compile(r"^([GDOFP]\d+) (.*?)(?: \[[#\d ]+\])?$", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])\s+")
_SMALL_NUMBER = re.compile(r"\d{1,2}").fullmatch
_OVER = ("done", "finished", "completed", "no longer", "not needed", "already", "cancelled")
_AHEAD = ("todo", "to do", "need to", "have to", "must", "should", "don't forget", "remind me")
"""The plainest words for what is over and what is ahead, whatever the conversations say."""


class Heard(NamedTuple):
    """A sentence, and who said it where."""

    row: int
    user: bool
    text: str


def clerk(seed: int, overlooked: float = OVERLOOKED) -> _Clerk:
    """A stand-in that overlooks the same things whenever it reads the same prompt."""
    return _Clerk(seed, overlooked)


class _Clerk:
    def __init__(self, seed: int, overlooked: float) -> None:
        self._seed = seed
        self._overlooked = overlooked
        self._known: Counter[str] = Counter()
        """How often it has met a word: a sentence of known words only is small talk."""
        for stage in Talk(1000 + seed).stages(3):
            for message in stage.messages:
                self._known.update(_words(message["content"]))

    async def __call__(self, system: str, prompt: str) -> str:
        record, _, told = prompt.partition("\nThe messages since:\n")
        told = told.partition("(end of the messages)")[0]
        entries = dict(_ENTRY.findall(record))
        heard = _heard(told)
        add: list[dict[str, object]] = []
        replaced: dict[str, dict[str, object]] = {}
        removed: list[str] = []
        for one in heard:
            new = [w for w in _words(one.text) if w not in self._known and not _SMALL_NUMBER(w)]
            if not new or one.text.endswith("?") or self._overlooks(one.text):
                continue
            same = self._same_matter(one.text, entries)
            if same and same[0] == "O" and any(sign in one.text.lower() for sign in _OVER):
                removed.append(same)
                continue
            kind = "open" if any(s in one.text.lower() for s in _AHEAD) else "fact"
            if kind == "fact" and one.user:
                kind = "decision"
            entry: dict[str, object] = {
                "kind": kind,
                "text": _brief(one.text),
                "messages": [one.row],
            }
            if same and same[0] in "DF":
                replaced[same] = {"id": same, **entry}
            else:
                earlier = self._same_matter(
                    one.text, {str(n): str(a["text"]) for n, a in enumerate(add)}
                )
                if earlier is not None and kind != "open":
                    add[int(earlier)] = entry
                else:
                    add.append(entry)
        self._known.update(word for one in heard for word in _words(one.text))
        return json.dumps({"add": add, "replace": list(replaced.values()), "remove": removed})

    def _same_matter(self, text: str, entries: dict[str, str]) -> str | None:
        """The entry that shares the most telling words with a sentence, if it shares enough."""
        words = self._telling(text)
        best, score = None, 0.39
        for key, entry in entries.items():
            other = self._telling(entry)
            close = len(words & other) / max(1, min(len(words), len(other)))
            if close > score:
                best, score = key, close
        return best

    def _telling(self, text: str) -> set[str]:
        return {w for w in _words(text) if len(w) > 2 and self._known[w] < _USUAL}

    def _overlooks(self, text: str) -> bool:
        return zlib.crc32(f"{self._seed} {text}".encode()) % 1000 < self._overlooked * 1000


def _heard(told: str) -> list[Heard]:
    found = []
    for match in _MESSAGE.finditer(told):
        following = _NEXT.search(told, match.end())
        text = told[match.end() : following.start() if following else len(told)]
        found += [
            Heard(int(match[1]), match[2] == "user", sentence.strip())
            for sentence in _END.split(text.strip())
            if sentence.strip() and not sentence.startswith("[")
        ]
    return found


def _words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[\w@./'-]*\w", text)]


def _brief(text: str) -> str:
    return " ".join(text.split()[:LONGEST])
