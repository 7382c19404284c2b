"""Showing a download on standard error: a bar in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done; the last call says that all are."""

_WIDTH = 30


def terminal_progress(label: str, stream: TextIO | None = None) -> Progress:
    """A `Progress` that shows `label` and how far it is on `stream` (standard error)."""
    stream = sys.stderr if stream is None else stream
    draw = _bar(label, stream) if stream.isatty() else _lines(label, stream)

    def progress(done: int, total: int) -> None:
        draw(min(100, done * 100 // max(total, 1)), total)

    return progress


def _bar(label: str, stream: TextIO) -> Callable[[int, int], None]:
    shown = -1

    def draw(percent: int, total: int) -> None:
        nonlocal shown
        if percent <= shown:
            return
        shown = percent
        filled = percent * _WIDTH // 100
        bar = "█" * filled + "░" * (_WIDTH - filled)
        end = "\n" if percent == 100 else ""
        stream.write(f"\r{label} {bar} {percent:3d}% of {_megabytes(total)}{end}")
        stream.flush()

    return draw


def _lines(label: str, stream: TextIO) -> Callable[[int, int], None]:
    drawn = -1

    def draw(percent: int, total: int) -> None:
        nonlocal drawn
        step = percent // 50
        if step <= drawn:
            return
        drawn = step
        news = (f"({_megabytes(total)}) …", "half done …", "done.")[step]
        stream.write(f"{label} {news}\n")
        stream.flush()

    return draw


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"
