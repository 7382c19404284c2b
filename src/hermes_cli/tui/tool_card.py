"""A tool's run as a card: what it works on, its output while it comes, its result or the diff."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

from textual.content import Content

from .diffs import coloured, find_diff, planned_diff
from .folding import Folding
from .texts import clean, one_line, seconds

State = Literal["running", "done", "failed", "unknown"]
_SIGNS: dict[State, tuple[str, str]] = {
    "running": ("●", "$warning"),
    "done": ("✓", "$success"),
    "failed": ("✗", "$error"),
    "unknown": ("?", "$warning"),
}
LIVE_LINES = 12
"""Of the output that is still coming."""
RESULT_LINES = 200
OPEN_DIFF_LINES = 40
"""A longer diff is shown when it is asked for."""
KEPT = 200_000


class ToolCard(Folding):
    """One run of a tool."""

    def __init__(
        self, tool_id: str, name: str, context: str = "", arguments: dict[str, Any] | None = None
    ) -> None:
        self.tool_id, self.tool_name = tool_id, name
        self._works_on = context
        self._arguments = arguments or {}
        self._output = ""
        self._result = ""
        self._seconds: float | None = None
        self._began = time.monotonic()
        self.state: State = "running"
        super().__init__()

    @property
    def result(self) -> str:
        """What it came to."""
        return self._result

    def add_output(self, text: str) -> None:
        """It has something to show while it runs."""
        self._output = (self._output + text)[-KEPT:]
        if self.state == "running":
            self.set_class(True, "-open")
        self.changed()

    def finish(self, result: str, *, is_error: bool, duration: float | None = None) -> None:
        """The run has ended; the card stays open if its result should be seen at once."""
        self._result, self._seconds = result, duration
        self.state = "failed" if is_error else "done"
        diff = find_diff(result)
        self.fold(is_error or 0 < len(diff.splitlines()) <= OPEN_DIFF_LINES)

    def leave_unknown(self, result: str) -> None:
        """Its process died while it ran: it may have taken effect or not."""
        self.finish(result, is_error=True)
        self.state = "unknown"
        self.changed()

    def end_unknown(self) -> None:
        """The turn is over and this has no result."""
        if self.state == "running":
            self.finish(self._output, is_error=True)

    def headline(self) -> Content:
        """Sign, name, what it works on, and how long it took."""
        sign, style = _SIGNS[self.state]
        arrow = "▾" if self.is_open else "▸"
        parts: list[str | tuple[str, str]] = [
            f"{arrow} ",
            (sign, style),
            " ",
            (self.tool_name, "bold $foreground"),
            f"  {one_line(self._works_on, 200)}",
        ]
        if self._seconds is not None:
            parts.append((f"  {seconds(self._seconds)}", "$muted"))
        return Content.assemble(*parts)

    def body(self) -> Content:
        """While it runs the end of its output, then its result; a diff in colour."""
        if self.state == "running" and self._output:
            return Content(_last(clean(self._output), LIVE_LINES))
        diff = find_diff(self._result)
        if diff:
            head = clean(self._result.partition(diff.partition("\n")[0])[0]).strip()
            return Content("\n").join([Content(head), coloured(diff)] if head else [coloured(diff)])
        parts = [self._told_arguments()]
        if self._result:
            parts.append(Content(_first(clean(self._result).rstrip(), RESULT_LINES)))
        return Content("\n").join([part for part in parts if part.plain])

    def _told_arguments(self) -> Content:
        diff = planned_diff(self._arguments)
        if diff:
            return coloured(diff)
        lines = []
        for name, value in self._arguments.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if text and text != self._works_on:
                lines.append(f"{name}: {_first(clean(text), LIVE_LINES)}")
        return Content.styled("\n".join(lines), "$secondary")


def _first(text: str, count: int) -> str:
    lines = text.splitlines()
    if len(lines) <= count:
        return text
    return "\n".join([*lines[:count], f"[… {len(lines) - count} more lines]"])


def _last(text: str, count: int) -> str:
    lines = text.splitlines()
    if len(lines) <= count:
        return text
    return "\n".join([f"[{len(lines) - count} lines before]", *lines[-count:]])
