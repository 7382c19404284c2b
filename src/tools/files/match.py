"""Finding the passage a model means, although it may not have written it exactly.

Tried in this order, and the first way that finds anything counts: as it is; with other line ends;
with other white space at the ends of lines; with another indentation; with typographic quotes,
dashes and spaces taken for plain ones. Whatever the old and the new text have in common is left as
the file has it, so that tolerance never rewrites what was not to be changed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, permutations

from ..base import ToolError
from .encoding import newline_of, split_lines
from .seen import MASK

_ALIGNED = 2_000_000
"""Texts whose lengths multiply to more are not aligned with each other: it would take too long."""
_LINES_COMPARED = 20_000
_SHOWN = 12
_UNITS = ("\t", "    ", "  ", "        ", "   ")

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′‹›", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u205f\u3000", " "),
    }
)

_NUMBERED = re.compile(r"\s*\d+\|")

Reindent = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a text that is to be replaced, and by what."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A text after replacing, and where that was done."""

    text: str
    count: int
    lines: list[int]
    """The lines of the first places."""
    how: str
    """What was overlooked to find the passage; empty if it was there as written."""


def replace(text: str, old: str, new: str, *, everywhere: bool = False) -> Replaced:
    """Replace the passage `old`; ToolError if it is not there, or there more than once."""
    if not old:
        raise ToolError("old_string is empty. Give the passage to replace, or use write_file.")
    if old == new:
        raise ToolError("old_string and new_string are the same; there is nothing to change.")
    for how, places in _ways(text, old, new):
        if not places:
            continue
        lines = [text.count("\n", 0, place.start) + 1 for place in places[:20]]
        if len(places) > 1 and not everywhere:
            numbers = ", ".join(map(str, lines)) + (", …" if len(places) > len(lines) else "")
            raise ToolError(
                f"old_string is there {len(places)} times, at lines {numbers}. Add lines around it "
                "until it is unique, or set replace_all to replace every one."
            )
        return Replaced(_put_in(text, places), len(places), lines, how)
    raise not_found(text, old, new)


def _put_in(text: str, places: list[Place]) -> str:
    parts, at = [], 0
    for place in places:
        parts += [text[at : place.start], place.text]
        at = place.end
    return "".join([*parts, text[at:]])


def _ways(text: str, old: str, new: str) -> Iterator[tuple[str, list[Place]]]:
    yield "", _occurrences(text, old, lambda start, end: new)
    crlf = "\r\n" in text
    ends = (lambda s: s.replace("\n", "\r\n")) if crlf else (lambda s: s)
    plain_old, plain_new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    yield "line ends", _occurrences(text, ends(plain_old), lambda start, end: ends(plain_new))
    lines = split_lines(text)
    for how, normal in (
        ("white space at the ends of lines", str.rstrip),
        ("indentation", str.strip),
    ):
        yield how, _by_lines(lines, plain_old, plain_new, normal)
    yield (
        "typographic characters",
        _occurrences(
            text.translate(_PLAIN),
            ends(plain_old).translate(_PLAIN),
            lambda start, end: _blend(ends(plain_old), ends(plain_new), text[start:end]),
        ),
    )
    yield "typographic characters and white space", _by_lines(lines, plain_old, plain_new, bare)


def bare(line: str) -> str:
    """A line as it is compared when everything that tolerance overlooks is overlooked."""
    return line.translate(_PLAIN).strip()


def _occurrences(text: str, old: str, new: Callable[[int, int], str]) -> list[Place]:
    places, at = [], text.find(old)
    while at >= 0:
        end = at + len(old)
        places.append(Place(at, end, new(at, end)))
        at = text.find(old, end)
    return places


def _blend(old: str, new: str, actual: str) -> str:
    """`new`, but where it repeats `old`, as `actual` has it; both are of the same length."""
    if len(old) * len(new) > _ALIGNED:
        return new
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return "".join(
        actual[i1:i2] if tag == "equal" else new[j1:j2]
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
    )


def windows(lines: list[str], wanted: list[str], normal: Callable[[str], str]) -> list[int]:
    """Where the wanted lines stand among these, compared in their normal form; none overlap."""
    target = [normal(line) for line in wanted]
    if not any(target):
        return []
    # Knuth, Morris and Pratt: lines that repeat must not be compared again for every start.
    fallbacks = [0]
    for line in target[1:]:
        fallbacks.append(_longer(target, fallbacks, fallbacks[-1], line))
    starts: list[int] = []
    matched = 0
    for number, line in enumerate(map(normal, lines), 1):
        matched = _longer(target, fallbacks, matched, line)
        if matched == len(target):
            starts.append(number - matched)
            matched = 0
    return starts


def _longer(target: list[str], fallbacks: list[int], matched: int, line: str) -> int:
    """How many lines of the target's beginning match after one more line."""
    while matched and target[matched] != line:
        matched = fallbacks[matched - 1]
    return matched + (target[matched] == line)


