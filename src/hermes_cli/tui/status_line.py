"""The last line of the screen: what is going on, and where."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from .texts import cost, one_line, seconds, tokens

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK = 0.12
MODE_STYLES = {"plan": "bold $background on $accent", "full": "bold $background on $error"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the line shows."""

    state: str = "starting"
    """starting, ready, running, asking or lost."""
    doing: str = ""
    """What the running turn is at."""
    model: str = ""
    title: str = ""
    context_used: int = 0
    context_max: int = 0
    cost_usd: float | None = None
    waiting: int = 0
    """Messages that wait for their turn."""
    mode: str = "guarded"
    """plan, guarded or full; guarded is not mentioned."""
    yolo: bool = False
    """Whether nothing is asked, in whichever mode."""


class StatusLine(Widget):
    """One line: the state on the left; model, context, cost and title on the right."""

    DEFAULT_CSS = """
    StatusLine { height: 1; width: 1fr; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.facts = Facts()
        self._since = time.monotonic()
        self._ticking: Timer | None = None

    def on_mount(self) -> None:
        """Show that it is starting."""
        self._tick_while_busy()

    def set(self, **changes: Any) -> None:
        """Show other facts."""
        before = self.facts
        self.facts = replace(before, **changes)
        if self.facts == before:
            return
        if self.facts.state != before.state:
            if "running" not in (self.facts.state, before.state) or before.state != "asking":
                self._since = time.monotonic()
            self._tick_while_busy()
        self.refresh()

    def _tick_while_busy(self) -> None:
        busy = self.facts.state in ("running", "lost", "starting")
        if busy and self._ticking is None:
            self._ticking = self.set_interval(TICK, self.refresh)
        elif not busy and self._ticking is not None:
            self._ticking.stop()
            self._ticking = None

    def render(self) -> Content:
        """Both halves; the left one stays whole if there is not enough room."""
        width = self.content_size.width
        left = self._left()
        right = self._right(width - left.cell_length - 2)
        gap = " " * max(1, width - left.cell_length - right.cell_length)
        return Content.assemble(left, gap, right).truncate(width)

    def _left(self) -> Content:
        facts = self.facts
        elapsed = time.monotonic() - self._since
        frame = FRAMES[int(elapsed / TICK) % len(FRAMES)]
        if facts.state == "running":
            doing = one_line(facts.doing, 24) or "working"
            parts: list[str | tuple[str, str]] = [
                (frame, "bold $warning"), f" {doing} {seconds(elapsed)}",
                (" · Esc stops", "$muted"),
            ]  # fmt: skip
        elif facts.state == "asking":
            parts = [("?", "bold $accent"), " waits for your answer"]
        elif facts.state == "lost":
            parts = [(frame, "bold $error"), " the server stopped, starting it again"]
        elif facts.state == "starting":
            parts = [(frame, "$muted"), " starting"]
        else:
            parts = [("●", "$success"), " ready", (" · F1 help", "$muted")]
        if facts.mode in MODE_STYLES:
            parts = [(f" {facts.mode} ", MODE_STYLES[facts.mode]), " ", *parts]
        if facts.waiting:
            parts.append((f" · {facts.waiting} waiting", "$warning"))
        return Content.assemble(*parts)

    def _right(self, room: int) -> Content:
        facts = self.facts
        parts = []
        if facts.yolo and facts.mode != "full":
            parts.append("asks nothing")
        if facts.model:
            parts.append(one_line(facts.model, 28))
        if facts.context_max:
            parts.append(
                f"{tokens(facts.context_used)}/{tokens(facts.context_max)}"
                f" {100 * facts.context_used / facts.context_max:.0f}%"
            )
        if cost(facts.cost_usd):
            parts.append(cost(facts.cost_usd))
        text = " · ".join(parts)
        if facts.title:
            left = room - len(text) - 3
            if left >= 8:
                text = f"{text} · {one_line(facts.title, min(left, 40))}"
        return Content.styled(text, "$muted") if len(text) <= room else Content("")
