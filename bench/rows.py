"""One line of the common table: figures of every side, and how they compare.

A figure is a median with half its interquartile range. A ratio says how many times better ours is,
whichever way better points, and is taken round by round where the sides took turns. Ours is called
behind or ahead only where the difference is larger than the spread of both and than 5 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SIDES = ("ours", "theirs", "bare")
SMALLEST_DIFFERENCE = 0.05


@dataclass(frozen=True)
class Row:
    """What was measured, on every side that was."""

    key: str
    """Its name for programs, such as `store.append`."""
    what: str
    """What it is, in words."""
    unit: str
    samples: dict[str, list[float]]
    """What each round gave, by side: `ours`, `theirs` (hermes-agent) and `bare`."""
    higher: bool = False
    """Whether more is better; else less is."""
    differs: str = ""
    """What the sides do not have in common; nothing if they do the same work."""
    bare: str = ""
    """What the bare side is, in words."""
    absent: str = ""
    """Why hermes-agent was not measured."""
    fault: str = ""
    """What should never be, in words, if it was: it outweighs every ratio."""

    @classmethod
    def of(
        cls,
        key: str,
        what: str,
        unit: str,
        samples: Mapping[str, Sequence[float]],
        scale: float = 1.0,
        **more: Any,
    ) -> Row:
        """A row of samples that are shown in another unit than they were measured in."""
        scaled = {side: [value * scale for value in found] for side, found in samples.items()}
        return cls(key, what, unit, scaled, **more)

    def times_better(self, other: str) -> float | None:
        """How many times better ours is than `other`; None where that cannot be said."""
        mine, his = self.samples.get("ours", []), self.samples.get(other, [])
        if not mine or not his:
            return None
        pairs = list(zip(mine, his, strict=True)) if len(mine) == len(his) else []
        if not pairs or min(map(min, pairs)) <= 0:
            pairs = [(statistics.median(mine), statistics.median(his))]
        if min(pairs[0]) <= 0:
            return None
        return statistics.median(a / b if self.higher else b / a for a, b in pairs)

    def verdict(self, other: str = "theirs") -> str:
        """`ahead`, `level` or `behind`; empty where there is nothing to compare with."""
        times = self.times_better(other)
        if times is None:
            return ""
        noise = sum(_relative_spread(self.samples[side]) for side in ("ours", other))
        least = 1 + max(SMALLEST_DIFFERENCE, noise)
        return "ahead" if times > least else "behind" if times < 1 / least else "level"

    def figure(self, side: str) -> str:
        """The median with its spread and unit, as it is shown; empty if it was not measured."""
        values = self.samples.get(side)
        if not values:
            return ""
        middle, half = statistics.median(values), half_range(values)
        shown = number(middle)
        if half and len(values) > 2:
            shown += f" ± {number(half, like=middle)}"
        return f"{shown} {self.unit}".strip()


@dataclass
class Report:
    """A whole run."""

    rows: list[Row]
    facts: dict[str, Any]
    """Cores, Python, SQLite and the like; whether it was quick; what hermes-agent's state is."""
    failed: dict[str, str] = field(default_factory=dict)
    """Benchmarks that could not be run, with the reason."""


def half_range(values: Sequence[float]) -> float:
    """Half the interquartile range; 0 for fewer than three values."""
    if len(values) < 3:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def _relative_spread(values: Sequence[float]) -> float:
    return half_range(values) / statistics.median(values)


def number(value: float, like: float | None = None) -> str:
    """A figure with three digits that count, or with as many decimals as `like` is shown with."""
    size = abs(value if like is None else like)
    if value == int(value) and like is None:
        return f"{value:,.0f}"
    if value >= 1000:
        value = round(value, 2 - math.floor(math.log10(value)))
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2}f}"
