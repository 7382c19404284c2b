"""Two years of jobs under a simulated clock, against an independent reckoning of when each is due.

    python -m tests.agent.job_clock --jobs 10000 --seed 7

The reckoning shares nothing with `agent.jobs.schedule` but the zones: it walks the days of a
calendar, and asks for each time on the wall which moments show it.

Two schedulers claim every job as they read it, so one of them comes too late every time; and now
and then both sleep through hours or days, after which what was due meanwhile is caught up with.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from agent.jobs.claims import plan
from agent.jobs.job import Job, JobSettings
from agent.jobs.schedule import next_after
from hermes_state import SessionDB
from hermes_state.jobs import Settled

ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
    "Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Tehran",
    "America/St_Johns", "Europe/London", "Pacific/Auckland", "Asia/Kathmandu", "Africa/Cairo",
    "America/Santiago", "Antarctica/Troll", "Asia/Gaza",
)  # fmt: skip
START, END = date(2027, 1, 1), date(2029, 1, 1)
"""With a leap day in the middle."""


@cache
def moments(day: date, hour: int, minute: int, zone: ZoneInfo, *, once: bool) -> list[int]:
    """The moments at which clocks show a time of a day. `once`: the first of them, or if it is left
    out, the first moment at which clocks are past it."""
    local = datetime(day.year, day.month, day.day, hour, minute)
    naive = int((local - datetime(1970, 1, 1)).total_seconds())
    found = []
    for quarter in range(-14 * 4, 14 * 4 + 1):
        moment = naive - quarter * 900
        shown = datetime.fromtimestamp(moment, zone).replace(tzinfo=None)
        if shown == local:
            found.append(moment)
    found.sort()
    if not once:
        return found
    if found:
        return found[:1]
    moment = naive - 15 * 3600
    while datetime.fromtimestamp(moment, zone).replace(tzinfo=None) < local:
        moment += 60
    return [moment]


def values(field: str, low: int, high: int) -> set[int]:
    """The numbers that a field of a cron expression stands for."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        ends = (low, high) if span == "*" else (int(first), int(last or first))
        found |= set(range(ends[0], ends[1] + 1, int(step or 1)))
    return found


@cache
def reckon(expression: str, zone_name: str) -> frozenset[int]:
    """When a cron expression of five fields is due."""
    minutes, hours, days, months, weekdays = expression.split()
    zone, is_open = ZoneInfo(zone_name), hours.startswith("*")
    wanted_days, wanted_weekdays = values(days, 1, 31), values(weekdays, 0, 7)
    either = days != "*" and weekdays != "*"
    due: set[int] = set()
    day = START - timedelta(days=2)
    while day < END + timedelta(days=2):
        of_month, of_week = day.day in wanted_days, day.isoweekday() % 7 in wanted_weekdays
        fits = (of_month or of_week) if either else (of_month and of_week)
        if fits and day.month in values(months, 1, 12):
            for hour in values(hours, 0, 23):
                for minute in values(minutes, 0, 59):
                    due |= set(moments(day, hour, minute, zone, once=not is_open))
        day += timedelta(days=1)
    return frozenset(moment for moment in due if start() < moment <= end())


def start() -> int:
    """The beginning of the simulated time."""
    return int((START - date(1970, 1, 1)).total_seconds())


def end() -> int:
    """Its end."""
    return int((END - date(1970, 1, 1)).total_seconds())


WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class Drawn(NamedTuple):
    """A schedule, and when another reckoning has it due."""

    schedule: str
    zone: str
    due: frozenset[int]


def draw(draws: random.Random) -> Drawn:
    """A schedule; most are due at hours in which clocks change."""
    kind = draws.choices(("cron", "every", "at", "weeks", "months"), (76, 8, 4, 6, 6))[0]
    zone = draws.choice(ZONES)
    if kind == "cron":
        expression = _draw_cron(draws)
        return Drawn(f"cron {expression}", zone, reckon(expression, zone))
    if kind == "every":
        seconds, anchor = draws.randrange(50_000, 900_000), start() - draws.randrange(900_000)
        due = frozenset(m for m in range(anchor, end() + 1, seconds) if m > start())
        return Drawn(f"every {seconds} from {anchor}", zone, due)
    if kind == "at":
        moment = draws.randrange(start() + 1, end())
        return Drawn(f"at {moment}", zone, frozenset({moment}))
    hour, minute, interval = draws.choice((0, 1, 2, 3, 9)), draws.choice((0, 30)), 2
    at = f"BYHOUR={hour};BYMINUTE={minute};BYSECOND=0"
    if kind == "weeks":
        interval, weekday = draws.randrange(1, 5), draws.randrange(7)
        first = START + timedelta(days=(weekday - START.weekday()) % 7)
        days = {first + timedelta(weeks=n * interval) for n in range(110)}
        rule = f"FREQ=WEEKLY;INTERVAL={interval};BYDAY={WEEKDAYS[weekday]}"
    else:
        first, rule = START, "FREQ=MONTHLY;BYMONTHDAY=-1"
        every_day = [START + timedelta(days=n) for n in range((END - START).days)]
        days = {day for day in every_day if (day + timedelta(days=1)).day == 1}
    return Drawn(
        f"rule {rule};{at} from {first.isoformat()}", zone, _due_on(days, hour, minute, zone)
    )


