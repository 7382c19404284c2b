"""Standard output while a plugin's code runs: what it prints goes to the log.

Standard output belongs to answers and protocols. Only the threads that run plugin code are
diverted; everything else writes through as if nothing were in between.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger(__name__)

_thread = threading.local()
_LONGEST_LINE = 2_000


class _Diverted:
    """A text stream that is the real one, except in threads that run a plugin's code."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def write(self, text: str) -> int:
        owner = getattr(_thread, "owner", None)
        if owner is None:
            return int(self._real.write(text))
        if text.strip():
            log.info("%s printed: %s", owner, text.rstrip()[:_LONGEST_LINE])
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def diverted(owner: str) -> Iterator[None]:
    """Send what this thread prints to the log, as `owner`'s, for the length of the block."""
    # Looked at each time: front ends and tests put streams of their own in its place.
    if sys.stdout is not None and type(sys.stdout) is not _Diverted:
        sys.stdout = _Diverted(sys.stdout)
    before = getattr(_thread, "owner", None)
    _thread.owner = owner
    try:
        yield
    finally:
        _thread.owner = before
