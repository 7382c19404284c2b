"""Threads for requests that may take long, or that must not wait for those of other sessions.

They are started as they are needed. When all are busy and many requests wait, the next request
blocks its sender: a client that floods the server is slowed down, and memory stays bounded.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Hashable

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


class Lanes:
    """Runs jobs of one name one after the other, and those of other names beside them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lanes: dict[Hashable, deque[Callable[[], None]]] = {}
        self._room = threading.BoundedSemaphore(WAITING)

    def run(self, name: Hashable, job: Callable[[], None]) -> None:
        """Do `job`, which must not raise, after those of its name that came before."""
        self._room.acquire()
        with self._changed:
            waiting = self._lanes.get(name)
            if waiting is not None:
                waiting.append(job)
                return
            self._lanes[name] = deque([job])
        threading.Thread(
            target=self._work, args=(name,), name="hermes-request", daemon=True
        ).start()

    def drain(self, seconds: float) -> bool:
        """Wait until everything is done that has come; False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lanes, seconds)

    def _work(self, name: Hashable) -> None:
        while True:
            with self._changed:
                if not self._lanes[name]:
                    del self._lanes[name]
                    self._changed.notify_all()
                    return
                job = self._lanes[name].popleft()
            try:
                job()
            finally:
                self._room.release()


def _configured() -> int:
    given = os.environ.get("HERMES_TUI_RPC_POOL_WORKERS", "")
    return max(1, int(given)) if given.isdecimal() else 8
