"""When a job is due: schedules, and their next times in a time zone.

A schedule is kept as a text of one of four kinds, and never depends on when somebody looked:

- ``cron 30 8 * * 1-5``: five fields, or six with seconds first
- ``every 1200 from 1795000000``: every so many seconds, counted from a moment
- ``at 1795000000``: once
- ``rule FREQ=WEEKLY;INTERVAL=2;… from 2026-11-16``: an RFC 5545 rule, counted from a local date

Where clocks change, a schedule that names an hour is due once a day: a time that the change leaves
out is due at the moment of the change, and of one that happens twice the first counts. One whose
hour is `*` is due whenever a clock on the wall shows it, so twice in the hour that is repeated.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

DAY = 86_400
_EPOCH = datetime(1970, 1, 1)
_FAR = 100 * 366 * DAY
"""Nothing is looked for further ahead."""

MOST_COUNTED = 1000
"""Missed occurrences that are counted one by one."""

SHORTEST = 1
"""Seconds between two occurrences, at least."""


class ScheduleError(ValueError):
    """A schedule that cannot be kept; the message says why, and what to write."""


def next_after(schedule: str, zone: str, moment: float) -> int | None:
    """The first time after a moment at which a schedule is due; None if there is none."""
    kind, _, rest = schedule.partition(" ")
    since = int(moment // 1)
    if kind == "at":
        return int(rest) if int(rest) > since else None
    if kind == "every":
        seconds, anchor = _every(rest)
        if since < anchor:
            return anchor
        return anchor + ((since - anchor) // seconds + 1) * seconds
    if kind == "rule":
        return _next_fixed(_rule(rest), zone, since)
    if kind == "cron":
        following = _cron(rest)
        if hours_are_open(rest):
            return _next_open(following, zone, since)
        return _next_fixed(following, zone, since)
    raise ScheduleError(f"{schedule!r} is no schedule.")


def last_until(schedule: str, zone: str, first: int, moment: float) -> tuple[int, int]:
    """The last time up to a moment, of those from `first` on, and how many there are.

    `first` is due itself. Beyond MOST_COUNTED they are not counted any more.
    """
    kind, _, rest = schedule.partition(" ")
    if kind == "every":
        seconds, _ = _every(rest)
        steps = max(0, (int(moment // 1) - first) // seconds)
        return first + steps * seconds, steps + 1
    last, count = first, 1
    while (due := next_after(schedule, zone, last)) is not None and due <= moment:
        last, count = due, count + 1
        if count > MOST_COUNTED:
            return _last_before(schedule, zone, last, moment), count
    return last, count


def _last_before(schedule: str, zone: str, known: int, moment: float) -> int:
    """The last time up to a moment, which is not before a `known` one."""
    window = 60
    while moment - window > known:
        due = next_after(schedule, zone, moment - window)
        if due is not None and due <= moment:
            known = due
            break
        window *= 4
    while (due := next_after(schedule, zone, known)) is not None and due <= moment:
        known = due
    return known


def upcoming(schedule: str, zone: str, moment: float, count: int = 3) -> list[int]:
    """The next times at which a schedule is due."""
    times: list[int] = []
    while len(times) < count:
        due = next_after(schedule, zone, times[-1] if times else moment)
        if due is None:
            break
        times.append(due)
    return times


def check(schedule: str, zone: str) -> None:
    """Raise ScheduleError unless a schedule and its zone can be kept."""
    zone_named(zone)
    try:
        next_after(schedule, zone, 0)
    except ScheduleError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ScheduleError(f"{schedule!r} is no schedule: {error}") from error


def zone_named(name: str) -> ZoneInfo:
    """A time zone by its name; ScheduleError if there is none."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # one that is not found is a KeyError
        problem = f"There is no time zone {name!r}; write Europe/Berlin or UTC."
        raise ScheduleError(problem) from error


def local_zone() -> str:
    """The name of this machine's time zone; UTC if it has none."""
    import os
    from pathlib import Path

    named = os.environ.get("TZ", "").removeprefix(":")
    link = str(Path("/etc/localtime").resolve())
    for name in (named, link.partition("zoneinfo/")[2]):
        if name:
            try:
                zone_named(name)
                return name
            except ScheduleError:
                continue  # a rule such as CET-1CEST, or a copied file
    return "UTC"


def show(moment: float, zone: str) -> str:
    """A time as people read it."""
    local = datetime.fromtimestamp(moment, zone_named(zone))
    return f"{local:%a %Y-%m-%d %H:%M}{f':{local:%S}' if local.second else ''} ({zone})"


def hours_are_open(fields: str) -> bool:
    """Whether a cron expression names no hour."""
    parts = fields.split()
    return parts[len(parts) - 4].startswith("*")


# Kinds of schedules, each as a function from a local time to the next one


