"""A program in a pseudo-terminal, and what a person sees on its screen."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

from .. import forked

PATIENCE = 60.0
"""After so many seconds something has gone wrong for good."""

_SEQUENCE = re.compile(
    r"\x1b(?:\[(?P<args>[0-?]*)(?P<final>[ -/]*[@-~])|[\]P^_].*?(?:\x1b\\|\x07)|[()][AB012]"
    r"|(?![\[\]P^_()])[ -~])",
    re.DOTALL,
)


class Grid:
    """The cells of a terminal, as far as full-screen programs use it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take what the program writes."""
        text = self._rest + text
        self._rest = ""
        at = 0
        while at < len(text):
            character = text[at]
            if character == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:  # its end has not come yet
                    self._rest = text[at:]
                    return
                self._obey(found)
                at = found.end()
                continue
            self._put(character)
            at += 1

    def _put(self, character: str) -> None:
        if character == "\n":
            self.row = min(self.row + 1, self.rows - 1)
        elif character == "\r":
            self.column = 0
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character >= " " and unicodedata.combining(character) == 0:
            if self.column < self.columns:
                self.cells[self.row][self.column] = character
            self.column += 2 if unicodedata.east_asian_width(character) in "WF" else 1

    def _obey(self, found: re.Match[str]) -> None:
        final, written = found["final"], found["args"] or ""
        if final is None:
            return
        if final in "hl" and written == "?1049":
            self._clear()
            return
        if not re.fullmatch(r"[\d;]*", written):
            return
        numbers = [int(one or 0) for one in written.split(";")]
        count = max(1, numbers[0])
        if final in "Hf":
            self.row = min(self.rows, count) - 1
            self.column = max(1, numbers[1] if len(numbers) > 1 else 1) - 1
        elif final == "A":
            self.row = max(0, self.row - count)
        elif final == "B":
            self.row = min(self.rows - 1, self.row + count)
        elif final == "C":
            self.column = min(self.columns - 1, self.column + count)
        elif final == "D":
            self.column = max(0, self.column - count)
        elif final == "J" and numbers[0] == 2:
            self._clear()
        elif final == "K":
            self.cells[self.row][self.column :] = [" "] * (self.columns - self.column)

    def _clear(self) -> None:
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.row = self.column = 0

    def text(self) -> str:
        """What is on the screen."""
        return "\n".join("".join(row).rstrip() for row in self.cells)


class PtyProgram:
    """A program that believes to be in a terminal."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        cwd: Path,
        columns: int = 100,
        rows: int = 30,
        *,
        is_controlling: bool = True,
        start_anew: bool = False,
    ) -> None:
        """A terminal that is not `is_controlling` sends no signal when it is closed.

        The program is forked where it is loaded already, unless the start matters.
        """
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)  # what was there may be flushed before it is read
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.started = time.monotonic()
        open_process = forked.start_process if start_anew else forked.open_process
        self.process = open_process(
            command,
            [slave] * 3,
            # The terminal's size is what counts, not that of whoever runs the tests.
            environ={k: v for k, v in environment.items() if k not in ("COLUMNS", "LINES")},
            cwd=cwd,
            session=True,
            terminal=is_controlling,
        )
        os.close(slave)
        self.grid = Grid(columns, rows)
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def read(self, seconds: float) -> bool:
        """Take what the program writes within some seconds; False at its end."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, seconds))
        if not ready:
            return True
        try:
            piece = os.read(self.master, 65536)
        except BlockingIOError:
            return True
        except OSError:  # Linux's end of file on a terminal
            return False
        text = self._decoder.decode(piece)
        self.raw += text
        self.grid.feed(text)
        return bool(piece)

    def wait_until(self, holds: Callable[[str], bool], what: str) -> str:
        """Read until the screen is as wanted; returns it."""
        deadline = time.monotonic() + PATIENCE
        while not holds(self.grid.text()):
            assert time.monotonic() < deadline, f"{what}; the screen shows:\n{self.grid.text()}"
            alive = self.read(0.5)
            if not alive and not holds(self.grid.text()):
                raise AssertionError(f"The program ended. {what}:\n{self.grid.text()}")
        return self.grid.text()

    def wait_for(self, text: str) -> str:
        """Read until this is on the screen."""
        return self.wait_until(lambda screen: text in screen, f"{text!r} did not appear")

    def wait_gone(self, text: str) -> str:
        """Read until this is not on the screen any more."""
        return self.wait_until(lambda screen: text not in screen, f"{text!r} did not go")

    def exit_code(self) -> int:
        """Read until the program ends; returns its code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"It does not end:\n{self.grid.text()}"
            if not self.read(0.1):
                break
        return int(self.process.wait(PATIENCE))

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
