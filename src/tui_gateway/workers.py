"""A few threads for requests that may take long.

They are started as they are needed. When all are busy and many requests wait, whoever brings the
next one waits too: a client that floods the server is slowed down, and memory stays bounded.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

WAITING = 256
"""Requests that may wait for a thread."""


class Workers:
    """Runs jobs beside each other."""

    def __init__(self, most: int | None = None) -> None:
        """`most` threads; HERMES_TUI_RPC_POOL_WORKERS, or 8, if it is not given."""
        self._most = most or _configured()
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue(WAITING)
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def run(self, job: Callable[[], None]) -> None:
        """Do `job`, which must not raise, in one of the threads."""
        with self._lock:
            needed = self._idle <= self._jobs.qsize() and self._threads < self._most
            self._threads += needed
        if needed:
            threading.Thread(target=self._work, name="hermes-request", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._jobs.get()
            with self._lock:
                self._idle -= 1
            job()
            del job  # it holds a frame, which may be large


def _configured() -> int:
    given = os.environ.get("HERMES_TUI_RPC_POOL_WORKERS", "")
    return max(1, int(given)) if given.isdecimal() else 8