def _every(rest: str) -> tuple[int, int]:
    seconds, _, anchor = rest.partition(" from ")
    if int(seconds) < SHORTEST:
        raise ScheduleError(f"A job may be due every {SHORTEST} s at most.")
    return int(seconds), int(anchor)


Following = Callable[[datetime], datetime | None]


@lru_cache(maxsize=4096)
def _cron(fields: str) -> Following:
    from croniter import CroniterBadDateError, CroniterError, croniter

    has_seconds = len(fields.split()) == 6
    if not has_seconds and len(fields.split()) != 5:
        raise ScheduleError(
            f"{fields!r} has {len(fields.split())} fields; a cron expression has five (minute,"
            " hour, day, month, weekday), or six with seconds first."
        )
    try:
        times = croniter(fields, _EPOCH, second_at_beginning=has_seconds)
    except (CroniterError, ValueError, KeyError) as error:
        raise ScheduleError(f"{fields!r} is no cron expression: {error}") from error

    lock = threading.Lock()

    def following(local: datetime) -> datetime | None:
        try:
            with lock:  # it has a place of its own, which each call moves
                found: datetime = times.get_next(datetime, start_time=local)
        except CroniterBadDateError:
            return None  # such as 30 February
        return found

    return following


@lru_cache(maxsize=4096)
def _rule(rest: str) -> Following:
    from dateutil.rrule import rrulestr

    rule, _, date = rest.partition(" from ")
    times = rrulestr(rule, dtstart=datetime.fromisoformat(date), cache=True)

    def following(local: datetime) -> datetime | None:
        found: datetime | None = times.after(local)
        return found

    return following


# From local times to moments


class Change(NamedTuple):
    """A change of a zone's clocks."""

    at: int
    before: int
    """Seconds ahead of UTC until then, and from then on."""
    after: int


@lru_cache(maxsize=8192)
def changes(zone: str, year: int) -> tuple[Change, ...]:
    """The changes of a zone's clocks in a year of UTC."""
    tz = zone_named(zone)
    began = int((datetime(year, 1, 1) - _EPOCH).total_seconds())
    ends = int((datetime(year + 1, 1, 1) - _EPOCH).total_seconds())
    found, at, offset = [], began, offset_at(tz, began - 1)
    while at <= ends:
        now = offset_at(tz, min(at, ends - 1))
        if now != offset:
            low, high = at - DAY, min(at, ends - 1)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(tz, middle) == offset else (low, middle)
            found.append(Change(high, offset, now))
            offset = now
        at += DAY
    return tuple(found)


def offset_at(tz: ZoneInfo, moment: int) -> int:
    """How many seconds a zone's clocks are ahead of UTC at a moment."""
    ahead = datetime.fromtimestamp(moment, tz).utcoffset()
    return int((ahead or timedelta()).total_seconds())


def _next_change(zone: str, moment: int, until: int) -> Change | None:
    """The first change after a moment, up to another."""
    for year in range(_year(moment), _year(until) + 1):
        found = changes(zone, year)
        index = bisect_right(found, moment, key=lambda change: change.at)
        if index < len(found):
            return found[index] if found[index].at <= until else None
    return None


def _year(moment: int) -> int:
    return datetime.fromtimestamp(moment, UTC).year


def _next_open(following: Following, zone: str, since: int) -> int | None:
    """The next time of a schedule that is due whenever a wall's clock shows it."""
    tz, at, known = zone_named(zone), since, since
    offset = offset_at(tz, at)
    while at < since + _FAR:
        local = following(_EPOCH + timedelta(seconds=at + offset))
        if local is None:
            return None
        due = _seconds(local) - offset
        change = _next_change(zone, known, due)
        if change is None:
            return due
        # From the change on by the new clock; its own moment may be due.
        at, known, offset = change.at - 1, change.at, change.after
    return None


def _next_fixed(following: Following, zone: str, since: int) -> int | None:
    """The next time of a schedule that names its hours: once for each local time."""
    tz = zone_named(zone)
    local: datetime | None = _EPOCH + timedelta(seconds=since + offset_at(tz, since))
    while local is not None:
        local = following(local)
        if local is None or local.year > 9000:
            return None
        due = _moment_of(local, tz, zone)
        if due > since:
            return due
    return None


def _moment_of(local: datetime, tz: ZoneInfo, zone: str) -> int:
    """The first moment at which a zone's clocks show a time, or go past it."""
    due = int(local.replace(tzinfo=tz).timestamp())
    if offset_at(tz, due) == _seconds(local) - due:
        return due
    # Clocks leave it out. What comes back is beyond the change, by the clock before it.
    change = _next_change(zone, due - 2 * DAY, due)
    return due if change is None else change.at


def _seconds(local: datetime) -> int:
    return int((local - _EPOCH).total_seconds())
