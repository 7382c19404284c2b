"""Text that is only partly known.

What a shell would make of a command is followed with ordinary strings in which marks stand for what
cannot be known beforehand. Marks are noncharacters of Unicode, which no command may contain, so a
string without marks is exactly what the shell would see.
"""

from __future__ import annotations

import re

UNKNOWN = "\ufdd0"
"""Anything, also nothing."""
OBSCURE = "\ufdd1"
"""What a decoder made of text in the command: somebody hid it."""
CONTENT = "\ufdd2"
"""What is in a file."""
STAR = "\ufdd3"
"""An active `*`."""
ONE = "\ufdd4"
"""An active `?`."""
BETWEEN = "\ufdd5"
"""Separates the fields of an array or of `$@`; an array's value starts with it."""
OPEN, CLOSE = "\ufdd6", "\ufdd7"
"""An active `[` and the `]` that closes it."""

PARENT = "@parent"
"""Stands for the number of the process that started the shell, which is the agent."""

_ANY = re.compile("[\ufdd0-\ufdef]")
_UNKNOWN = re.compile(f"[{UNKNOWN}{OBSCURE}{CONTENT}]")
_GLOB = re.compile(f"[{STAR}{ONE}{OPEN}]")
_BRACKETS = re.compile(f"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}")
_READABLE = str.maketrans(
    {UNKNOWN: "…", OBSCURE: "…", CONTENT: "…", STAR: "*", ONE: "?", BETWEEN: " "}
    | {OPEN: "[", CLOSE: "]"}
)
_LITERAL = str.maketrans({STAR: "*", ONE: "?", OPEN: "[", CLOSE: "]"})


def without_marks(text: str) -> str:
    """A command as it came, with characters that would be taken for marks made visible."""
    return _ANY.sub("\ufffd", text)


def has_marks(text: str) -> bool:
    """Whether anything about the text is not known exactly."""
    return _ANY.search(text) is not None


def has_unknown(text: str) -> bool:
    """Whether a part of the text could be anything."""
    return _UNKNOWN.search(text) is not None


def without_unknown(text: str) -> str:
    """The parts of the text that are known."""
    return _UNKNOWN.sub("", text)


def has_glob(text: str) -> bool:
    """Whether the shell would replace the text by names of files."""
    return _GLOB.search(text) is not None


def readable(text: str) -> str:
    """The text for people: `…` for what is not known."""
    return text.translate(_READABLE)


def as_literal(text: str) -> str:
    """The text as a program sees it when no file matches: globs as they were written."""
    return text.translate(_LITERAL) if _GLOB.search(text) else text


def simplified(text: str) -> str:
    """The text with every bracket expression as a mark for one character."""
    return _BRACKETS.sub(ONE, text) if OPEN in text else text


def could_match(pattern: str, name: str, *, hides_dots: bool = True) -> bool:
    """Whether a pattern with marks could stand for `name` (one component of a path).

    As in shells, a wildcard does not stand for a leading dot; something unknown does.
    """
    if hides_dots and name.startswith(".") and pattern[:1] in (STAR, ONE):
        return False
    literals = len(pattern) - len(_ANY.findall(pattern))
    if literals > len(name):
        return False
    position = index = 0
    star = mark = -1
    while index < len(name):
        char = pattern[position] if position < len(pattern) else ""
        if char == ONE or (char and char == name[index]):
            position += 1
            index += 1
        elif char == STAR or (char and _UNKNOWN.match(char)):
            star, mark = position, index
            position += 1
        elif star >= 0:
            mark += 1
            position, index = star + 1, mark
        else:
            return False
    return all(char != ONE and _ANY.match(char) for char in pattern[position:])
