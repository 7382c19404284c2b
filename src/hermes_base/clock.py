"""A clock for judging by oneself whether a lease still counts.

Others judge by the store's clock, which goes on while this machine is suspended (a closed laptop, a
virtual machine that was paused or moved). `time.monotonic` stands still meanwhile on Linux and
macOS: after waking up a holder would think for a moment that its lease was confirmed just now, and
act under it, though somebody else may have it. So what a holder concludes by itself is measured
with a clock that counts the time asleep, too: CLOCK_BOOTTIME, or CLOCK_MONOTONIC where that does
(macOS); `time.monotonic` where there is neither. None of them can be set, unlike `time.time`.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def _find_clock() -> Callable[[], float]:
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        number = getattr(time, name, None)
        if number is None:
            continue
        try:
            time.clock_gettime(number)
        except OSError:  # known to Python and not to this kernel, or forbidden in a sandbox
            continue
        return lambda: time.clock_gettime(number)
    return time.monotonic


elapsed: Callable[[], float] = _find_clock()
"""Seconds since some moment, those that the machine was suspended included."""
