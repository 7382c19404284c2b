"""The first frame: painted with plain escape codes, before anything heavy is imported.

It looks like the empty interface. Keys that are typed meanwhile stay in the terminal's queue, shown
by its own echo, and reach the real interface once it reads them: so the terminal is put into the
mode in which it hands out single keys, and no byte is read here.
"""

from __future__ import annotations

import os
import sys
from typing import Any

ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h\x1b[2J", "\x1b[?1049l"
PROMPT_ROW_FROM_BOTTOM = 2
"""The line with the prompt, counted from the last one, which is the status line."""


class FirstFrame:
    """What is on the screen until the interface takes over."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def paint(self, text: str = "Hermes") -> None:
        """Draw, and take the terminal's echo as the input line."""
        self._single_keys()
        columns, rows = _size()
        prompt_row = max(1, rows - PROMPT_ROW_FROM_BOTTOM)
        rule = "─" * columns
        parts = [
            ENTER_SCREEN,
            f"\x1b[2;3H\x1b[1m{text}\x1b[0m",
            f"\x1b[{prompt_row - 1};1H\x1b[2m{rule}\x1b[0m",
            f"\x1b[{prompt_row + 1};1H\x1b[2m{rule}\x1b[0m",
            f"\x1b[{rows};2H\x1b[2mstarting …\x1b[0m",
            f"\x1b[{prompt_row};1H› ",
        ]
        sys.stdout.write("".join(parts))
        sys.stdout.flush()

    def restore_mode(self) -> None:
        """Put the terminal's mode back as it was before, once nothing reads keys any more."""
        if self._before is not None:
            import contextlib
            import termios

            with contextlib.suppress(termios.error):  # a terminal that is gone has no mode
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._before)
            self._before = None

    def remove(self) -> None:
        """Give the screen back: there will be no interface."""
        self.restore_mode()
        sys.stdout.write(LEAVE_SCREEN)
        sys.stdout.flush()

    def _single_keys(self) -> None:
        try:
            import termios
        except ImportError:  # Windows: keys are taken when the interface is there
            return
        descriptor = sys.stdin.fileno()
        self._before = termios.tcgetattr(descriptor)
        changed = termios.tcgetattr(descriptor)
        # No lines, and Enter as the interface wants it; Ctrl-C still ends the program.
        changed[0] &= ~termios.ICRNL
        changed[3] &= ~(termios.ICANON | getattr(termios, "ECHOCTL", 0))
        termios.tcsetattr(descriptor, termios.TCSANOW, changed)


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 80, 24
    return size.columns or 80, size.lines or 24
