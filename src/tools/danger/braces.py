"""Brace expansion: `{rm,-rf}` and `{1..3}` within a word."""

from __future__ import annotations

import itertools
import re
from typing import TypeAlias

from .marks import OBSCURE, STAR, UNKNOWN
from .syntax import Part, Text, Variable, Word

MOST_WORDS = 64
_DEEPEST = 8
_LONGEST_SEQUENCE = 12

_NAME_SIGN = re.compile(r"[A-Za-z0-9_]")
_DOLLAR = re.compile(r"\$(?:.|\Z)", re.DOTALL)
_SIGN = re.compile(r"[{},]")
_SEQUENCE = re.compile(r"(-?[0-9]{1,9}|[A-Za-z])\.\.(-?[0-9]{1,9}|[A-Za-z])(?:\.\.-?[0-9]{1,9})?")

_Atom: TypeAlias = "str | Part"
"""A brace or a comma that may mean something, or a part of the word."""


def expand_braces(word: Word) -> list[Word]:
    """The words that a word with braces stands for; something unknown if they are too many."""
    if not any(isinstance(part, Text) and not part.quoted and "{" in part.text for part in word):
        return [word]
    atoms: list[_Atom] = []
    for part in word:
        if isinstance(part, Text) and not part.quoted:
            position = 0
            for sign in _SIGN.finditer(part.text):
                if sign.start() > position:
                    atoms.append(Text(part.text[position : sign.start()]))
                atoms.append(sign[0])
                position = sign.end()
            if position < len(part.text):
                atoms.append(Text(part.text[position:]))
        else:
            atoms.append(part)
    partners, is_deep = _partners(atoms)
    if is_deep:
        return [(Text(UNKNOWN),)]
    readings = _expand(atoms, 0, len(atoms), partners)
    if readings is None:
        return [(Text(UNKNOWN),)]
    words = [tuple(_parts(word)) for word in readings]
    return [(Text(OBSCURE),)] if any(map(_makes_variables, words)) else words


def _makes_variables(word: Word) -> bool:
    """Whether braces have put the name of a variable together: `$i{a,b}` is `$ia $ib`."""
    for part, following in itertools.pairwise(word):
        is_name = isinstance(following, Text) and _NAME_SIGN.match(following.text)
        if is_name and isinstance(part, Variable) and not part.is_braced and not part.quoted:
            return True
    return any(
        isinstance(part, Text) and not part.quoted and _DOLLAR.search(part.text) for part in word
    )


def _partners(atoms: list[_Atom]) -> tuple[dict[int, int], bool]:
    """Which brace closes which, and whether they are nested deeper than is followed."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    deepest = 0
    for index, atom in enumerate(atoms):
        if atom == "{":
            opened.append(index)
        elif atom == "}" and opened:
            deepest = max(deepest, len(opened))
            partners[opened.pop()] = index
    return partners, deepest > _DEEPEST


def _parts(atoms: list[_Atom]) -> list[Part]:
    """The parts of a word, with neighbouring plain text in one piece."""
    parts: list[Part] = []
    plain: list[str] = []
    for atom in atoms:
        text = atom if isinstance(atom, str) else None
        if isinstance(atom, Text) and not atom.quoted:
            text = atom.text
        if text is not None:
            plain.append(text)
            continue
        if plain:
            parts.append(Text("".join(plain)))
            plain = []
        assert not isinstance(atom, str)
        parts.append(atom)
    if plain:
        parts.append(Text("".join(plain)))
    return parts


def _expand(
    atoms: list[_Atom], start: int, end: int, partners: dict[int, int]
) -> list[list[_Atom]] | None:
    """Every reading of atoms[start:end], or None if there are too many."""
    readings: list[list[_Atom]] = [[]]
    index = start
    while index < end:
        choices: list[list[_Atom]] | None = [[atoms[index]]]
        following = index + 1
        close = partners.get(index) if atoms[index] == "{" else None
        if close is not None and close < end:
            inside = _inside(atoms, index, close, partners)
            if inside is None:
                return None
            if inside:
                choices, following = inside, close + 1
        if choices is None or len(readings) * len(choices) > MOST_WORDS:
            return None
        if len(choices) == 1:
            for word in readings:
                word += choices[0]
        else:
            readings = [word + choice for word in readings for choice in choices]
        index = following
    return readings


def _inside(
    atoms: list[_Atom], opening: int, closing: int, partners: dict[int, int]
) -> list[list[_Atom]] | None:
    """What a pair of braces stands for; empty if it stands for itself."""
    commas = []
    index = opening + 1
    while index < closing:
        if atoms[index] == ",":
            commas.append(index)
        index = partners.get(index, index) + 1 if atoms[index] == "{" else index + 1
    if commas:
        readings: list[list[_Atom]] = []
        edges = [opening, *commas, closing]
        for left, right in itertools.pairwise(edges):
            choices = _expand(atoms, left + 1, right, partners)
            if choices is None or len(readings) + len(choices) > MOST_WORDS:
                return None
            readings += choices
        return readings
    only = atoms[opening + 1] if closing == opening + 2 else None
    match = _SEQUENCE.fullmatch(only.text) if isinstance(only, Text) and not only.quoted else None
    return [[Text(value)] for value in _sequence(match)] if match else []


def _sequence(match: re.Match[str]) -> list[str]:
    first, last = match[1], match[2]
    if first.isalpha() != last.isalpha():
        return [match[0]]
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    if abs(high - low) > (60 if first.isalpha() else _LONGEST_SEQUENCE):
        return [STAR]
    step = 1 if high >= low else -1
    numbers = range(low, high + step, step)
    return [chr(number) if first.isalpha() else str(number) for number in numbers]
