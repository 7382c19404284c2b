"""What every benchmark needs: repeated measuring, medians, one table, results as JSON.

Things that are compared are measured in turns (A B A B ...), never one after the other, so that
whatever else the machine does meanwhile falls on both. A figure is a median; its spread is kept
beside it in the results.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .rows import Row

T = TypeVar("T")
Side = TypeVar("Side", bound=Hashable)

OUT = Path(__file__).parent / "out"
"""Results and temporary files; not under version control."""


class Spread(NamedTuple):
    """A median with the lowest and the highest of the values it stands for."""

    median: float
    low: float
    high: float
    rounds: int


def spread(values: Sequence[float]) -> Spread:
    """The median of some values, with their range."""
    return Spread(statistics.median(values), min(values), max(values), len(values))


def paired_ratio(ours: Sequence[float], other: Sequence[float]) -> Spread:
    """How often `ours` holds `other`, round by round: what disturbs one round disturbs both."""
    return spread([a / b for a, b in zip(ours, other, strict=True)])


def interleaved(
    sides: Mapping[Side, Callable[[], T]], rounds: int, *, seconds: float | None = None
) -> dict[Side, list[T]]:
    """Call every side once per round, in turns; the first to go changes from round to round.

    After `seconds` no further round is begun, but three are made in any case.
    """
    results: dict[Side, list[T]] = {name: [] for name in sides}
    names = list(sides)
    started = time.perf_counter()
    for number in range(rounds):
        if seconds is not None and number >= 3 and time.perf_counter() - started > seconds:
            progress(f"this takes long: {number} rounds instead of {rounds}")
            break
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            results[name].append(sides[name]())
    return results


@dataclass
class Finding:
    """One line of the table."""

    what: str
    """What was measured, in words."""
    ours: str
    """Our figure, with its unit."""
    bare: str = ""
    """The same done with nothing but SQLite."""
    theirs: str = ""
    """The same on hermes-agent 0.19.0."""
    ratio: float | None = None
    """Ours divided by bare."""
    goal: str = ""
    """What was promised, in words."""
    met: bool | None = None
    """Whether it was kept; None where nothing was promised."""
    details: dict[str, Any] = field(default_factory=dict)
    """The raw numbers, for the results file."""
    row: Row | None = None
    """Its line in the common table, if it has one."""


def medians(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each side."""
    return {side: statistics.median(found) for side, found in values.items()}


def in_columns(
    figures: Mapping[str, Any], form: str = "{}", scale: float | None = None
) -> tuple[str, str, str]:
    """The figures of ours, bare and theirs as a Finding takes them; empty for who has none."""
    ours, bare, theirs = (
        ""
        if side not in figures
        else form.format(figures[side] if scale is None else figures[side] * scale)
        for side in ("ours", "bare", "theirs")
    )
    return ours, bare, theirs


_HEAD = ("what", "ours", "bare", "theirs", "ratio", "goal", "met")
_VERDICTS = {True: "yes", False: "NO", None: ""}


def table(findings: Sequence[Finding]) -> str:
    """The findings as text in columns."""
    lines = [
        _HEAD,
        *(
            (
                found.what,
                found.ours,
                found.bare,
                found.theirs,
                "" if found.ratio is None else f"{found.ratio:.2f}",
                found.goal,
                _VERDICTS[found.met],
            )
            for found in findings
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(
            cell.ljust(width) if index in (0, 5) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text)


def verdict(findings: Sequence[Finding]) -> str:
    """One line: how many goals were met, and which were not."""
    judged = [found for found in findings if found.met is not None]
    missed = [found.what for found in judged if not found.met]
    line = f"{len(judged) - len(missed)} of {len(judged)} goals met."
    return f"{line} Missed: {'; '.join(missed)}." if missed else line


_within: list[str] = []


@contextlib.contextmanager
def within(what: str) -> Iterator[None]:
    """Begin every line of progress with `what`, for as long as it takes."""
    _within.append(what)
    try:
        yield
    finally:
        _within.pop()


def progress(text: str) -> None:
    """Say on stderr what is being done."""
    line = " ".join([f"[{time.strftime('%H:%M:%S')}]", *_within, text])
    print(line, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """What a reader must know about the machine to judge absolute figures."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }


def write_results(name: str, findings: Sequence[Finding], facts: Mapping[str, Any]) -> Path:
    """Keep the findings with their raw numbers as `bench/out/<name>.json`."""
    OUT.mkdir(exist_ok=True)
    target = OUT / f"{name}.json"
    content = {"facts": dict(facts), "findings": [asdict(found) for found in findings]}
    target.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return target


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for large files on the disk of the project, gone afterwards."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=OUT) as folder:
        yield Path(folder)
