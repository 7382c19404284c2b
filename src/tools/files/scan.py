"""The built-in search, for machines without ripgrep: a child process that prints what it finds.

It walks, ignores and prints as `rg --null --sort path` does, so that the same reader understands
both. It is a process of its own because an expression may take for ever, and only a process can be
stopped in the middle of one; an alarm ends it even if its parent is gone.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import stat
import sys
import warnings
from collections.abc import Iterator
from typing import BinaryIO

from .gitignore import Ignore, ignore_at

_LARGEST = 100_000_000
"""Larger files are passed over, unless one is searched by itself."""
_SNIFFED = 65_536
_CROSSES_LINES = re.compile(r"\[\^|\\[sWDAZBnrxu0-9]|\(\?|[*+?}]\+|\n")
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))


def main() -> None:
    """Search as the JSON object in the first argument says."""
    job = json.loads(sys.argv[1])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.alarm(int(job["seconds"]) + 5)
    warnings.simplefilter("ignore", FutureWarning)
    out: BinaryIO = io.BufferedWriter(io.FileIO(sys.stdout.fileno(), "wb", closefd=False), 65_536)
    root = os.fsencode(job["root"])
    files = _walk(root, hidden=job["hidden"], one_device=job["one_device"])
    if job["mode"] == "files":
        for path in files:
            out.write(path + b"\0")
    else:
        regex = re.compile(job["pattern"])
        with_returns = r"\r" in job["pattern"]
        prefilter = _prefilter(job["pattern"])
        for path in files:
            text = _text(path, explicit=path == root, whole=job["mode"] == "count")
            if text is None:
                continue
            if not with_returns:
                text = text.replace("\r\n", "\n").removesuffix("\r")
            if prefilter is None or prefilter.search(text):
                _print_matches(out, path, text, regex, job["mode"], job["context"])
                out.flush()
    out.flush()


def _prefilter(pattern: str) -> re.Pattern[str] | None:
    """An expression that finds out quickly that no line of a text can match; None if unsure.

    It is tried on the whole text, so it must not have anything that could run across line ends.
    """
    if _CROSSES_LINES.search(pattern):
        return None
    return re.compile(pattern, re.MULTILINE)


def _walk(root: bytes, *, hidden: bool, one_device: bool) -> Iterator[bytes]:
    """The regular files below a folder that git does not ignore, in the order of their paths."""
    info = os.stat(root)  # noqa: PTH116 - a path of bytes
    if not stat.S_ISDIR(info.st_mode):
        yield root
        return
    device = info.st_dev if one_device else None
    base = root.rstrip(b"/")
    above = ignore_at(base.rpartition(b"/")[0]) if base else Ignore()
    yield from _walk_folder(base, above, hidden, device)


def _walk_folder(folder: bytes, above: Ignore, hidden: bool, device: int | None) -> Iterator[bytes]:
    # A stack of what is left to do, so that no depth of folders is too deep.
    waiting: list[tuple[bytes, bool, Ignore]] = [(folder, True, above)]
    while waiting:
        path, is_folder, ignore = waiting.pop()
        if not is_folder:
            yield path
            continue
        try:
            with os.scandir(path or b"/") as listing:
                entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
        except OSError:
            continue  # not ours to list, or gone meanwhile
        inside = ignore.entering(path, {entry.name for entry in entries})
        for entry in entries:
            below = path + b"/" + entry.name
            if entry.name == b".git" or (entry.name.startswith(b".") and not hidden):
                continue
            if not (deeper := entry.is_dir(follow_symlinks=False)):
                if not entry.is_file(follow_symlinks=False):
                    continue
            elif device is not None and entry.stat(follow_symlinks=False).st_dev != device:
                continue
            if not inside.ignored(below, deeper):
                waiting.append((below, deeper, inside))


def _text(path: bytes, *, explicit: bool, whole: bool) -> str | None:
    """The text of a file; None if it is binary, too large or not readable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or (info.st_size > _LARGEST and not explicit):
                return None
            return _decoded(file, whole)
    except OSError:
        return None


def _decoded(file: BinaryIO, whole: bool) -> str | None:
    data = file.read()
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(codec, "replace")
    nul = data.find(b"\0")
    if nul >= 0 and (nul < _SNIFFED or whole):
        return None
    if nul >= 0:
        data = data[:nul]
    return data.decode("utf-8", "surrogateescape")


def _print_matches(
    out: BinaryIO, path: bytes, text: str, regex: re.Pattern[str], mode: str, context: int
) -> None:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    matching = (number for number, line in enumerate(lines) if regex.search(line))
    if mode == "files_only":
        if next(matching, None) is not None:
            out.write(path + b"\0")
    elif mode == "count":
        count = sum(1 for _ in matching)
        if count:
            out.write(b"%b\0%d\n" % (path, count))
    else:
        _print_lines(out, path, lines, matching, context)


def _print_lines(
    out: BinaryIO, path: bytes, lines: list[str], matching: Iterator[int], context: int
) -> None:
    def show(number: int, kind: bytes) -> None:
        content = lines[number].encode("utf-8", "surrogateescape")
        out.write(b"%b\0%d%b%b\n" % (path, number + 1, kind, content))

    shown = -1
    following = 0
    for number in matching:
        for between in range(shown + 1, number):
            if between < following or between >= number - context:
                show(between, b"-")
        show(number, b":")
        shown, following = number, number + 1 + context
    for after in range(shown + 1, min(following, len(lines))):
        show(after, b"-")
