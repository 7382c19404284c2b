"""Small drawings of numbers, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = " ▁▂▃▄▅▆▇█"


def bar(value: float, most: float, length: int) -> str:
    """A horizontal bar, as long as `value` is of `most`; something is never nothing."""
    if value <= 0 or most <= 0 or length <= 0:
        return ""
    eighths = max(1, round(value / most * length * 8))
    whole, rest = divmod(min(eighths, length * 8), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def columns(values: Sequence[float], height: int) -> list[str]:
    """Upright columns, one character each, as lines from the top down."""
    most = max(values, default=0)
    if most <= 0:
        return []
    heights = [max(1, round(value / most * height * 8)) if value > 0 else 0 for value in values]
    return [
        "".join(_LEVELS[min(8, max(0, height - level * 8))] for height in heights).rstrip()
        for level in reversed(range(height))
    ]


def spark(values: Sequence[float]) -> str:
    """Columns on a single line."""
    lines = columns(values, 1)
    return lines[0].ljust(len(values)) if lines else " " * len(values)
