"""Signals while a conversation runs: Ctrl-C stops the answer, SIGTERM and SIGHUP end the program.

Both only ask the running turn to stop: it stores its end and returns, and then the program leaves
in order. A second Ctrl-C in one turn does not wait for that any longer.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupts:
    """Signal handlers for the time of a `with` block; the main thread only.

    `stop_turn` asks a running turn to stop and says whether there was one.
    """

    def __init__(self, stop_turn: Callable[[], bool]) -> None:
        self._stop_turn = stop_turn
        self._asked = False
        self._before: dict[int, Any] = {}
        self.leaving = False
        self.exit_code = 0

    def turn_begins(self) -> None:
        """Forget earlier Ctrl-Cs: each turn has its own."""
        self._asked = False

    def __enter__(self) -> Interrupts:
        self._set(signal.SIGINT, self._on_ctrl_c)
        self._set(signal.SIGTERM, self._on_end)
        if hasattr(signal, "SIGHUP"):  # not on Windows
            self._set(signal.SIGHUP, self._on_end)
            self._set(signal.SIGURG, lambda number, frame: None)
            self._nudge_after_each()
        return self

    def _set(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        self._before[number] = signal.signal(number, handler)

    def __exit__(self, *_: object) -> None:
        if hasattr(signal, "SIGHUP"):
            os.close(signal.set_wakeup_fd(-1))
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _nudge_after_each(self) -> None:
        """Wake the main thread up shortly after each signal.

        A signal that comes just before the prompt waits for a key would be noticed only with that
        key.
        """
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        main = threading.get_ident()

        def watch() -> None:
            with os.fdopen(reader, "rb", buffering=0) as arrived:
                while number := arrived.read(1):
                    if number[0] != signal.SIGURG:
                        time.sleep(0.05)
                        signal.pthread_kill(main, signal.SIGURG)

        threading.Thread(target=watch, name="hermes-signals", daemon=True).start()

    def _on_ctrl_c(self, number: int, frame: FrameType | None) -> None:
        if self._asked or not self._stop_turn():
            raise KeyboardInterrupt
        self._asked = True

    def _on_end(self, number: int, frame: FrameType | None) -> None:
        self.leaving = True
        self.exit_code = 128 + number
        if not self._stop_turn():
            raise SystemExit(self.exit_code)
