"""File descriptors are finite: how many there are, and which connections give theirs up first.

A listener that runs out of descriptors must go on: it drops a stranger (a connection that has not
authenticated yet) and tries again. Strangers are few at any time, so that they can never hold all
the descriptors; the oldest is dropped first, since a client with a key shows it at once. Where
many clients may connect in the same moment, nobody is dropped before `GRACE_SECONDS`: those who
do not fit yet wait in the listener's queue.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What `accept` fails with when descriptors or memory for sockets have run out."""
RETRY_SECONDS = 0.05
"""How long a listener waits before it accepts again after that."""
ENOUGH = 65_536
"""What the limit is raised to at most: some programs walk through all descriptors there may be."""
GRACE_SECONDS = 0.5
"""How long a stranger is not dropped to make room: a client's key may be on its way."""
_ASSUMED = 256
"""The limit where it cannot be asked for."""


def descriptor_limit() -> int:
    """How many descriptors this process may have open."""
    try:
        import resource
    except ImportError:  # Windows
        return _ASSUMED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENOUGH if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> int:
    """Use as many descriptors as this process is allowed, up to ENOUGH; returns the limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _ASSUMED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS refuses some numbers; what there is has to do.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return descriptor_limit()


class Strangers:
    """Connections that have not authenticated yet, in the order they came; safe for threads."""

    def __init__(self, most: int, descriptors_each: int = 1, grace: float = 0.0) -> None:
        """At most `most` at once, and never with more than a quarter of all descriptors.

        To make room, nobody is dropped who came less than `grace` seconds ago.
        """
        self._grace = grace
        self.most = max(2, min(most, descriptor_limit() // 4 // descriptors_each))
        self._drops: dict[Hashable, tuple[float, Callable[[], None] | None]] = {}
        """When each came, and how it is dropped; None if it has been, and has not ended yet."""
        self._lock = threading.Lock()

    def add(self, connection: Hashable, drop: Callable[[], None]) -> None:
        """Count a connection. `drop` makes it end soon, and may be called in any thread."""
        with self._lock:
            self._drops[connection] = time.monotonic(), drop

    def discard(self, connection: Hashable) -> None:
        """A connection has authenticated, or has ended."""
        with self._lock:
            self._drops.pop(connection, None)

    def make_room(self) -> bool:
        """Whether one more may come; if not, the oldest are dropped: retry in a moment."""
        if len(self._drops) < self.most:
            return True
        self._drop_oldest(self.most // 2, time.monotonic() - self._grace)
        return False

    def drop(self) -> None:
        """Drop the older half, whenever they came: there are no descriptors left."""
        self._drop_oldest(max(1, len(self._drops) // 2), time.monotonic())

    def _drop_oldest(self, count: int, came_until: float) -> None:
        """Drop up to `count` of those that had come by then. Those dropped before count too."""
        with self._lock:
            dropping = []
            for connection in list(self._drops)[:count]:
                came, drop = self._drops[connection]
                if came > came_until:
                    break
                self._drops[connection] = came, None
                dropping.append(drop)
        for drop in dropping:
            if drop is not None:
                drop()

    def ended(self, has_ended: Callable[[Any], bool]) -> None:
        """Forget connections that have ended, for callers that get no notification of it."""
        with self._lock:
            for connection in [drop for drop in self._drops if has_ended(drop)]:
                del self._drops[connection]
