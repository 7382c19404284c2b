"""read_file: a piece of a text file, with line numbers, and how to go on.

However large the file, only as much of it is read as the answer needs, and only the answer is held
in memory. What was read is remembered, so that a later write can tell whether it still holds.
"""

from __future__ import annotations

import codecs
import os
import shlex
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ..base import Tool, ToolContext, ToolError, tool
from .atomic import Snapshot, take_snapshot
from .encoding import (
    LATIN1,
    SNIFFED,
    Encoding,
    count_lines,
    encoding_of,
    kind_of,
    newline_of,
    size_in_words,
)
from .guard import (
    check_regular,
    explain,
    may_read,
    missing,
    open_folder,
    open_regular,
    own_databases,
    real_path,
)
from .seen import remember

_LONGEST_LINE = 2_000
_MOST_LINES = 2_000
_MOST_CHARACTERS = 45_000
_CHUNK = 256 * 1024
_ENDLESS_LINE = 16 * 1024 * 1024
_SECONDS = 30.0
_ENTRIES_COUNTED = 50_000


@dataclass(slots=True)
class _Window:
    """The lines from `first` on that fit into one answer, picked from a stream of text."""

    first: int
    limit: int
    lines: list[str] = field(default_factory=list)
    number: int = 1
    """The line the stream is in."""
    ended: bool = False
    """Whether the stream came to its end."""
    _characters: int = 0
    _piece: str = ""
    _length: int = 0

    def fill(self, chunks: Iterable[str]) -> None:
        """Take lines from the stream until there are enough."""
        for chunk in chunks:
            if not self._take(chunk):
                return
        if self._length and self.number >= self.first:
            self._end_line()
        self.ended = True

    def _take(self, chunk: str) -> bool:
        at = 0
        if self.number < self.first:
            newlines = chunk.count("\n")
            if self.number + newlines < self.first:
                self.number += newlines
                self._length = (
                    len(chunk) - chunk.rfind("\n") - 1 + (0 if newlines else self._length)
                )
                return True
            while self.number < self.first:
                at = chunk.index("\n", at) + 1
                self.number += 1
            self._length = 0
        while True:
            end = chunk.find("\n", at)
            part = chunk[at : end if end >= 0 else len(chunk)]
            self._piece += part[: _LONGEST_LINE + 1 - len(self._piece)]
            self._length += len(part)
            if end < 0:
                return self._length <= _ENDLESS_LINE
            self._end_line()
            self.number += 1
            if len(self.lines) >= self.limit or self._characters >= _MOST_CHARACTERS:
                return False
            at = end + 1

    def _end_line(self) -> None:
        text = self._piece
        if self._length > _LONGEST_LINE + 1 or len(text) > _LONGEST_LINE:
            left_out = self._length - _LONGEST_LINE
            text = f"{text[:_LONGEST_LINE]} [… {left_out:,} more characters in this line …]"
        line = f"{self.first + len(self.lines):>6}|{text.removesuffix(chr(13))}"
        self.lines.append(line)
        self._characters += len(line) + 1
        self._piece, self._length = "", 0

    @property
    def passed(self) -> int:
        """How many lines went by, the last one included if it has no end."""
        return self.number - (self._length == 0)

    @property
    def endless(self) -> bool:
        """Whether it gave up in the middle of a line."""
        return self._length > _ENDLESS_LINE


@tool(toolset="files", effect="none", max_output=80_000)
def read_file(context: ToolContext, path: str, offset: int = 1, limit: int = 500) -> str:
    """Read a text file, with line numbers (`number|text`); also lists a folder.

    Long files come in pieces: the answer says how to go on. Use this rather than cat, head or
    sed. Binary files are described, not shown. The numbers are not part of the file.

    path: the file, absolute or relative to the working directory
    offset: the first line to read, counted from 1
    limit: how many lines to read, at most 2000
    """
    if offset < 0 or limit < 1:
        raise ToolError("offset and limit are counts of lines: give offset ≥ 1 and limit ≥ 1.")
    first, limit = max(1, offset), min(limit, _MOST_LINES)
    real = real_path(context, path)
    try:
        info = real.lstat()
        if stat.S_ISDIR(info.st_mode):
            return _list_folder(context, real, first, limit)
        forbidden = own_databases(context.workspace.home)
        check_regular(info, real, forbidden)
        may_read(context, real)
        with open_folder(real.parent) as folder:
            snapshot = take_snapshot(folder, real.name, forbidden)
            if snapshot is None:
                raise FileNotFoundError
            remember(context.workspace, real, snapshot)
            if snapshot.data is not None:
                return _show(real, snapshot.data, first, limit)
            fd = open_regular(real.name, folder, forbidden)
        return _show_huge(context, real, fd, snapshot, first, limit)
    except (FileNotFoundError, NotADirectoryError):
        raise missing(real, path) from None
    except OSError as error:
        raise explain(error, real, "read") from error


