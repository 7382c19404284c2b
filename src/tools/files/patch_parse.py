"""Reading a patch: which files it adds, updates, deletes and moves, and how.

Two notations: sections between `*** Begin Patch` and `*** End Patch`, read here, and unified diffs.
"""

from __future__ import annotations

import re

from ..base import ToolError
from .hunks import COUNTS, FilePatch, Hunk, drop_last_empty, mark_of
from .patch_unified import parse_unified

_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")


def parse_patch(patch: str) -> list[FilePatch]:
    """The files that a patch is about, in its order; ToolError if it cannot be read."""
    lines = patch.split("\n")
    if all(line.endswith("\r") for line in lines[:-1]):
        lines = [line.removesuffix("\r") for line in lines]
    while lines and (not lines[-1] or lines[-1].startswith("```")):
        lines.pop()
    begin = next((i for i, line in enumerate(lines) if line.strip() == "*** Begin Patch"), None)
    if begin is not None or any(_SECTION.match(line) for line in lines):
        files = _Sections(lines[begin + 1 if begin is not None else 0 :]).parse()
    else:
        files = parse_unified(lines)
    if not files:
        raise ToolError(
            "The patch changes no file. Write sections such as `*** Update File: path` between "
            "`*** Begin Patch` and `*** End Patch`, or a unified diff with ---, +++ and @@ lines."
        )
    return files


class _Sections:
    """The notation with `*** Update File:` sections."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def parse(self) -> list[FilePatch]:
        files: list[FilePatch] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.rstrip() == "*** End Patch":
                break
            self._at += 1
            if section := _SECTION.match(line):
                files.append(self._section(section[1], section[2].strip()))
            elif line.strip() and not line.startswith("```"):
                raise ToolError(
                    f"The patch has {line[:80]!r} where a `*** … File:` line should be."
                )
        return files

    def _section(self, action: str, path: str) -> FilePatch:
        if action == "Delete":
            return FilePatch("delete", path)
        if action == "Add":
            return FilePatch("add", path, hunks=[self._added(path)])
        file = FilePatch("update", path)
        if self._peek().startswith("*** Move to: "):
            file.move_to = self._lines[self._at].removeprefix("*** Move to: ").strip()
            self._at += 1
        while self._at < len(self._lines) and not self._ends():
            file.hunks.append(self._hunk(path))
        if not file.hunks and not file.move_to:
            raise ToolError(f"The patch says to update {path}, but has no changes for it.")
        return file

    def _peek(self) -> str:
        return self._lines[self._at] if self._at < len(self._lines) else ""

    def _ends(self) -> bool:
        line = self._peek()
        return line.rstrip() == "*** End Patch" or bool(_SECTION.match(line))

    def _added(self, path: str) -> Hunk:
        hunk = Hunk()
        while self._at < len(self._lines) and not self._ends():
            line = self._lines[self._at]
            if not line.startswith("+") and line.strip():
                raise ToolError(f"A line of the new file {path} lacks its +: {line[:80]!r}.")
            hunk.lines.append(("+", line[1:]))
            self._at += 1
        while hunk.lines and not self._lines[self._at - 1].startswith("+"):
            hunk.lines.pop()  # empty lines between two sections
            self._at -= 1
        self._at = next(
            (i for i in range(self._at, len(self._lines)) if self._lines[i].strip()),
            len(self._lines),
        )
        return hunk

    def _hunk(self, path: str) -> Hunk:
        hunk = Hunk()
        while self._peek().startswith("@@"):
            header = self._lines[self._at]
            if counts := COUNTS.match(header):
                hunk.start = int(counts[1])
            elif anchor := header.removeprefix("@@").removesuffix("@@").strip():
                hunk.anchors.append(anchor)
            self._at += 1
        while self._at < len(self._lines) and not self._ends():
            line = self._lines[self._at]
            if line.startswith("@@"):
                break
            self._at += 1
            if line.rstrip() == "*** End of File":
                hunk.at_end = True
                break
            if line.startswith("\\ No newline"):
                continue
            marked = mark_of(line)
            if marked is None:
                raise ToolError(
                    f"In the patch for {path}, {line[:80]!r} must begin with a space (to keep it), "
                    "- (to remove it) or + (to add it)."
                )
            hunk.lines.append(marked)
        drop_last_empty(hunk, self._lines[self._at - 1])
        return hunk