def _by_lines(lines: list[str], old: str, new: str, normal: Callable[[str], str]) -> list[Place]:
    whole = old.endswith("\n")
    old_lines = old.removesuffix("\n").split("\n")
    new_lines = new.removesuffix("\n").split("\n") if whole else new.split("\n")
    if whole and not new:
        new_lines = []
    offsets = [0, *accumulate(map(len, lines))]
    places = []
    for start in windows(lines, old_lines, normal):
        actual = lines[start : start + len(old_lines)]
        reindent = reindentation(old_lines, actual)
        if reindent is None:
            continue
        text = "".join(_merged(old_lines, new_lines, actual, reindent))
        last = actual[-1]
        ending = last[len(last.rstrip("\r\n")) :]
        end = offsets[start + len(old_lines)]
        if not whole:
            end -= len(ending)
        if not (whole and new.endswith("\n") and ending):
            text = text.removesuffix("\n").removesuffix("\r")
        places.append(Place(offsets[start], end, text))
    return places


def _merged(old: list[str], new: list[str], actual: list[str], reindent: Reindent) -> list[str]:
    """The new lines, each with an end; those that repeat an old line are as the file has them."""
    newline = newline_of("".join(actual))
    fresh = [reindent(line) + newline for line in new]
    if len(old) * len(new) > _ALIGNED:
        return fresh
    merged: list[str] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag == "equal":
            merged += [line if line.endswith("\n") else line + newline for line in actual[i1:i2]]
        else:
            merged += fresh[j1:j2]
    return merged


def reindentation(old: list[str], actual: list[str]) -> Reindent | None:
    """How to indent new lines so that they fit lines that are indented unlike the old ones.

    None if no one rule leads from the old lines' indentation to that of the actual ones. A rule
    is another unit (tabs for spaces, say), and so much more or less in front of every line.
    """
    pairs = {(_indent(o), _indent(a)) for o, a in zip(old, actual, strict=True) if o.strip()}
    for unit, own in (("", ""), *permutations(_UNITS, 2)):
        turned = {(_converted(o, unit, own), a) for o, a in pairs}
        first, second = min(turned, default=("", ""))
        more = second.removesuffix(first) if second.endswith(first) else ""
        less = first.removesuffix(second) if first.endswith(second) else ""
        if all(less + a == more + o for o, a in turned):
            return partial(_reindented, unit=unit, own=own, more=more, less=less)
    return None


def _reindented(line: str, unit: str, own: str, more: str, less: str) -> str:
    if not line.strip():
        return line
    indent = _indent(line)
    return more + _converted(indent, unit, own).removeprefix(less) + line[len(indent) :]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t\u00a0"))]


def _converted(indent: str, unit: str, own: str) -> str:
    rest, levels = indent, 0
    while unit and rest.startswith(unit):
        rest, levels = rest[len(unit) :], levels + 1
    return own * levels + rest


def not_found(text: str, old: str, new: str = "") -> ToolError:
    """An error for a passage that is not in a text, with the most similar one."""
    message = "The passage was not found in the file."
    if len(new.strip()) > 10 and new in text:
        line = text.count("\n", 0, text.index(new)) + 1
        return ToolError(
            f"{message} The new text is there already, at line {line}: was the edit made before?"
        )
    if MASK in old:
        message += f" It contains {MASK!r}, which stands for a secret: choose another passage."
    wanted = old.strip("\n").split("\n")
    if all(_NUMBERED.match(part) for part in wanted if part.strip()):
        message += " Leave out the line numbers that read_file puts before each line."
    near = nearest(text, wanted)
    if near is None:
        return ToolError(f"{message} Nothing in the file is like it. Read the file again.")
    start, lines = near
    numbered = "\n".join(f"{start + i:>6}|{line}" for i, line in enumerate(lines))
    return ToolError(f"{message} Nearest, at line {start}:\n{numbered}")


def nearest(text: str, wanted: list[str]) -> tuple[int, list[str]] | None:
    """The line number and lines of the passage that is most like the wanted one, if any is."""
    lines = [line.rstrip("\r\n")[:500] for line in split_lines(text)[:_LINES_COMPARED]]
    bare_lines = [bare(line) for line in lines]
    targets = {bare(line): i for i, line in reversed(list(enumerate(wanted))) if bare(line)}
    votes: dict[int, int] = {}
    for number, line in enumerate(bare_lines):
        if line in targets:
            start = max(0, number - targets[line])
            votes[start] = votes.get(start, 0) + len(line)
    if votes:
        start = max(votes, key=lambda at: (votes[at], -at))
    else:
        anchor = max(targets, key=len, default="")[:500]
        matcher = difflib.SequenceMatcher(None, autojunk=False)
        matcher.set_seq2(anchor)
        best, start = 0.6, -1
        for number, line in enumerate(bare_lines):
            matcher.set_seq1(line)
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
                ratio = matcher.ratio()
                if ratio > best:
                    best, start = ratio, max(0, number - targets.get(anchor, 0))
        if start < 0:
            return None
    return start + 1, lines[start : start + min(max(len(wanted), 1), _SHOWN)]
