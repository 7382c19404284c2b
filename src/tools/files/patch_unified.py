"""Reading unified diffs, as written by `diff -u` and `git diff`, and by models.

Models count lines badly: the counts in a `@@` line help to tell where a hunk ends, but they may be
wrong, and then the look of the lines decides.
"""

from __future__ import annotations

import re

from ..base import ToolError
from .hunks import COUNTS, FilePatch, Hunk, drop_last_empty, mark_of

_MODE = re.compile(r"(?:new file mode|new mode) 100(\d{3})$")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "r": "\r", "a": "\a", "b": "\b", "f": "\f"}


def parse_unified(lines: list[str]) -> list[FilePatch]:
    """The files that a unified diff changes, in its order."""
    return _Unified(lines).parse()


class _Unified:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def parse(self) -> list[FilePatch]:
        files: list[FilePatch] = []
        header: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                files += _from_header(header)
                header = [line]
            elif self._is_file_header(self._at):
                files.append(self._file(header))
                header = []
                continue
            elif line.startswith("@@ "):
                raise ToolError(f"{line[:80]!r} stands before the --- and +++ lines of its file.")
            elif line.startswith(("GIT binary patch", "Binary files ")):
                raise ToolError("The patch has binary content, which cannot be applied here.")
            elif header:
                header.append(line)
            self._at += 1
        return files + _from_header(header)

    def _is_file_header(self, at: int) -> bool:
        return (
            at + 1 < len(self._lines)
            and self._lines[at].startswith("--- ")
            and self._lines[at + 1].startswith("+++ ")
        )

    def _file(self, header: list[str]) -> FilePatch:
        old, new = (_name(self._lines[self._at + i][4:]) for i in (0, 1))
        self._at += 2
        if (old.startswith("a/") or old == "/dev/null") and (
            new.startswith("b/") or new == "/dev/null"
        ):
            old, new = old.removeprefix("a/"), new.removeprefix("b/")
        moved = any(line.startswith("rename ") for line in header)
        file = FilePatch("update", old if moved else new, mode=_mode(header), exact=True)
        if moved and old != new:
            file.move_to = new
        if old == "/dev/null":
            file.action = "add"
        elif new == "/dev/null":
            file.action, file.path = "delete", old
        while self._at < len(self._lines) and self._lines[self._at].startswith("@@"):
            file.hunks.append(self._hunk())
        if not file.hunks:
            raise ToolError(f"The diff of {file.path} has no @@ line, so no changes.")
        return file

    def _hunk(self) -> Hunk:
        header = self._lines[self._at]
        counts = COUNTS.match(header)
        if counts is None:
            raise ToolError(f"{header[:80]!r} should be like `@@ -10,3 +10,4 @@`.")
        self._at += 1
        wanted = (int(counts[2] or 1), int(counts[4] or 1))
        end = self._end_by_counts(*wanted)
        if end is None:
            end = self._end_by_look()
        hunk = Hunk(start=int(counts[1]))
        for line in self._lines[self._at : end]:
            if line.startswith("\\"):
                hunk.unended = hunk.unended or hunk.lines[-1][0] != "-"
            elif marked := mark_of(line):
                hunk.lines.append(marked)
        if wanted[0] < len(hunk.side("-")):
            drop_last_empty(hunk, self._lines[end - 1])
        self._at = end
        return hunk

    def _end_by_counts(self, old: int, new: int) -> int | None:
        """Where the hunk ends if the counts of its header are right, else None."""
        at = self._at
        while (old or new) and at < len(self._lines):
            line = self._lines[at]
            marked = mark_of(line)
            if marked is None and not line.startswith("\\"):
                return None
            if marked and marked[0] != "+":
                old -= 1
            if marked and marked[0] != "-":
                new -= 1
            at += 1
        if old or new:
            return None
        if at < len(self._lines) and self._lines[at].startswith("\\"):
            at += 1
        following = self._lines[at] if at < len(self._lines) else ""
        if following == "-- ":  # the signature below a mailed patch
            return at
        longer = following[:1] in ("+", "-", " ") and not self._is_file_header(at)
        return None if longer else at

    def _end_by_look(self) -> int:
        for at in range(self._at, len(self._lines)):
            line = self._lines[at]
            if line.startswith(("@@ ", "diff --git ")) or self._is_file_header(at):
                return at
            if mark_of(line) is None and not line.startswith("\\"):
                raise ToolError(
                    f"In the diff, {line[:80]!r} must begin with a space, - or +; "
                    "or a line is missing before it."
                )
        return len(self._lines)


def _from_header(header: list[str]) -> list[FilePatch]:
    """What a git header alone asks for: a move, a mode, an empty file made or removed."""
    if not header:
        return []
    names = {
        line.split(" ", 2)[1]: _name(line.split(" ", 2)[2])
        for line in header
        if line.startswith(("rename from ", "rename to "))
    }
    if "from" in names and "to" in names:
        return [FilePatch("update", names["from"], names["to"], mode=_mode(header), exact=True)]
    header_names = re.fullmatch(r'diff --git (?:a/(.+) b/\1|("a/.+") "b/.+")', header[0])
    if header_names is None:
        return []
    name = header_names[1] or _name(header_names[2]).removeprefix("a/")
    if any(line.startswith("new file mode") for line in header):
        return [FilePatch("add", name, mode=_mode(header), exact=True)]
    if any(line.startswith("deleted file mode") for line in header):
        return [FilePatch("delete", name, exact=True)]
    mode = _mode(header)
    return [FilePatch("update", name, mode=mode, exact=True)] if mode is not None else []


def _mode(header: list[str]) -> int | None:
    modes = [match for line in header if (match := _MODE.match(line))]
    return int(modes[-1][1], 8) if modes else None


def _name(text: str) -> str:
    """A file name of a header: without a time stamp, and out of git's quotes."""
    text = text.split("\t")[0].rstrip()
    if not (len(text) > 1 and text.startswith('"') and text.endswith('"')):
        return text

    def plain(match: re.Match[str]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if code[0].isdigit() else _ESCAPES.get(code, code).encode()

    out = b""
    at = 1
    for escape in re.finditer(r"\\([0-7]{3}|.)", text[:-1]):
        out += text[at : escape.start()].encode() + plain(escape)
        at = escape.end()
    return (out + text[at:-1].encode()).decode(errors="surrogateescape")
