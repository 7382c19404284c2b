"""A stand-in for a summarising model: it reads the prompt as a hurried clerk would.

It knows nothing of what was planted. It has read another conversation before, so that it knows the
usual words, and reports sentences with a word that it never met. It rewrites an entry that speaks
of the same matter, takes out an open point when it is told of as settled, and overlooks a seeded
share of everything it could have reported. A real model understands more, and overlooks other
things.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import NamedTuple

from .recall_talk import Talk

OVERLOOKED = 0.18
"""The share of what it could report that it does not."""
LONGEST = 24
"""Words of an entry."""

_MESSAGE = re.compile(r"^\[#(\d+) (user|assistant)\] ", re.MULTILINE)
_NEXT = re.compile(r"^\[#\d+ ", re.MULTILINE)
_ENTRY = re.compile(r"^([GDOFP]\d+) (.*?)(?: \[[#\d ]+\])?$", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])\s+")
_SMALL_WORDS = """
the a an and or but of to in on at for with by from is are was were be been it its that this these
those i you he she we they my your our their me him her us them as so if then than
"""
_SMALL = frozenset(_SMALL_WORDS.split())
_SMALL_NUMBER = re.compile(r"\d{1,2}").fullmatch
_OVER = (
    "taken care",
    "strike",
    "no need",
    "good news",
    "went ahead",
    "will not",
    "done",
    "settled",
)
_AHEAD = ("need to", "have to", "has to", "forget to", "todo", "promised", "could you", "list:",
          "one of us", "nobody has")  # fmt: skip


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
        self._known: set[str] = set()
        """Words it has met: a sentence of nothing else is small talk."""
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
            same = _same_matter(one.text, entries)
            if same and same[0] == "O" and any(sign in one.text.lower() for sign in _OVER):
                removed.append(same)
                continue
            kind = "open" if any(s in one.text.lower() for s in _AHEAD) else "fact"
            if kind == "fact" and one.user:
                kind = "decision"
            entry = {"kind": kind, "text": _brief(one.text), "messages": [one.row]}
            if same and same[0] in "DF":
                replaced[same] = {"id": same, **entry}
            else:
                earlier = _same_matter(
                    one.text, {str(n): str(a["text"]) for n, a in enumerate(add)}
                )
                if earlier is not None and kind != "open":
                    add[int(earlier)] = entry
                else:
                    add.append(entry)
        self._known.update(word for one in heard for word in _words(one.text))
        return json.dumps({"add": add, "replace": list(replaced.values()), "remove": removed})

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


def _same_matter(text: str, entries: dict[str, str]) -> str | None:
    """The entry that shares the most telling words with a sentence, if it shares enough."""
    words = {w for w in _words(text) if w not in _SMALL and len(w) > 2}
    best, score = None, 0.0
    for key, entry in entries.items():
        other = {w for w in _words(entry) if w not in _SMALL and len(w) > 2}
        shared = words & other
        close = len(shared) / max(1, min(len(words), len(other)))
        if len(shared) >= 2 and close >= 0.4 and close > score:
            best, score = key, close
    return best


def _brief(text: str) -> str:
    return " ".join(text.split()[:LONGEST])
