"""What the words of a command become: braces, tildes, variables, substitutions, splitting, globs.

The result is every list of fields that the command could get, with marks for what is not known. If
there are too many, a word becomes "anything" rather than being left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from .braces import expand_braces
from .budget import Budget
from .marks import BETWEEN, CLOSE, ONE, OPEN, STAR, UNKNOWN, has_marks
from .operators import operate
from .state import State, Values, elements_of, values_of
from .syntax import (
    Ansi,
    Arithmetic,
    Choice,
    Output,
    Part,
    Process,
    Script,
    Text,
    Variable,
    Word,
)

MOST_ALTERNATIVES = 12

_TILDE = re.compile(r"((?:[A-Za-z_][A-Za-z0-9_-]*\+?=|--[a-z-]+=)?)~([A-Za-z0-9_.+-]*)(?=/|\Z)")
_ACTIVE = str.maketrans({"*": STAR, "?": ONE, "[": OPEN, "]": CLOSE})
_BRACKET = re.compile(f"[{OPEN}{CLOSE}/]")
_PATTERN_SIGN = re.compile(r"[/*?\[\\#%]")
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_IN_PARTS = re.compile(r"[\s*?\[]")
_NAMED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_HAS_ACTIVE = re.compile(r"[*?\[\]]")


class Shell(Protocol):
    """What expansion needs from the walker that follows the command."""

    state: State
    budget: Budget
    user_home: str
    is_plain_sh: bool
    """Whether the commands are read by a shell that knows nothing but the standard."""

    def output(self, script: Script) -> str:
        """What a script prints."""
        ...

    def pipe(self, part: Process) -> str:
        """The path of a pipe to a script."""
        ...

    def evaluate(self, word: Word) -> None:
        """Follow what an arithmetic expression runs."""
        ...

    def doubted(self, work: Callable[[], str]) -> str:
        """Follow something without reporting what is unclear in it."""
        ...

    def report(self, key: str, description: str, hard: bool = False) -> None:
        """Note a danger."""
        ...


class Piece(NamedTuple):
    """A part of a word with one of its values."""

    text: str
    quoted: bool
    splits: bool


def expand(shell: Shell, words: tuple[Word, ...]) -> list[list[str]]:
    """Every list of fields that the words could become."""
    results: list[list[str]] = [[]]
    declares = bool(words) and _plain_text(words[0]) in _DECLARING
    for word in words:
        options = _readings(shell, word)
        if declares and isinstance(word[0], Text) and _NAMED.match(word[0].text):
            # Some shells split what is assigned here, some do not.
            options += [[text] for text in expand_text(shell, word)]
        results = _combined(results, options)
    return results


def _plain_text(word: Word) -> str:
    return "".join(part.text for part in word if isinstance(part, Text))


def _combined(results: list[list[str]], options: list[list[str]]) -> list[list[str]]:
    if len(options) == 1:
        for result in results:
            result += options[0]
        return results
    if len(results) * len(options) > MOST_ALTERNATIVES:
        for result in results:
            result.append(UNKNOWN)
        return results
    return [result + option for result in results for option in options]


def _readings(shell: Shell, word: Word) -> list[list[str]]:
    """Every list of fields that one word could become."""
    singles = expand_braces(word)
    if len(singles) == 1:
        return _fields(shell, singles[0])
    readings: list[list[str]] = [[]]
    for single in singles:
        readings = _combined(readings, _fields(shell, single))
    return readings + _fields(shell, word) if shell.is_plain_sh else readings


def expand_text(shell: Shell, word: Word) -> Values:
    """Every text that a word could become where it is not split (an assignment, a redirection)."""
    return values_of(
        "".join(_joined(piece.text) for piece in pieces) for pieces in _alternatives(shell, word)
    )


def expand_target(shell: Shell, word: Word) -> Values:
    """Like `expand_text`, for a file name: globs are active."""
    names = set()
    for pieces in _alternatives(shell, word):
        texts = [(_joined(piece.text), piece.quoted) for piece in pieces]
        names.add(
            _collapsed("".join(text if quoted else _activated(text) for text, quoted in texts))
        )
    return values_of(names)


def _joined(text: str) -> str:
    return " ".join(elements_of(text)) if BETWEEN in text else text


def _fields(shell: Shell, word: Word) -> list[list[str]]:
    if len(word) == 1 and isinstance(word[0], Text) and word[0].quoted:
        return [[word[0].text]]
    readings: list[list[str]] = []
    for pieces in _alternatives(shell, word):
        fields = _split(shell, pieces)
        if fields not in readings:
            readings.append(fields)
    return readings


def _alternatives(shell: Shell, word: Word) -> list[tuple[Piece, ...]]:
    choices: list[list[Piece]] = []
    count = 1
    for index, part in enumerate(word):
        pieces = _pieces(shell, part, is_first=index == 0, is_last=index == len(word) - 1)
        if count * len(pieces) > MOST_ALTERNATIVES:
            pieces = [Piece(UNKNOWN, quoted=True, splits=False)]
        count *= len(pieces)
        choices.append(pieces)
    return (
        list(itertools.product(*choices)) if count > 1 else [tuple(choice[0] for choice in choices)]
    )


def _pieces(shell: Shell, part: Part, is_first: bool, is_last: bool) -> list[Piece]:
    if isinstance(part, Text):
        text = part.text
        shell.budget.spend(len(text) // 16)
        if is_first and not part.quoted and "~" in text:
            match = _TILDE.match(text)
            is_whole = match is not None and (match.end() < len(text) or is_last)
            homes = _homes(shell, match[2]) if match and is_whole else []
            if match and homes:
                rest = text[match.end() :]
                return [Piece(match[1] + home + rest, False, splits=False) for home in homes]
        return [Piece(text, part.quoted, splits=False)]
    if isinstance(part, Ansi):
        texts = [part.text, part.otherwise] if shell.is_plain_sh else [part.text]
        return [Piece(text, quoted=True, splits=False) for text in texts]
    if isinstance(part, Variable):
        held = variable(shell, part)
        shell.budget.spend(sum(len(text) for text in held) // 16)
        pieces = [Piece(text, part.quoted, splits=not part.quoted) for text in sorted(held)]
        if part.operand and not part.quoted:
            # What is quoted within the braces is not split.
            pieces += [Piece(text, True, False) for text in sorted(held) if _IN_PARTS.search(text)]
        return pieces
    if isinstance(part, Output):
        text = shell.output(part.script).rstrip("\n")
        return [Piece(text.replace("\0", ""), part.quoted, splits=not part.quoted)]
    if isinstance(part, Process):
        if not part.script.items:
            return [Piece("", quoted=False, splits=False)]
        return [Piece(shell.pipe(part), quoted=True, splits=False)]
    if isinstance(part, Arithmetic):
        shell.evaluate(part.word)
        shell.doubted(lambda: shell.output(part.script))
        return [Piece(UNKNOWN, quoted=True, splits=False)]
    assert isinstance(part, Choice)
    expand(shell, (part.parts,))
    return [Piece(STAR, quoted=True, splits=False)]


def _homes(shell: Shell, user: str) -> list[str]:
    """What a tilde and a name could stand for; the name of nobody stands for itself."""
    if not user:
        return [shell.user_home]
    if user == "+":
        return sorted(shell.state.directories)
    if user == "-" or user.isdigit():
        return [UNKNOWN]
    return ["/root"] if user == "root" else [f"/home/{user}", f"~{user}"]


def _activated(text: str) -> str:
    return text.translate(_ACTIVE) if _HAS_ACTIVE.search(text) else text


def _collapsed(text: str) -> str:
    """A field in which only brackets that have found each other are active."""
    if OPEN not in text and CLOSE not in text:
        return text
    kept: list[int] = []
    opened = -1
    for match in _BRACKET.finditer(text):
        if match[0] == OPEN:
            opened = match.start()
        elif match[0] == CLOSE and opened >= 0 and match.start() > opened + 1:
            kept += [opened, match.start()]
            opened = -1
        else:  # a slash ends the search for the closing bracket
            opened = -1
    literal = text.replace(OPEN, "[").replace(CLOSE, "]")
    pieces = []
    position = 0
    for index in kept:
        pieces += [literal[position:index], text[index]]
        position = index + 1
    return "".join([*pieces, literal[position:]])


def _split(shell: Shell, pieces: tuple[Piece, ...]) -> list[str]:
    fields: list[str] = []
    current: list[str] | None = None
    separators = None
    for piece in pieces:
        text = piece.text if piece.quoted else _activated(piece.text)
        if not piece.splits and BETWEEN not in text:
            if text or piece.quoted:
                current = _add(current, text)
            continue
        if separators is None:
            separators = _separators(shell)
        if text == BETWEEN:
            continue  # an array without elements
        text = text.removeprefix(BETWEEN)
        chunks = separators.split(text) if piece.splits else text.split(BETWEEN)
        for index, chunk in enumerate(chunks):
            if index and current is not None:
                fields.append("".join(current))
                current = None
            if chunk or not piece.splits:
                current = _add(current, chunk)
    if current is not None:
        fields.append("".join(current))
    return [_collapsed(field) for field in fields]


def _add(current: list[str] | None, text: str) -> list[str]:
    if current is None:
        return [text]
    current.append(text)
    return current


def _separators(shell: Shell) -> re.Pattern[str]:
    """What unquoted values are split at; if IFS is not known, at whatever could be meant."""
    signs = " \t\n"
    if "IFS" in shell.state.variables:
        values = shell.state.variables["IFS"]
        given = "".join(values)
        signs = given if len(values) == 1 and not has_marks(given) else signs + given + ",:;|_-+.@%"
    return re.compile(f"[{re.escape(signs + BETWEEN)}]+")


def variable(shell: Shell, part: Variable) -> Values:
    """Every value of an expansion; arrays only where all of their elements are meant."""
    state = shell.state
    subscripts = expand_text(shell, part.subscript) if part.subscript is not None else None
    is_whole = part.name in ("@", "*") or (subscripts is not None and subscripts <= {"@", "*"})
    if part.name in ("#", "?", "$", "!", "-", "_") and not part.operator:
        return frozenset({UNKNOWN})
    values: set[str] = set()
    if subscripts is not None and not is_whole:
        for subscript in subscripts:
            values |= _element(state, part.name, subscript)
    else:
        for value in state.lookup(part.name):
            elements = elements_of(value)
            if not is_whole:
                values.add(elements[0] if elements else "")
            elif part.name == "*" or subscripts == {"*"}:
                values.add(" ".join(elements) if part.quoted else value)
            else:
                values.add(value)
    if not part.operator:
        return values_of(values)
    operands = expand_text(shell, part.operand) if part.operand else frozenset({""})
    if part.operator[0] in "#%/^,~" and not _is_plain(part.operand):
        operands = frozenset({UNKNOWN})
    if part.operator.endswith(("@P", "@E")):
        shell.report("unclear", f"The expansion ${{{part.name}{part.operator}}} may run something")
    result = operate(state, part.operator, values_of(values), operands)
    if part.operator in (":=", "="):
        state.assign(part.name, result)
    return result


def _is_plain(operand: Word) -> bool:
    """Whether an operand is the pattern that its text looks like."""
    return all(
        isinstance(part, Text) and not (part.quoted and _PATTERN_SIGN.search(part.text))
        for part in operand
    )


def _element(state: State, name: str, subscript: str) -> Values:
    known = state.variables.get(f"{name}[{subscript}]")
    if known is not None:
        return known
    elements_at = set()
    for value in state.lookup(name):
        elements = elements_of(value)
        if subscript.isdigit() and not has_marks(value.replace(BETWEEN, "")):
            index = int(subscript)
            elements_at.add(elements[index] if index < len(elements) else "")
        else:
            elements_at.add(UNKNOWN)
    return frozenset(elements_at)
