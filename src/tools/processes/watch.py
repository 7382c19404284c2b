"""Lines of a background process that its conversation wants to hear of.

Patterns are plain texts, so that looking takes linear time whatever a process prints. What matches
within an interval is reported together, and a process has a limited number of reports.
"""

from __future__ import annotations

import time

from ..base import ToolError

MOST_PATTERNS = 20
LONGEST_PATTERN = 200
INTERVAL = 10.0
"""Seconds between two reports: a pattern that matches all the time must not flood anybody."""
MOST_REPORTS = 20
MOST_LINES = 10
"""Of one report."""
LONGEST_LINE = 500
_KEPT = 2_000
"""Characters of a line without an end that are looked at again with what comes next."""


def check_patterns(patterns: list[str]) -> list[str]:
    """The patterns that are texts; ToolError if they are too many or too long."""
    wanted = [pattern for pattern in patterns if pattern]
    if len(wanted) > MOST_PATTERNS or any(len(pattern) > LONGEST_PATTERN for pattern in wanted):
        raise ToolError(
            f"watch_patterns takes at most {MOST_PATTERNS} texts of {LONGEST_PATTERN} characters."
        )
    return wanted


class Watcher:
    """Finds lines with certain texts in them, and reports them not too often."""

    def __init__(self, patterns: list[str]) -> None:
        self._patterns = patterns
        self._line = ""
        self._matches: list[tuple[str, str]] = []
        self._more = 0
        self._reports = 0
        self._last = -INTERVAL

    def feed(self, text: str) -> None:
        """Look at what was printed."""
        if not self._patterns or self._reports >= MOST_REPORTS:
            return
        lines = (self._line + text).split("\n")
        self._line = lines[-1][-_KEPT:]
        for number, line in enumerate(lines, 1):
            pattern = next((pattern for pattern in self._patterns if pattern in line), None)
            if pattern is None:
                continue
            if len(self._matches) < MOST_LINES:
                self._matches.append((pattern, line[:LONGEST_LINE]))
            else:
                self._more += 1
            if number == len(lines):
                self._line = ""  # it may be a prompt, and is not to match again

    def report(self, *, ended: bool = False) -> str | None:
        """What was found since the last report; None if there is nothing, or it is too soon.

        A process that has `ended` reports without delay.
        """
        now = time.monotonic()
        if not self._matches or (now - self._last < INTERVAL and not ended):
            return None
        self._last = now
        self._reports += 1
        texts = ", ".join(dict.fromkeys(repr(pattern) for pattern, _ in self._matches))
        what = "a line" if len(self._matches) == 1 else f"{len(self._matches)} lines"
        lines = [f"printed {what} with {texts}]", *(line for _, line in self._matches)]
        if self._more:
            lines.append(f"[and {self._more} more such lines]")
        if self._reports == MOST_REPORTS:
            lines.append("[it has been reported on often enough; further lines are not reported]")
        self._matches, self._more = [], 0
        return "\n".join(lines)
