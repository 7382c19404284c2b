"""What a command prints, however much and whatever it is: clean text in bounded memory.

Bytes become text without escape sequences and control characters. The head and the tail stay in
memory; once there is more, all of it (up to a limit) goes to a private file that `read_file` opens.
What is kept in a file holds no secrets; the head and the tail are masked with the result they are
part of, and are cut between lines, so that neither begins or ends within a secret.
"""

from __future__ import annotations

import codecs
import logging
import re
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ..masking import Masker
from ..output import keep, kept_files

log = logging.getLogger(__name__)

FILE_LIMIT = 50_000_000
"""Characters of one run that are kept in a file."""
FOLDER_LIMIT = 500_000_000
"""Bytes that the files of all runs may take; the oldest go first."""
HEAD = 16_000
TAIL = 24_000

_PARTIAL_LIMIT = 4_096
_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|[ -/]*[0-Z\\^-~]"  # the short ones
    r")|\x9b[0-?]*[ -/]*[@-~]"
)
_UNFINISHED = re.compile(
    r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)|\x9b[0-?]*[ -/]*)\Z"
)
_NEWLINES = re.compile(r"\r+\n?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Cleaner:
    """Bytes in, readable text out; nothing is torn at the seams between pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._returns = ""

    def feed(self, data: bytes, *, end: bool = False) -> str:
        """The text of the next piece; what may belong to a later one is held back."""
        text = self._held + self._decoder.decode(data, end)
        self._held = ""
        if not end:
            partial = _UNFINISHED.search(text, max(0, len(text) - _PARTIAL_LIMIT))
            if partial:
                self._held = partial[0]
                text = text[: partial.start()]
        if "\x1b" in text or "\x9b" in text:
            text = _ESCAPES.sub("", text)
        return _CONTROLS.sub("", self._with_newlines(text, end))

    def _with_newlines(self, text: str, end: bool) -> str:
        if "\r" not in text and not self._returns:
            return text
        text, self._returns = self._returns + text, ""
        if not end:
            kept = text.rstrip("\r")
            self._returns, text = text[len(kept) :][:1], kept
        return _NEWLINES.sub("\n", text)


class KeptFile:
    """A private file for one run's output without its secrets, up to a limit."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = keep("", folder, name)
        self.taken = 0
        """Characters it was given."""
        self.size = 0
        """Characters in the file."""
        self.full = False
        """Whether the limit is reached; what came later is not in the file."""
        self._masker = Masker()
        self._file = self.path.open("a", encoding="utf-8", errors="replace")
        _make_room(folder, self.path)

    def write(self, text: str, *, end: bool = False) -> None:
        """Add text, as far as it fits; a line is in the file once it has ended."""
        if self.full:
            return
        self.taken += len(text)
        masked = self._masker.feed(text, end=end)[: FILE_LIMIT - self.size]
        self._try(lambda: self._file.write(masked))
        self.size += len(masked)
        self.full = self.full or self.size >= FILE_LIMIT

    def flush(self) -> None:
        """Let readers see what was written."""
        if not self._file.closed:
            self._try(self._file.flush)

    def close(self) -> None:
        """Done writing."""
        if not self._file.closed:
            self.write("", end=True)
        self._try(self._file.close)

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            # A full disk must not cost the command its result.
            log.warning("Output can no longer be kept in %s: %s", self.path, error)
            self.full = True


class Tail:
    """The last bytes of an endless stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        """Append, forgetting the oldest."""
        self._pieces.append(data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.popleft())

    def text(self) -> str:
        """What is left, from the start of a line where there is one."""
        data = b"".join(self._pieces)[-self._limit :]
        return Cleaner().feed(data.partition(b"\n")[2] or data, end=True)


class OutputBuffer:
    """Everything a foreground command prints, for its result."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._cleaner = Cleaner()
        self._start = ""
        self._recent = ""
        self._file: KeptFile | None = None
        self._skipped_bytes = 0
        self._raw_tail = Tail(TAIL)

    def feed(self, data: bytes, *, end: bool = False) -> str:
        """Take the next bytes; returns their text, for those who watch."""
        if self._file is not None and self._file.full:
            self._skipped_bytes += len(data)
            if data:
                self._raw_tail.add(data)
            return Cleaner().feed(data[-_PARTIAL_LIMIT:], end=True)
        text = self._cleaner.feed(data, end=end)
        if self._file is not None:
            self._file.write(text)
        elif len(self._start) + len(self._recent) + len(text) > HEAD + TAIL:
            self._file = KeptFile(self._folder, self._name)
            self._file.write(self._start + self._recent + text)
        room = max(0, HEAD - len(self._start))
        self._start += text[:room]
        self._recent = (self._recent + text[room:])[-TAIL:]
        return text

    def finish(self) -> str:
        """The text: whole if it is short, else head and tail and where to find the rest."""
        self.feed(b"", end=True)
        if self._file is None:
            return self._start + self._recent
        self._file.close()
        head = _until_last_line(self._start)
        tail = self._raw_tail.text() if self._skipped_bytes else _from_next_line(self._recent)
        left_out = self._file.taken + self._skipped_bytes - len(head) - len(tail)
        if self._skipped_bytes:
            note = (
                f"[… about {left_out:,} characters left out; read_file {self._file.path} shows the"
                f" first {self._file.size:,} …]"
            )
        else:
            note = f"[… {left_out:,} characters left out; read_file {self._file.path} shows all …]"
        return f"{head}\n\n{note}\n\n{tail}"


def _until_last_line(text: str) -> str:
    """Without the line it breaks off in, unless that is a long one."""
    line_end = text.rfind("\n", -_PARTIAL_LIMIT)
    return text if line_end < 0 else text[:line_end]


def _from_next_line(text: str) -> str:
    """Without the line it begins in, unless that is a long one."""
    return text[text.find("\n", 0, _PARTIAL_LIMIT) + 1 :]


class Progress:
    """Live output for people to watch: a few pieces a second, each of a bounded size."""

    INTERVAL = 0.1
    PIECE = 4_000

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._waiting = ""
        self._cut = False
        self._last = 0.0

    def add(self, text: str) -> None:
        """Show it now, or with the next piece."""
        self._waiting += text
        if len(self._waiting) > self.PIECE:
            self._waiting, self._cut = self._waiting[-self.PIECE :], True
        if time.monotonic() - self._last >= self.INTERVAL:
            self.flush()

    def flush(self) -> None:
        """Show what is waiting."""
        if self._waiting:
            self._show("…\n" + self._waiting if self._cut else self._waiting)
            self._waiting, self._cut = "", False
            self._last = time.monotonic()


def _make_room(folder: Path, newest: Path) -> None:
    """Delete the oldest files, of any conversation, until all are within the limit."""
    files = [(status.st_mtime, status.st_size, path) for path, status in kept_files(folder)]
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= FOLDER_LIMIT:
            return
        if path != newest:
            path.unlink(missing_ok=True)
            total -= size
