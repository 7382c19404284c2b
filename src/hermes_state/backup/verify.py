"""Verifies a continuous backup by restoring it into a temporary folder."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from hermes_base.files import write_private

from ..errors import StoreCorruptedError, StoreError, StoreUnavailableError
from .chain import (
    SCRATCH,
    STORE,
    ancestors,
    check_state,
    folder_lock,
    forget_newest,
    missing_newest,
    rebuild,
    replay,
    write_files,
)
from .copies import check_copy
from .point import Facts, Point, list_points

PROVEN = "proven.json"
"""In the folder of the points: which of them was last restored aside, and when."""


class Proof(NamedTuple):
    """The last time that a point was restored and everything was there."""

    number: int
    proven_at: float


class Verdict(NamedTuple):
    """The result for one point."""

    number: int
    at: float | None
    sessions: int
    messages: int
    damage: str
    """Why it cannot be restored; empty if it can."""
    findings: tuple[str, ...] = ()
    """Problems of the store itself when the point was made."""


def verify_points(folder: Path, *, all_points: bool = False) -> list[Verdict]:
    """Go back to the newest point, or to every one, in a temporary folder, and look at it.

    The store is read from beginning to end, opened, counted and checked against its rules. If the
    newest is damaged, all are looked at, to know which are still good, and the next point that is
    added will be a base.
    """
    if not folder.is_dir():
        raise StoreUnavailableError(f"There is no folder {folder}.")
    with folder_lock(folder, shared=True):
        points = list_points(folder)
        lost = missing_newest(folder)
        verdicts = []
        if lost:
            verdicts = [Verdict(lost, None, 0, 0, f"Point {lost}, the newest, is missing.")]
        if not points and not lost:
            raise StoreUnavailableError(f"There are no points in {folder}.")
        if not lost and not all_points:
            verdicts = [_verified(folder, points, points[-1])]
            if not verdicts[0].damage:
                _note_proof(folder, verdicts[0])
                return verdicts
            verdicts = []
        verdicts = [*_verify_all(folder, points), *verdicts]
        if not verdicts[-1].damage:
            _note_proof(folder, verdicts[-1])
        elif not lost and os.access(folder, os.W_OK):
            forget_newest(folder)
        return verdicts


def last_proof(folder: Path) -> Proof | None:
    """When a point was last restored aside, and which; None if none ever was."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads((folder / PROVEN).read_text(encoding="utf-8"))
        return Proof(int(noted["number"]), float(noted["proven_at"]))
    return None


def _note_proof(folder: Path, verdict: Verdict) -> None:
    if os.access(folder, os.W_OK):  # a folder of others may be looked at too
        noted = Proof(verdict.number, time.time())._asdict()
        write_private(folder / PROVEN, json.dumps(noted), durable=False)


def _room(folder: Path) -> Path | None:
    """Where a point is rebuilt: beside the others, or where the system keeps such things."""
    return folder if os.access(folder, os.W_OK) else None


def _verified(folder: Path, points: list[Point], point: Point) -> Verdict:
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=_room(folder)) as scratch:
        try:
            facts = rebuild(points, point, Path(scratch))
            return _opened(Path(scratch) / STORE, facts)
        except StoreError as error:
            return Verdict(point.number, point.at, 0, 0, str(error))


def _verify_all(folder: Path, points: list[Point]) -> list[Verdict]:
    """Every point, each chain gone through once."""
    verdicts: dict[int, Verdict] = {}
    continued = {point.parent for point in points}
    for leaf in points:
        if leaf.number in continued:
            continue
        try:
            chain = ancestors(points, leaf)
        except StoreCorruptedError:
            chain = []
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=_room(folder)) as scratch:
            try:
                every: list[Facts] = []
                for point, facts in replay(chain, Path(scratch) / "chain.db"):
                    every.append(facts)
                    if point.number not in verdicts:
                        verdicts[point.number] = _looked_at(Path(scratch), chain, every)
            except StoreCorruptedError:
                pass  # each of those that are left says below what it suffers from
    for point in points:
        if point.number not in verdicts:
            verdicts[point.number] = _verified(folder, points, point)
    return [verdicts[number] for number in sorted(verdicts)]


def _looked_at(scratch: Path, chain: list[Point], every: list[Facts]) -> Verdict:
    """The point up to which a chain was replayed, the last of those whose facts are given."""
    point = chain[len(every) - 1]
    copy = scratch / str(point.number)
    copy.mkdir()
    try:
        check_state(scratch / "chain.db", every[-1])
        write_files(chain[: len(every)], every, copy)
        shutil.copyfile(scratch / "chain.db", copy / STORE)
        return _opened(copy / STORE, every[-1])
    except StoreError as error:
        return Verdict(point.number, point.at, 0, 0, str(error))
    finally:
        shutil.rmtree(copy)


def _opened(store: Path, facts: Facts) -> Verdict:
    """Use the rebuilt store as one would after going back."""
    from ..db import SessionDB

    held = check_copy(store)
    if (held.sessions, held.messages) != (facts.sessions, facts.messages):
        raise StoreCorruptedError(
            f"Point {facts.number} holds {held.sessions} sessions and {held.messages} messages"
            f" instead of {facts.sessions} and {facts.messages}."
        )
    with SessionDB(store) as db:
        findings = tuple(finding.problem for finding in db.check_store())
    return Verdict(facts.number, facts.at, held.sessions, held.messages, "", findings)