def _show(path: Path, data: bytes, first: int, limit: int) -> str:
    encoding = encoding_of(data, whole=True)
    if encoding is None:
        return _describe_binary(path, data[:SNIFFED], len(data))
    text = encoding.decode(data)
    if not text:
        return f"{path} is empty."
    total = count_lines(text)
    if first > total:
        raise ToolError(f"{path} has {total:,} lines; there is no line {first:,}.")
    window = _Window(first, limit)
    window.fill([text])
    notes = _notes(encoding, text[:SNIFFED])
    last = first + len(window.lines) - 1
    of = f"lines {first:,}-{last:,} of {total:,}" if (first, last) != (1, total) else "whole file"
    after = f"\n[… {total - last:,} more lines; go on with offset={last + 1} …]"
    body = "\n".join(window.lines)
    return f"{path} ({', '.join([of, *notes])})\n{body}{after if last < total else ''}"


def _show_huge(
    context: ToolContext, path: Path, fd: int, snapshot: Snapshot, first: int, limit: int
) -> str:
    size = snapshot.info.st_size
    with os.fdopen(fd, "rb") as file:
        head = file.read(SNIFFED)
        encoding = encoding_of(head, whole=False)
        if encoding is None:
            return _describe_binary(path, head, size)
        file.seek(len(encoding.mark))
        window = _Window(first, limit)
        window.fill(_decoded(context, file, encoding, path))
    if not window.lines and not window.endless:
        raise ToolError(f"{path} has {window.passed:,} lines; there is no line {first:,}.")
    last = first + len(window.lines) - 1
    notes = _notes(encoding, head.decode(encoding.codec, "replace"))
    of = f"lines {first:,}-{last:,} of a file of {size_in_words(size)}"
    body = "\n".join(window.lines)
    if window.endless:
        after = (
            f"\n[… line {window.number:,} is longer than {size_in_words(_ENDLESS_LINE)}; use the "
            "terminal, e.g. `head -c`, to look into it …]"
        )
    else:
        after = "" if window.ended else f"\n[… more lines; go on with offset={last + 1} …]"
    return f"{path} ({', '.join([of, *notes])})\n{body}{after}"


def _decoded(context: ToolContext, file: BinaryIO, encoding: Encoding, path: Path) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding.codec)("replace")
    deadline = time.monotonic() + _SECONDS
    while chunk := file.read(_CHUNK):
        if context.cancelled.is_set():
            raise ToolError("Stopped.")
        if time.monotonic() > deadline:
            raise ToolError(
                f"That line is too far into {path} to reach it in {_SECONDS:.0f} s. "
                "Use the terminal, e.g. `tail`, or search_files to find what you need."
            )
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _notes(encoding: Encoding, sample: str) -> list[str]:
    notes = [] if encoding.codec == "utf-8" and not encoding.mark else [encoding.label]
    if encoding is LATIN1:
        notes = [f"shown as {encoding.label}"]
    if newline_of(sample) == "\r\n":
        notes.append("CRLF line ends")
    return notes


def _describe_binary(path: Path, head: bytes, size: int) -> str:
    kind = kind_of(head) or "binary data of unknown type"
    if kind.startswith("PDF"):
        advice = f"For its text, run `pdftotext {shlex.quote(str(path))} -` in the terminal."
    elif kind.endswith("image"):
        advice = "An image cannot be shown as text."
    else:
        advice = "To look into it, use the terminal, e.g. `xxd`, or a program made for the type."
    return f"{path} is not a text file: {kind}, {size_in_words(size)}. {advice}"


def _list_folder(context: ToolContext, path: Path, first: int, limit: int) -> str:
    names: list[str] = []
    with os.scandir(path) as entries:
        for entry in islice(entries, _ENTRIES_COUNTED + 1):
            if context.cancelled.is_set():
                raise ToolError("Stopped.")
            names.append(_entry_line(entry))
    more = "more than " if len(names) > _ENTRIES_COUNTED else ""
    names = sorted(names[:_ENTRIES_COUNTED])
    shown = names[first - 1 : first - 1 + limit]
    total = f"{more}{len(names):,} {'entry' if len(names) == 1 else 'entries'}"
    if not names:
        return f"{path} is an empty folder."
    if not shown:
        raise ToolError(f"{path} is a folder of {total}; there is no entry {first:,}.")
    last = first + len(shown) - 1
    after = f"\n[… {len(names) - last:,} more; go on with offset={last + 1} …]"
    return f"{path}/ (folder, {total})\n" + "\n".join(shown) + (after if last < len(names) else "")


def _entry_line(entry: os.DirEntry[str]) -> str:
    name = entry.name.encode(errors="backslashreplace").decode()
    if entry.is_symlink():
        try:
            target = os.readlink(entry.path)  # noqa: PTH115 - the target as it is written
        except OSError:
            return f"{name}@"
        return f"{name} -> {target.encode(errors='backslashreplace').decode()}"
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    try:
        return f"{name}  {size_in_words(entry.stat(follow_symlinks=False).st_size)}"
    except OSError:
        return name  # gone meanwhile


TOOLS: list[Tool] = [read_file]
