"""How long a search may go on, in seconds of its own work.

What counts is the processor's time for this thread, not what else goes on. But asking for that is a
call to the system in which a busy one takes the processor away, so most searches never ask: nobody
has worked for longer than has passed since the beginning.
"""

from __future__ import annotations

import time

YOUNG = 0.005
"""Seconds after the beginning in which the time that passed is taken for work."""
_MOST_ASSUMED = 0.010  # seconds of the time before the first look at the processor's clock


class WorkClock:
    """Counts down the seconds of work that are left."""

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._began = time.perf_counter()
        self._deadline: float | None = None

    def left(self) -> float:
        """Seconds of work that are left; below 0 when it has taken too long."""
        if self._deadline is None:
            passed = time.perf_counter() - self._began
            if passed < YOUNG:
                return self._budget - passed
            self._deadline = time.thread_time() + self._budget - min(passed, _MOST_ASSUMED)
        return self._deadline - time.thread_time()
