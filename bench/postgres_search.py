"""Searching a store on a PostgreSQL server, beside the same searches in a store in a file."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from hermes_state import SessionDB

from .corpus import COMMONEST, RARE, Corpus, vocabulary
from .lab import Lab
from .measure import Finding, in_columns, medians, progress
from .rows import Row

FILE = "the same searches in a store in a file"
SIDES = ("ours", "bare")


def measure_search(lab: Lab, address: str, absent: str) -> list[Finding]:
    """The first search on a machine, then searches with nothing and one message new since."""
    stored, rounds = (2_000, 20) if lab.quick else (50_000, 150)
    words = vocabulary()
    asked = (words[1000], RARE, f"{words[300]} {words[400]}", COMMONEST[0], f"{words[300][:3]}*")
    took: dict[str, dict[str, list[float]]] = {"nothing": {}, "one message": {}}
    with (
        SessionDB(lab.folder / "search-ours" / "state.db", server=address) as ours,
        SessionDB(lab.folder / "search-bare" / "state.db") as bare,
    ):
        stores = dict(zip(SIDES, (ours, bare), strict=True))
        for side, db in stores.items():
            progress(f"filling a store to search, {side}: {stored:,} messages")
            _fill(db, stored)
        build = {side: [_seconds(db.search_index.catch_up)] for side, db in stores.items()}
        for new, found in took.items():
            for number in range(rounds):
                text = asked[number % len(asked)]
                for side in SIDES if number % 2 else SIDES[::-1]:
                    db = stores[side]
                    if new != "nothing":
                        db.append_message("s0", "user", f"something new {number}")
                    seconds = _seconds(functools.partial(db.search_messages, text))
                    found.setdefault(side, []).append(seconds)
    where = f"in {stored:,} messages"
    return [
        _finding("build", f"first search {where}: copy and index", "s", build, 1.0, absent),
        *(
            _finding(
                f"search.{new.split()[0]}", f"search {where}, {new} new", "ms", found, 1e3, absent
            )
            for new, found in took.items()
        ),
    ]


def _fill(db: SessionDB, stored: int) -> None:
    corpus = Corpus(seed=1)
    for first in range(0, stored, 100):
        db.create_session(f"s{first}", "cli", user_id=f"user-{first // 100 % 40}")
        db.append_messages(f"s{first}", corpus.messages(100))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _finding(
    key: str, what: str, unit: str, found: dict[str, list[float]], scale: float, absent: str
) -> Finding:
    return Finding(
        f"server: {what} (bare: in a file)",
        *in_columns(medians(found), f"{{:.2f}} {unit}", scale),
        details=found,
        row=Row.of(
            f"postgres.{key}",
            f"store on PostgreSQL: {what}",
            unit,
            found,
            scale,
            bare=FILE,
            absent=absent,
        ),
    )
