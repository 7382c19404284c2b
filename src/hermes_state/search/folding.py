"""How text becomes words that can be searched.

`fold` maps text to its words, separated by spaces: case, accents, width and compatibility forms are
levelled, punctuation separates. Scripts written without spaces (Chinese, Japanese, Korean, Thai, …)
give one word per character, so that any run of them is found as a phrase. Text and queries pass
through the same function; whatever it does, they agree.

Invariant: the words contain nothing but letters, digits, marks and pictograms, so they can be put
between quotes in a full-text expression without escaping.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MAX_WORD = 64
"""Words are cut to this length, in text and query alike; it still holds a SHA-256 in hex."""

_ASCII = str.maketrans(
    {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}
)
_NOT_ASCII = re.compile("([^\x00-\x7f]+)")
_ASCII_WORD = re.compile("[A-Za-z0-9]+")

# Combining marks that searching ignores: Latin, Greek and Cyrillic accents, Hebrew points, Arabic
# vowel signs. Marks of other scripts carry vowels and stay.
_IGNORED_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\ufe00-\ufe0f]"
)

_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # Han radicals
    (0x3005, 0x3007),
    (0x3021, 0x318F),  # kana, Bopomofo, Hangul
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAA7F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0x1AFF0, 0x1B16F),
    (0x20000, 0x3FFFF),
)
_PICTOGRAMS = ((0x2600, 0x27BF), (0x2B50, 0x2B55), (0x1F000, 0x1FAFF))


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _fold_character(character: str) -> str:
    base = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    folded = []
    for part in unicodedata.normalize("NFC", _IGNORED_MARKS.sub("", base)):
        code, category = ord(part), unicodedata.category(part)
        if code < 128:
            folded.append(part.translate(_ASCII))
        elif category[0] in "LMN":
            folded.append(f" {part} " if _within(code, _UNSPACED) else part)
        elif _within(code, _PICTOGRAMS):
            folded.append(f" {part} ")
        elif category == "Cf" and code != 0x200B:  # joiners and hyphenation hints, within words
            continue
        else:
            folded.append(" ")
    return "".join(folded)


class _FoldTable(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_character(chr(code))
        return folded


_FOLDED = _FoldTable()


def fold(text: str) -> str:
    """The words of `text` in their searchable form, separated by one or more spaces."""
    if text.isascii():
        return text.translate(_ASCII)
    pieces = _NOT_ASCII.split(text)
    for index, piece in enumerate(pieces):
        if index % 2:
            pieces[index] = unicodedata.normalize("NFKC", piece).translate(_FOLDED)
        else:
            pieces[index] = piece.translate(_ASCII)
    return "".join(pieces)


def words(text: str) -> list[str]:
    """The words of `text` in order, as they are indexed and searched."""
    return folded_words(fold(text))


def folded_words(folded: str) -> list[str]:
    """The words of a text that was folded."""
    words = folded.split()
    if len(folded) > MAX_WORD and max(map(len, words), default=0) > MAX_WORD:
        return [word[:MAX_WORD] for word in words]
    return words


def is_unspaced(word: str) -> bool:
    """Whether `word` is one character of a script without spaces (or a pictogram)."""
    return len(word) == 1 and _FOLDED[ord(word)] == f" {word} "


def place_in_ascii(folded: str, number: int) -> tuple[int, int]:
    """Where a word of an ASCII text begins and ends; folding leaves each of them in its place."""
    start = len(folded) - len(folded.split(None, number)[number])
    end = folded.find(" ", start)
    return start, end if end >= 0 else len(folded)


def places_in_ascii(text: str) -> list[tuple[int, int]]:
    """Where each word of an ASCII text begins and ends."""
    return [match.span() for match in _ASCII_WORD.finditer(text)]


def located_words(text: str) -> Iterator[tuple[str, int, int]]:
    """Each word of `text` with the place it stands at: (word, start, end).

    For the short pieces that are shown to a person; slower than `words`.
    """
    if text.isascii():
        for match in _ASCII_WORD.finditer(text):
            yield match.group().lower()[:MAX_WORD], match.start(), match.end()
        return
    word, start, end = "", 0, 0
    for place, character in enumerate(text):
        code = ord(character)
        for part in character.translate(_ASCII) if code < 128 else _FOLDED[code]:
            if part != " ":
                if not word:
                    start = place
                word += part
                end = place + 1
            elif word:
                yield word[:MAX_WORD], start, end
                word = ""
    if word:
        yield word[:MAX_WORD], start, end
