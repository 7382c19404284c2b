"""When jobs are due: in words, across summer time and leap days, against another reckoning."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from agent.jobs.claims import plan
from agent.jobs.job import Job, JobSettings
from agent.jobs.schedule import ScheduleError, last_until, upcoming, zone_named
from agent.jobs.words import split, understand

from .job_clock import simulate

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone_named(zone)).timestamp()


def times(schedule: str, since: str, count: int = 3, zone: str = BERLIN) -> list[str]:
    due = upcoming(schedule, zone, at(since, zone), count)
    return [f"{datetime.fromtimestamp(moment, zone_named(zone)):%m-%d %H:%M}" for moment in due]


NOW = at("2026-11-18 14:00")


@pytest.mark.parametrize(
    ("words", "due"),
    [
        ("tomorrow at nine", ["11-19 09:00"]),
        ("in 20 minutes", ["11-18 14:20"]),
        ("1h30m", ["11-18 15:30"]),
        ("at 2026-12-24 18:00", ["12-24 18:00"]),
        ("24 December", ["12-24 09:00"]),
        ("friday at half past eight", ["11-20 08:30"]),
        ("at nine in the evening", ["11-18 21:00"]),
        ("quarter to nine", ["11-19 08:45"]),
        ("next monday at noon", ["11-23 12:00"]),
        ("every 20m", ["11-18 14:20", "11-18 14:40", "11-18 15:00"]),
        ("every hour", ["11-18 15:00", "11-18 16:00", "11-18 17:00"]),
        ("daily 08:30", ["11-19 08:30", "11-20 08:30", "11-21 08:30"]),
        ("every weekday at 7:15", ["11-19 07:15", "11-20 07:15", "11-23 07:15"]),
        ("every other Monday at 10", ["11-23 10:00", "12-07 10:00", "12-21 10:00"]),
        ("every Monday and Thursday at 18:00", ["11-19 18:00", "11-23 18:00", "11-26 18:00"]),
        ("every 2 weeks on Friday at 5pm", ["11-20 17:00", "12-04 17:00", "12-18 17:00"]),
        ("monthly on the 1st", ["12-01 09:00", "01-01 09:00", "02-01 09:00"]),
        ("every month on the last day at 9", ["11-30 09:00", "12-31 09:00", "01-31 09:00"]),
        ("yearly on December 24 at 18:00", ["12-24 18:00", "12-24 18:00", "12-24 18:00"]),
        ("30 8 * * 1-5", ["11-19 08:30", "11-20 08:30", "11-23 08:30"]),
    ],
)
def test_words_are_understood(words: str, due: list[str]) -> None:
    found = understand(words, BERLIN, NOW)
    assert times(found.schedule, "2026-11-18 14:00") == due


def test_a_zone_may_be_named() -> None:
    found = understand("daily 08:30 America/New_York", BERLIN, NOW)
    assert found == ("cron 30 8 * * *", "America/New_York")
    with pytest.raises(ScheduleError, match="no time zone"):
        understand("daily 08:30 Europe/Nowhere", BERLIN, NOW)


@pytest.mark.parametrize(
    "words",
    ["", "hello world", "tomorrow maybe", "at 25:00", "0 0 30 2 *", "every 0 minutes", "2020-01-01",
     "61 * * * *", "* * * *", "every", "in", "cron", "at", "30 February"],
)  # fmt: skip
def test_what_is_not_understood_is_refused(words: str) -> None:
    with pytest.raises(ScheduleError):
        understand(words, BERLIN, NOW)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("tomorrow at nine call Ada", "call Ada"),
        ("me in 20 minutes to take the bread out", "take the bread out"),
        ("call mum every Sunday at 18:00", "call mum"),
    ],
)
def test_a_reminder_says_when_and_what(text: str, what: str) -> None:
    assert split(text, BERLIN, NOW)[1] == what


def test_summer_time() -> None:
    daily, half_hours = "cron 30 2 * * *", "cron */30 * * * *"
    assert times(daily, "2027-03-27 00:00") == ["03-27 02:30", "03-28 03:00", "03-29 02:30"]
    assert times(daily, "2027-10-30 00:00") == ["10-30 02:30", "10-31 02:30", "11-01 02:30"]
    twice = ["10-31 02:00", "10-31 02:30"] * 2
    assert times(half_hours, "2027-10-31 01:30", 5) == [*twice, "10-31 03:00"]
    assert times(half_hours, "2027-03-28 01:00") == ["03-28 01:30", "03-28 03:00", "03-28 03:30"]


def test_leap_days_and_long_stretches() -> None:
    assert times("cron 0 0 29 2 *", "2026-11-18 00:00", 1) == ["02-29 00:00"]
    year = 366 * 86_400
    last, count = last_until("every 10 from 0", "UTC", 10, year)
    assert (last, count) == (year, year // 10)
    last, count = last_until("cron * * * * * *", "UTC", 10, year + 0.5)
    assert last == year and count > 1000


def minutely(runs: int = 0, **settings: int) -> Job:
    """A job that is due every minute, and has run so often."""
    return Job(
        "j", None, "j", "every 60 from 0", "UTC", JobSettings(prompt="p", **settings),  # type: ignore[arg-type]
        "active", 60, 60.0, runs, 0, None, None, 1, 0.0,
    )  # fmt: skip


def test_jitter_is_the_same_in_every_process_and_bounded() -> None:
    job = minutely(0, jitter=30)
    delays = [job.begins(60 * number) - 60 * number for number in range(1, 200)]
    assert delays == [job.begins(60 * number) - 60 * number for number in range(1, 200)]
    assert min(delays) >= 0 and max(delays) <= 30 and len(set(delays)) > 10


def test_a_job_ends_after_its_runs_or_its_day() -> None:
    job = minutely(2, max_runs=3)
    assert plan(job, 60)[:3] == (None, None, (60,))
    job = minutely(0, ends_at=130)
    assert plan(job, 60)[:3] == (120, 120.0, (60,)) and plan(job, 500)[:3] == (None, None, (120,))


def test_two_years_as_another_reckoning_has_them(tmp_path: Path) -> None:
    found = simulate(tmp_path, 12, seed=23)
    assert found.occurrences > 300 and found.beaten > 100
