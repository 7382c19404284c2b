"""Notes that arrive while the plain chat waits for a line interrupt the prompt.

A note (the end of a background process, say) that is stored while nobody types interrupts the
prompt by a signal, so that its turn runs where every turn does. Somebody who is typing is not
interrupted.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

TYPING_SECONDS = 0.3
"""Between two checks whether somebody still types."""


class WokenError(Exception):
    """The prompt was interrupted for a note."""


class Prompt:
    """Reads lines, and can be interrupted while nothing is typed; the main thread only."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_open = False
        """Whether a line is being waited for."""
        self._is_woken = False
        self._main = threading.get_ident()
        self._before: Any = None

    def __enter__(self) -> Prompt:
        if hasattr(signal, "SIGUSR1"):  # not on Windows: there a note waits for the next line
            self._before = signal.signal(signal.SIGUSR1, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGUSR1, self._before)

    def read(self, has_notes: Callable[[], bool]) -> str | None:
        """The next line; None if there is something else to do. EOFError, KeyboardInterrupt."""
        lines: list[str] = []
        self._is_woken = False
        try:
            try:
                self.is_open = True
                if not has_notes():  # one that comes from now on wakes the prompt
                    # No signal may come between the end of a line and its being returned.
                    lines.extend(map(input, [self.text]))
            finally:
                self.is_open = False
        except WokenError:
            pass
        return lines[0] if lines else None

    def wake(self) -> None:
        """Leave the prompt as soon as nobody types, if it is open; from any thread."""
        if self.is_open and self._before is not None:
            threading.Thread(target=self._wake, name="hermes-wake", daemon=True).start()

    def _wake(self) -> None:
        while self.is_open and not self._is_woken:
            if not _is_typing():
                self._is_woken = True
                signal.pthread_kill(self._main, signal.SIGUSR1)
                return
            time.sleep(TYPING_SECONDS)

    def _on_signal(self, number: int, frame: Any) -> None:
        if self.is_open and self._is_woken:
            raise WokenError


def _is_typing() -> bool:
    readline = sys.modules.get("readline")
    return readline is not None and bool(readline.get_line_buffer())
