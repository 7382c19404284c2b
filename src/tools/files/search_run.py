"""Running a search: ripgrep where it is installed, the built-in one elsewhere.

Both are child processes that print the same, in the order of paths, so that the reader can stop as
soon as it has enough. What they print is taken in piece by piece and never held as a whole; a
search that is cancelled or takes too long is killed with everything it started.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..base import ToolContext, ToolError

SECONDS = 60
LONGEST_LINE = 400
_PIECE = 65_536
_PASSED_ON = ("PATH", "HOME", "XDG_CONFIG_HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR")

Mode = Literal["content", "files_only", "count", "files"]


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for, and where."""

    root: Path
    mode: Mode
    pattern: str = ""
    context: int = 0
    hidden: bool = False
    """Whether files and folders whose name begins with a dot are looked at."""
    names: list[str] = field(default_factory=list)
    """Globs for file names that may narrow the search; the caller checks names itself."""
    built_in: bool = False
    """Whether ripgrep would take the pattern for something else."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found: a file, a count, or a line."""

    path: str
    number: int = 0
    """The line, or the count."""
    text: str = ""
    is_match: bool = True
    """False for a line that is only context."""


class PatternRefused(Exception):
    """Ripgrep does not know an expression, which the built-in search may know."""


class TimeIsUp(Exception):
    """The search took too long; what was found so far stands."""


def search(query: Query, context: ToolContext) -> Generator[Hit, None, None]:
    """Everything that is found, in the order of paths; TimeIsUp if that takes too long."""
    ripgrep = shutil.which("rg")
    if ripgrep and not query.built_in:
        try:
            yield from _read(_ripgrep(ripgrep, query), query.mode, context)
            return
        except PatternRefused:
            pass  # nothing was found yet: expressions are looked at first
    yield from _read(_built_in(query), query.mode, context)


def _ripgrep(program: str, query: Query) -> list[str]:
    command = [
        program, "--no-config", "--no-ignore-dot", "--no-messages", "--no-ignore-messages",
        "--color=never", "--null", "--sort=path", "--max-filesize=100000000",
    ]  # fmt: skip
    if query.hidden:
        command += ["--hidden", "--glob=!.git"]
    if query.root == Path("/"):
        command.append("--one-file-system")
    for name in query.names:
        command += [f"--type-add=wanted:{name}"]
    if query.names:
        command.append("--type=wanted")
    if query.mode == "files":
        return [*command, "--files", "--", str(query.root)]
    command += {
        "content": ["--no-heading", "--with-filename", "--line-number", "--no-context-separator"],
        "files_only": ["--files-with-matches"],
        "count": ["--count", "--with-filename"],
    }[query.mode]
    if query.context and query.mode == "content":
        command.append(f"--context={query.context}")
    return [*command, "--crlf", "--regexp", _for_ripgrep(query.pattern), "--", str(query.root)]


def _for_ripgrep(pattern: str) -> str:
    """The pattern without escapes of characters that need none, which ripgrep refuses."""
    return re.sub(
        r"\\(.)",
        lambda escape: escape[1] if escape[1] in " !\"%',/:;<=>@_`" else escape[0],
        pattern,
        flags=re.DOTALL,
    )


def _built_in(query: Query) -> list[str]:
    job = {
        "root": str(query.root),
        "mode": query.mode,
        "pattern": query.pattern,
        "context": query.context,
        "hidden": query.hidden,
        "one_device": query.root == Path("/"),
        "seconds": SECONDS,
    }
    return [sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).parent), json.dumps(job)]


_START = (
    # A package that is nothing but its folder: loading the file tools would take longer than most
    # searches do.
    "import sys, types; package = sys.modules['files'] = types.ModuleType('files');"
    " package.__path__ = [sys.argv.pop(1)]; from files.scan import main; main()"
)


def _read(command: list[str], mode: Mode, context: ToolContext) -> Iterator[Hit]:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"The search could not be started: {error}.") from error
    parser = _Parser(mode)
    errors: list[bytes] = []
    has_hits = False
    try:
        for piece in _pieces(child, context, errors):
            for hit in parser.feed(piece):
                has_hits = True
                yield hit
        code = child.wait()
        message = b"".join(errors).decode(errors="replace").strip()
        if code not in (0, 1) and command[0] == sys.executable:
            raise ToolError(f"The search failed: {message[-500:] or f'exit code {code}'}.")
        if code not in (0, 1) and message and not has_hits:
            raise PatternRefused(message)  # errors about files are kept silent
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def _pieces(
    child: subprocess.Popen[bytes], context: ToolContext, errors: list[bytes]
) -> Iterator[bytes]:
    """What the child prints, as it comes; ends when the child has closed both outputs."""
    deadline = time.monotonic() + SECONDS
    assert child.stdout and child.stderr
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        selector.register(child.stderr, selectors.EVENT_READ)
        while selector.get_map():
            if context.cancelled.is_set():
                raise ToolError("Stopped.")
            if time.monotonic() > deadline:
                raise TimeIsUp
            for key, _ in selector.select(0.1):
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fd == child.stdout.fileno():
                    yield piece
                elif sum(map(len, errors)) < _PIECE:
                    errors.append(piece)


class _Parser:
    """Takes what a search prints apart, holding no more than one shortened line of it."""

    _WARNING = re.compile(rb".*: WARNING: stopped searching binary file [^\n]*\n", re.DOTALL)

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._buffer = b""
        self._skipping = False

    def feed(self, piece: bytes) -> Iterator[Hit]:
        """What is complete with this piece."""
        if self._skipping:
            _, newline, piece = piece.partition(b"\n")
            if not newline:
                return
            self._skipping = False
        self._buffer += piece
        while (hit := self._next()) is not None:
            yield hit

    def _next(self) -> Hit | None:
        name, nul, rest = self._buffer.partition(b"\0")
        if not nul:
            return None
        path = os.fsdecode(self._WARNING.sub(b"", name))
        if self._mode in ("files", "files_only"):
            self._buffer = rest
            return Hit(path)
        line, newline, rest = rest.partition(b"\n")
        if not newline and len(line) <= LONGEST_LINE * 4 + 32:
            return None
        self._buffer = rest if newline else b""
        self._skipping = not newline
        number = re.match(rb"\d+", line)
        if number is None:
            return Hit(path)
        text = line[number.end() + 1 :].rstrip(b"\r").decode(errors="replace")
        if len(text) > LONGEST_LINE or not newline:
            text = text[:LONGEST_LINE] + " […]"
        is_match = self._mode == "count" or line[number.end() : number.end() + 1] == b":"
        return Hit(path, int(number[0]), text, is_match)