def _draw_cron(draws: random.Random) -> str:
    minute = draws.choice(["0", "30", "15", "59", "5,35"])
    hour = draws.choice(["0", "1", "2", "3", "2,3", "8", "23", "1-3"])
    rest = draws.choice(["* * 0", "* * 6", "1 * *", "29 * *", "31 * *", "* 3 0", "* 10 0", "29 2 *",
                         "1-7 * 1", "* 4 *", "13 * 5"])  # fmt: skip
    if draws.random() < 0.15:
        minute, hour, rest = "30", "*/6", draws.choice(["* 3 0", "* 10 0", "* 4 0", "* 11 0"])
    return f"{minute} {hour} {rest}"


def _due_on(days: Iterable[date], hour: int, minute: int, zone: str) -> frozenset[int]:
    tz = ZoneInfo(zone)
    due = (moment for day in days for moment in moments(day, hour, minute, tz, once=True))
    return frozenset(moment for moment in due if start() < moment <= end())


class Simulated(NamedTuple):
    """What a simulation has come to."""

    occurrences: int
    beaten: int
    """Claims that came too late, because the other scheduler was first."""
    sleeps: int
    seconds: float


def simulate(folder: Path, count: int, seed: int) -> Simulated:
    """Run so many jobs through the simulated time.

    Raises AssertionError if an occurrence is missing, too many or twice.
    """
    draws = random.Random(seed)
    wanted: dict[str, frozenset[int]] = {}
    claimed: dict[str, list[int]] = defaultdict(list)
    beaten = sleeps = 0
    began = time.monotonic()
    settings = JobSettings(prompt="p", overlap="queue", missed="all", missed_most=1000)
    with SessionDB(folder / "state.db") as db:
        for number in range(count):
            drawn, job_id = draw(draws), f"j{number}"
            wanted[job_id] = drawn.due
            first = next_after(drawn.schedule, drawn.zone, start())
            assert first is not None, drawn.schedule
            db.add_job(
                job_id, user_id=f"p{number}", name=job_id, schedule=drawn.schedule,
                timezone=drawn.zone, settings=settings.kept(), next_due=first, next_at=first,
            )  # fmt: skip
        while (now := db.next_job_at()) is not None and now <= end():
            if draws.random() < 0.002:
                now, sleeps = min(now + draws.randrange(3 * 86_400), end()), sleeps + 1
            for row in db.list_due_jobs(now):
                times = [_claim(db, row, now) for _ in range(2)]
                assert times[1] is None, "claimed twice"
                beaten += 1
                claimed[row["id"]] += times[0] or ()
    for job_id, due in wanted.items():
        found = claimed[job_id]
        assert len(found) == len(set(found)), f"{job_id}: twice"
        assert set(found) == due, (job_id, sorted(due ^ set(found))[:5])
    return Simulated(sum(map(len, claimed.values())), beaten, sleeps, time.monotonic() - began)


def _claim(db: SessionDB, row: dict[str, Any], now: float) -> list[int] | None:
    """Claim a job as it was read, and settle what it is due for; None if another was first."""
    job = Job.read(row)
    assert job.next_due is not None
    accepted = db.claim_job(
        job.id, job.version, job.next_due, plan(job, now),
        content="p", session_id="s", overlaps=True,
    )  # fmt: skip
    for due in accepted or ():
        assert db.settle_run(job.id, due, Settled("done"))
    return accepted


def main() -> None:
    """Simulate as many jobs as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.agent.job_clock")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as made:
        found = simulate(Path(made), given.jobs, given.seed)
    print(
        f"{given.jobs:,} jobs in {len(ZONES)} zones, two years, {found.occurrences:,} occurrences:"
        f" none missing, none twice. {found.beaten:,} second claims came too late; everything"
        f" slept {found.sleeps:,} times. ({found.seconds:.0f} s, seed {given.seed})"
    )


if __name__ == "__main__":
    main()
