"""A discrete-event simulation in its smallest form: a clock, stations with queues, a log's flushes.

Nothing here knows of Hermes; `bench.simulation` builds gateways and a database from it, and
`tests/bench/test_simulation.py` compares it with the formulas of queueing theory.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable

Then = Callable[[], object]
"""What happens next."""


class Clock:
    """Events in the order of their time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Then]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, then: Then) -> None:
        """Let something happen later; what is to happen at the same time happens in order."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), then))

    def run(self, until: float) -> None:
        """Let everything happen up to a moment."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, then = heapq.heappop(events)
            then()
        self.now = until


class Station:
    """Some servers and one queue: who comes first is served first."""

    def __init__(self, clock: Clock, servers: int) -> None:
        self._clock = clock
        self._free = servers
        self._servers = servers
        self._queue: deque[tuple[float, Then]] = deque()
        self.worked = 0.0
        """Seconds of work that were begun."""
        self.longest = 0
        """The most that waited at once."""
        self.is_down = False
        """Nobody is served any more, and nothing comes of what was begun."""

    def use(self, seconds: float, then: Then) -> None:
        """Be served for so long, then go on; with a station that is down, never."""
        if self.is_down:
            return
        if self._free:
            self._begin(seconds, then)
        else:
            self._queue.append((seconds, then))
            self.longest = max(self.longest, len(self._queue))

    def _begin(self, seconds: float, then: Then) -> None:
        self._free -= 1
        self.worked += seconds
        self._clock.after(seconds, lambda: self._end(then))

    def _end(self, then: Then) -> None:
        self._free += 1
        if self.is_down:
            return
        if self._queue:
            self._begin(*self._queue.popleft())
        then()

    def fail(self) -> None:
        """From now on nobody is served; whoever waits is lost."""
        self.is_down = True
        self._queue.clear()

    def busy(self, seconds: float) -> float:
        """The share of its servers' time that was used."""
        return self.worked / (seconds * self._servers)


class Log:
    """A log that is flushed for all who wait for it, one flush at a time."""

    def __init__(self, clock: Clock, flush_seconds: float) -> None:
        self._clock = clock
        self._seconds = flush_seconds
        self._waiting: list[Then] = []
        self._is_flushing = False
        self.flushes = 0
        self.commits = 0

    def commit(self, then: Then) -> None:
        """Go on once what was written is on the disk."""
        self.commits += 1
        self._waiting.append(then)
        if not self._is_flushing:
            self._flush()

    def _flush(self) -> None:
        self._is_flushing = True
        self.flushes += 1
        group, self._waiting = self._waiting, []

        def done() -> None:
            self._is_flushing = False
            if self._waiting:
                self._flush()
            for then in group:
                then()

        self._clock.after(self._seconds, done)
