"""A model for tests: words that mean the same point the same way."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from hermes_state import EmbedderError

WIDTH = 96
MEANS = {
    word: meaning
    for meaning, words in {
        "present": "present gift mixer ordered birthday",
        "roof": "roof tiles attic leak rain",
        "health": "doctor tablets pills medicine illness",
        "music": "piano violin concert orchestra",
    }.items()
    for word in words.split()
}


def direction(text: str) -> list[float]:
    """Numbers around 0 that belong to a text."""
    digest = b"".join(hashlib.blake2b(f"{n}{text}".encode()).digest() for n in range(2))
    return [byte / 127.5 - 1.0 for byte in digest[:WIDTH]]


class Concepts:
    """Words without a meaning in the table mean themselves, and little."""

    is_quick = True

    def __init__(self, name: str = "concepts") -> None:
        self.name = name
        self.asked: list[str] = []
        self.is_broken = False

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        if self.is_broken:
            raise EmbedderError("the server is away")
        self.asked += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        total = [0.0] * WIDTH
        for word in re.findall(r"\w+", text.lower()):
            meaning = MEANS.get(word)
            for place, number in enumerate(direction(meaning or word)):
                total[place] += number * (3.0 if meaning else 0.3)
        return total
