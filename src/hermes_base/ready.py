"""Waiting until one of several descriptors can be read.

`select.select` refuses descriptors above 1023, which a process with many connections has.
"""

from __future__ import annotations

import math
import select
from collections.abc import Iterable


def wait_readable(descriptors: Iterable[int], seconds: float | None = None) -> set[int]:
    """Those that can be read or were closed by the other end; none if the time is over."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    milliseconds = None if seconds is None else math.ceil(seconds * 1000)
    return {descriptor for descriptor, _ in poll.poll(milliseconds)}
