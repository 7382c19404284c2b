"""Putting the hunks of a patch into a text, where they belong.

A hunk is looked for with the same tolerance as a passage to replace. If a unified diff says at
which line, the place nearest to that is taken; otherwise the place must be the only one. Lines that
the hunk keeps stay exactly as the file has them.
"""

from __future__ import annotations

from ..base import ToolError
from .encoding import newline_of, split_lines
from .hunks import FilePatch, Hunk
from .match import Reindent, bare, not_found, reindentation, windows

_WAYS = (
    lambda line: line.removesuffix("\n"),
    lambda line: line.rstrip("\r\n"),
    str.rstrip,
    str.strip,
    bare,
)


def apply_hunks(text: str, file: FilePatch) -> str:
    """The text with every hunk applied; ToolError says which one does not fit, and why."""
    lines = split_lines(text)
    as_shown = any(hunk.has_returns for hunk in file.hunks)
    newline = "\n" if as_shown else newline_of(text)
    out: list[str] = []
    done = 0
    for number, hunk in enumerate(file.hunks, 1):
        try:
            start, reindent = _find(lines, hunk, done)
        except ToolError as error:
            raise ToolError(f"Hunk {number} of {file.path}: {error}") from error
        out += lines[done:start]
        done = start
        for mark, content in hunk.lines:
            if mark == "+":
                out.append(reindent(content) + newline)
                continue
            if mark == " ":
                out.append(lines[done])
            done += 1
        if hunk.unended and done == len(lines) and hunk.lines[-1][0] == "+":
            out[-1] = out[-1].removesuffix(newline)
    out += lines[done:]
    out[:-1] = [line if line.endswith("\n") else line + newline for line in out[:-1]]
    result = "".join(out)
    if not file.exact and text and not text.endswith("\n"):
        return result.removesuffix(newline)
    return result


def added_text(file: FilePatch) -> str:
    """The content of a file that a patch adds."""
    hunks = file.hunks
    if not hunks:
        return ""
    text = "\n".join(line for hunk in hunks for line in hunk.side("+"))
    has_lines = any(hunk.lines for hunk in hunks)
    return text + ("\n" if has_lines and not hunks[-1].unended else "")


def _find(lines: list[str], hunk: Hunk, earliest: int) -> tuple[int, Reindent]:
    """The index of the line where a hunk begins, and how its new lines are to be indented."""
    old = hunk.side("-")
    begin = _after_anchors(lines, hunk, earliest)
    if not old:
        return _insertion(lines, hunk, begin), str
    for normal in _WAYS:
        candidates = _candidates(lines, old, normal, begin, hunk)
        fitting = []
        for start in candidates:
            reindent = reindentation(old, lines[start : start + len(old)])
            if reindent is not None:
                fitting.append((start, reindent))
        if not fitting:
            continue
        if hunk.start is not None:
            expected = hunk.start - 1
            return min(fitting, key=lambda candidate: abs(candidate[0] - expected))
        if len(fitting) > 1 and not hunk.anchors:
            numbers = ", ".join(str(start + 1) for start, _ in fitting[:10])
            raise ToolError(
                f"its lines are there {len(fitting)} times, at lines {numbers}. Add lines around "
                "them, or an `@@` line that names the function or class they are in."
            )
        return fitting[0]
    raise not_found("".join(lines), "\n".join(old))


def _candidates(
    lines: list[str], old: list[str], normal: Reindent, begin: int, hunk: Hunk
) -> list[int]:
    if hunk.at_end:
        start = len(lines) - len(old)
        fits = start >= begin and windows(lines[start:], old, normal)
        return [start] if fits else []
    if not any(line.strip() for line in old):
        # Only empty lines: nothing to recognise, so only the stated place will do.
        at = hunk.start - 1 if hunk.start is not None else -1
        here = lines[at : at + len(old)] if at >= begin else []
        return [at] if len(here) == len(old) and not any(map(str.strip, here)) else []
    return [begin + start for start in _all_windows(lines[begin:], old, normal)]


def _all_windows(lines: list[str], old: list[str], normal: Reindent) -> list[int]:
    """Every place where the lines are, overlapping ones too."""
    target = [normal(line) for line in old]
    have = [normal(line) for line in lines]
    return [
        start
        for start in range(len(have) - len(target) + 1)
        if have[start] == target[0] and have[start : start + len(target)] == target
    ]


def _insertion(lines: list[str], hunk: Hunk, begin: int) -> int:
    """Where a hunk that only adds lines goes."""
    if hunk.at_end or not lines:
        return len(lines)
    if hunk.anchors:
        return begin
    if hunk.start is not None:
        return min(max(hunk.start, begin), len(lines))
    return len(lines)


def _after_anchors(lines: list[str], hunk: Hunk, earliest: int) -> int:
    at = earliest
    for anchor in hunk.anchors:
        wanted = bare(anchor)
        index = next((i for i in range(at, len(lines)) if bare(lines[i]) == wanted), None)
        if index is None:
            index = next((i for i in range(at, len(lines)) if wanted in bare(lines[i])), None)
        if index is None:
            raise not_found("".join(lines), anchor)
        at = index + 1
    return at
