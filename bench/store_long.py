"""The search after a message of nothing but different words was stored: the index must take it in.

That is the dearest text there is: every word is new to the list of words. What is to be seen is
how time and memory grow with its size.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from hermes_state import SessionDB

from .measure import Finding, progress
from .rows import Row
from .store_lab import Lab

GROWTH = 1.5
"""How many times more a megabyte of the largest may cost than one of the smallest."""
MOST_MEGABYTES = 256.0

_ROUNDS = 3
_NEEDLE = "needle"
_CONSONANTS, _VOWELS = "bcdfgklmnprstvwz", "aeio"


def different_words(size: int) -> str:
    """Text of about so many bytes in which no word occurs twice."""
    shifts = range(0, 20, 4)
    return " ".join(
        "".join(_CONSONANTS[n >> shift & 15] + _VOWELS[n >> shift & 3] for shift in shifts)
        + _CONSONANTS[n >> 20 & 15]
        for n in range(size // 12)
    )


def long(lab: Lab) -> list[Finding]:
    """Seconds and memory of the first search, by the size of the message."""
    seconds: dict[float, list[float]] = {}
    memory: dict[float, list[float]] = {}
    for megabytes in lab.sizes.long_megabytes:
        progress(f"a message of {megabytes:g} MB of different words")
        text = different_words(int(megabytes * 1e6))
        for number in range(_ROUNDS):
            path = lab.folder / f"long-{megabytes:g}-{number}" / "state.db"
            took, peak = _first_search(lab, path, text)
            seconds.setdefault(megabytes, []).append(took)
            memory.setdefault(megabytes, []).append(peak)
    smallest, largest = min(seconds), max(seconds)
    each = {size: statistics.median(found) / size for size, found in seconds.items()}
    growth = each[largest] / each[smallest]
    peak = statistics.median(memory[largest])
    what = f"first search after a message of {largest:g} MB of different words"
    why = "its index is written with the message"
    return [
        Finding(
            f"{what}: for a MB, times what it takes with {smallest:g} MB",
            ours=f"{growth:.2f}",
            goal=f"≤ {GROWTH:g}",
            met=growth <= GROWTH,
            details={"seconds": seconds},
        ),
        Finding(
            what,
            ours=f"{statistics.median(seconds[largest]):.1f} s",
            row=Row.of("search.long", what, "s", {"ours": seconds[largest]}, absent=why),
        ),
        Finding(
            f"{what}: memory",
            ours=f"{peak:.0f} MB",
            goal=f"≤ {MOST_MEGABYTES:.0f} MB",
            met=peak <= MOST_MEGABYTES,
            details={"megabytes": memory},
            row=Row.of(
                "search.long.memory", f"{what}: memory", "MB", {"ours": memory[largest]},
                absent=why,
            ),
        ),
    ]  # fmt: skip


def _first_search(lab: Lab, path: Path, text: str) -> tuple[float, float]:
    """Seconds, and the megabytes by which the memory of the process grew."""
    path.parent.mkdir()
    with SessionDB(db_path=path) as db:
        db.create_session("long", "bench")
        db.append_message("long", "user", text)
        db.append_message("long", "user", f"a {_NEEDLE}")
    with lab.child("ours", path) as child:
        before = child.ask("peak")["bytes"]
        seconds = child.ask("search", text=_NEEDLE, limit=20)["seconds"]
        return seconds, (child.ask("peak")["bytes"] - before) / 1e6
