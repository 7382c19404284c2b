"""Fewer old points of a continuous backup, without a gap in the chain.

A point that goes is merged into the next that stays: that one is written anew, with the newest of
every block, and only then are the old files removed, the later ones first. Killed at any moment,
every point that is still named can be rebuilt.
"""

from __future__ import annotations

import itertools
import logging
import time
from dataclasses import replace
from pathlib import Path

from hermes_base.files import sync_folder

from ..errors import StoreCorruptedError
from .chain import folder_lock, sweep
from .point import (
    BLOCK,
    Facts,
    Point,
    PointWriter,
    blocks_in,
    checked_facts,
    files_in,
    list_points,
)

logger = logging.getLogger(__name__)

AT_ONCE = 16
"""So many are merged together, since every merging writes the next point anew."""


def thin(folder: Path, keep: int, *, at_once: int = AT_ONCE) -> int:
    """Keep the newest `keep` points, and the first of each of the last `keep` hours and days.

    Returns how many went. Waits until `at_once` can go. What would have to be merged with
    something damaged stays as it is.
    """
    with folder_lock(folder):
        sweep(folder)
        points = list_points(folder)
        going = _going(points, keep)
        if len(going) < max(1, at_once):
            return 0
        for point in points:
            if point.number in going:
                continue
            run: list[Point] = []
            try:
                run = _before(points, point, going)
                if run:
                    _merge(folder, [*run, point])
            except StoreCorruptedError as error:
                logger.warning("%s It is not merged.", error)
                going -= {point.number for point in run}
        # A process that is killed here leaves points on which nothing builds; the later go first.
        for point in reversed(points):
            if point.number in going:
                point.path.unlink()
        sync_folder(folder)
    return len(going)


def _going(points: list[Point], keep: int) -> set[int]:
    """The numbers of those that need not stay."""
    if keep < 1:
        raise ValueError("At least one point has to stay.")
    staying = {point.number for point in points[-keep:]}
    for form in ("%Y-%m-%d %H", "%Y-%m-%d"):
        first: dict[str, int] = {}
        for point in points:
            first.setdefault(time.strftime(form, time.localtime(point.at)), point.number)
        staying |= set(list(first.values())[-keep:])
    return {point.number for point in points} - staying


def _before(points: list[Point], point: Point, going: set[int]) -> list[Point]:
    """Those that go and on which this one builds, directly or through each other."""
    by_number = {point.number: point for point in points}
    run: list[Point] = []
    parent = point.parent
    while parent in going:
        run.append(by_number[parent])
        parent = by_number[parent].parent
    return run[::-1]


def _merge(folder: Path, run: list[Point]) -> Point:
    """Write the last of a run of points anew so that it builds on what the first built on."""
    every = [checked_facts(point) for point in run]
    last = every[-1]
    _require_linked(every)
    merged = replace(last, parent=every[0].parent, parent_state=every[0].parent_state)
    count = -(-last.size // BLOCK)
    seen = bytearray(count)
    wanted = dict(last.files)
    with PointWriter(folder) as writer:
        for point, facts in zip(reversed(run), reversed(every), strict=True):
            for number, data in blocks_in(point):
                if number < count and not seen[number]:
                    seen[number] = 1
                    writer.block(number, data)
            for name, content in files_in(point, facts, wanted):
                writer.file(name, content)
                del wanted[name]
        if merged.parent is None and (0 in seen or wanted):
            raise StoreCorruptedError(f"Point {last.number} lacks something of its base.")
        point = writer.finish(merged)
    if point.path != run[-1].path:
        run[-1].path.unlink()
    return point


def _require_linked(every: list[Facts]) -> None:
    for before, after in itertools.pairwise(every):
        if after.parent_state != before.state:
            raise StoreCorruptedError(
                f"Point {after.number} does not continue point {before.number}."
            )
