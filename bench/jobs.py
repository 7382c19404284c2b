"""What jobs cost that are not due: finding the next among 100,000, and a scheduler that waits.

The bare side of finding is the same question to SQLite alone, over the same file.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .lab import Lab, Measurement, run_all
from .measure import Finding, in_columns, interleaved, medians, progress
from .rows import Row

if TYPE_CHECKING:
    from hermes_state import SessionDB

JOBS, QUICK_JOBS = 100_000, 2_000
ROUNDS, QUICK_ROUNDS = 500, 20
IDLE_SECONDS, QUICK_IDLE_SECONDS = 20.0, 1.0
NEXT_GOAL = 0.001
"""Seconds within which the next job is found."""
_NOT_THEIRS = "its jobs are a file, which is read whole"


def _fill(db: SessionDB, count: int) -> None:
    """Jobs of a thousand persons, the next of them due in an hour."""
    first = int(time.time()) + 3600
    for number in range(count):
        due = first + number * 7 % 1_000_000
        db.add_job(
            f"j{number}", user_id=f"p{number % 1000}", name=f"job {number}",
            schedule=f"every 86400 from {due}", timezone="UTC",
            settings={"prompt": "What should I know today?"}, next_due=due, next_at=due,
        )  # fmt: skip


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def find_next(lab: Lab) -> list[Finding]:
    """When the next job is due, among very many."""
    import apsw

    from hermes_state import SessionDB

    count = QUICK_JOBS if lab.quick else JOBS
    progress(f"the next of {count:,} jobs")
    path = lab.folder / "jobs.db"
    with SessionDB(path) as db:
        _fill(db, count)
        bare = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        wanted = "SELECT min(next_at) FROM jobs WHERE state = 'active' AND next_at IS NOT NULL"
        if db.next_job_at() != bare.execute(wanted).fetchone()[0]:
            raise RuntimeError("the next job is not the one that SQLite finds")
        sides = {
            "ours": functools.partial(_seconds, db.next_job_at),
            "bare": functools.partial(_seconds, lambda: bare.execute(wanted).fetchone()),
        }
        times = interleaved(sides, QUICK_ROUNDS if lab.quick else ROUNDS, seconds=30)
        bare.close()
    what = f"jobs: the next of {count:,} found"
    figures = medians(times)
    return [
        Finding(
            what,
            *in_columns(figures, "{:.3f} ms", 1e3),
            ratio=figures["ours"] / figures["bare"],
            goal=f"under {NEXT_GOAL * 1e3:.0f} ms",
            met=figures["ours"] < NEXT_GOAL,
            details=times,
            row=Row.of(
                "jobs.next", what, "ms", times, 1e3, bare="SQLite alone", absent=_NOT_THEIRS
            ),
        )
    ]


def idle(lab: Lab) -> list[Finding]:
    """How often a scheduler asks the store while nothing is due and nobody writes."""
    seconds = QUICK_IDLE_SECONDS if lab.quick else IDLE_SECONDS
    progress(f"a scheduler that waits for {seconds:.0f} s")
    looks, used = asyncio.run(_wait(lab, seconds))
    what = "jobs: looks of an idle scheduler per minute"
    per_minute = [(looks - 1) * 60 / seconds]
    return [
        Finding(
            what,
            f"{per_minute[0]:.1f}",
            goal=f"none after the first ({used * 1e3:.1f} ms of the processor in {seconds:.0f} s)",
            met=looks == 1,
            details={"looks": looks, "seconds": seconds, "processor": used},
            row=Row("jobs.idle", what, "", {"ours": per_minute}, absent="it looks every 60 s"),
        )
    ]


async def _wait(lab: Lab, seconds: float) -> tuple[int, float]:
    """Let a scheduler wait; how often it has asked the store, and the processor's time."""
    from conversation.jobs import JobParts
    from conversation.scheduler import Scheduler
    from hermes_state import AsyncSessionDB, SessionDB

    with SessionDB(lab.folder / "idle.db") as sync:
        _fill(sync, 100)
        nothing: Any = None  # what no job is due for is not asked for
        parts = JobParts(
            AsyncSessionDB(sync), nothing, nothing,
            build=nothing, address=nothing, home=nothing, chat_session=nothing,
        )  # fmt: skip
        scheduler = Scheduler(parts)
        watching = asyncio.create_task(scheduler.watch(lambda: True))
        # What it listens for is set up with its first sleep, which wakes it once.
        await asyncio.sleep(0.5)
        scheduler.looks, began = 1, time.process_time()
        await asyncio.sleep(seconds)
        used, looks = time.process_time() - began, scheduler.looks
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return looks, used


MEASUREMENTS: dict[str, Measurement] = {"next": find_next, "idle": idle}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of what jobs cost, or all, and print what was found."""
    return run_all("jobs", MEASUREMENTS, parts)
