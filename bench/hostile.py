"""Foreign text made to be slow: sixteen times as much of it takes about sixteen times as long.

Every reader of what others wrote gets texts of 64 kB, 256 kB and 1 MB that are made of one hostile
piece. What counts is the time of the processor for the longest beside that for the shortest, in the
same run; a reader that looks at its text again and again would need 256 times as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .hostile_readers import Reader, readers
from .lab import Lab, Measurement, run_all
from .measure import Finding, progress

SIZES, QUICK_SIZES = (65_536, 262_144, 1_048_576), (16_384, 65_536, 262_144)
GROWTH = 2.5
"""How much more than in proportion the time may grow from the shortest to the longest text."""
_SHORTEST = 0.002
"""Seconds below which nothing can be said of growth."""


class Timing(NamedTuple):
    """What one hostile piece costs a reader."""

    growth: float
    """How much more than in proportion the time grew."""
    seconds: float
    """For the longest text."""
    piece: str


def time_piece(
    reader: Reader,
    piece: str,
    sizes: tuple[int, ...],
    clock: Callable[[], float] = time.process_time,
) -> Timing:
    """Read the shortest and the longest text, the quicker of two times each."""
    most = reader.longest or sizes[-1]
    longest = min(sizes[-1], most)
    shortest = min(max(longest * sizes[0] // sizes[-1], reader.shortest), longest // 2)
    times = [
        min(_seconds(reader, piece, size, clock) for _ in range(2)) for size in (shortest, longest)
    ]
    in_proportion = max(times[0], _SHORTEST) * longest / shortest
    return Timing(times[1] / in_proportion, times[1], piece)


def _seconds(reader: Reader, piece: str, size: int, clock: Callable[[], float]) -> float:
    room = size - len(reader.before) - len(reader.after)
    text = reader.before + (piece * (room // len(piece) + 1))[:room] + reader.after
    started = clock()
    reader.read(text)
    return clock() - started


def _finding(name: str, reader: Reader, sizes: tuple[int, ...]) -> Finding:
    progress(f"hostile texts for: {name}")
    timings = [time_piece(reader, piece, sizes) for piece in reader.pieces]
    worst, slowest = max(timings), max(timings, key=lambda timing: timing.seconds)
    size = min(sizes[-1], reader.longest or sizes[-1])
    return Finding(
        f"{name}, the worst of {len(timings)} hostile texts",
        f"{slowest.seconds:.2f} s for {size // 1024:,} KiB",
        ratio=worst.growth,
        goal=f"time grows at most {GROWTH} times as much as the text ({worst.piece!r})",
        met=worst.growth <= GROWTH,
        details={"timings": timings},
    )


def _measurement(name: str) -> Callable[[Lab], list[Finding]]:
    def measure(lab: Lab) -> list[Finding]:
        return [_finding(name, readers()[name], QUICK_SIZES if lab.quick else SIZES)]

    return measure


def all_readers(lab: Lab) -> list[Finding]:
    """Every reader."""
    return [found for name in readers() for found in _measurement(name)(lab)]


def masking(lab: Lab) -> list[Finding]:
    """What hides secrets."""
    names = ("redact", "redact, JSON", "mask in pieces")
    return [found for name in names for found in _measurement(name)(lab)]


MEASUREMENTS: dict[str, Measurement] = {"readers": all_readers, "masking": masking}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure every reader of foreign text, or only the masking, and print what was found."""
    return run_all("hostile", MEASUREMENTS, list(parts) or ["readers"])
