"""What calendar files say of the next day: `*.ics`, as every calendar program exports them.

Of RFC 5545 as much as it takes: events with their start, their time zone and their rule. What
cannot be read is left out; a file is read line by line, so a long or broken one costs no more than
its length.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from .schedule import ScheduleError, zone_named

log = logging.getLogger(__name__)

MOST_FILES, MOST_BYTES = 50, 4_000_000
MOST_RULE = 500
"""Characters of a rule that is followed."""
LONGEST_TITLE = 200


class Event(NamedTuple):
    """One occurrence of an event."""

    at: datetime
    title: str
    is_all_day: bool

    def __str__(self) -> str:
        return (
            f"{self.at:%a %Y-%m-%d}{'' if self.is_all_day else f' {self.at:%H:%M}'}: {self.title}"
        )


def events_in(folder: Path, zone: str, now: float, hours: float = 24) -> list[Event]:
    """The events of the calendar files in a folder that begin within so many hours, in order."""
    since = datetime.fromtimestamp(now, zone_named(zone))
    until = since + timedelta(hours=hours)
    found: list[Event] = []
    for path in sorted(folder.glob("*.ics"))[:MOST_FILES] if folder.is_dir() else ():
        try:
            if not path.is_file() or path.is_symlink() or path.stat().st_size > MOST_BYTES:
                continue
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            log.warning("The calendar %s cannot be read: %s", path, error)
            continue
        for fields in _events(lines):
            found += _within(fields, since, until)
    return sorted(found)


def _events(lines: list[str]) -> Iterator[dict[str, tuple[str, str]]]:
    """The fields of each event: name to parameters and value."""
    unfolded: list[list[str]] = []
    for line in lines:
        if line[:1] in (" ", "\t") and unfolded:
            unfolded[-1].append(line[1:])
        else:
            unfolded.append([line])
    fields: dict[str, tuple[str, str]] | None = None
    depth = 0
    for parts in unfolded:
        name, _, value = "".join(parts).partition(":")
        name, _, about = name.partition(";")
        name = name.upper()
        if name == "BEGIN" and value.upper() == "VEVENT":
            fields, depth = {}, 0
        elif name == "END" and value.upper() == "VEVENT" and fields is not None:
            yield fields
            fields = None
        elif name in ("BEGIN", "END"):
            depth += 1 if name == "BEGIN" else -1  # an alarm has fields of the same names
        elif fields is not None and depth == 0:
            fields.setdefault(name, (about, value))


def _within(fields: dict[str, tuple[str, str]], since: datetime, until: datetime) -> list[Event]:
    """The occurrences of an event in a stretch of time, in the zone of that."""
    if "DTSTART" not in fields or fields.get("STATUS", ("", ""))[1].upper() == "CANCELLED":
        return []
    title = fields.get("SUMMARY", ("", ""))[1].replace("\\n", " ").replace("\\", "")
    title = " ".join(title.split())[:LONGEST_TITLE] or "an event without a title"
    zone = since.tzinfo
    assert isinstance(zone, ZoneInfo)
    try:
        start, is_all_day = _start(*fields["DTSTART"], zone)
        rule = fields.get("RRULE", ("", ""))[1][:MOST_RULE]
        starts = _repeated(start, rule, since, until, is_all_day)
    except (ValueError, OverflowError, KeyError, TypeError):
        return []  # no time that anybody could be told
    first = since.replace(hour=0, minute=0, second=0, microsecond=0) if is_all_day else since
    local = (moment.astimezone(zone) for moment in starts)
    return [Event(moment, title, is_all_day) for moment in local if first <= moment <= until]


def _start(about: str, value: str, zone: ZoneInfo) -> tuple[datetime, bool]:
    if len(value) == 8:
        return datetime.combine(date.fromisoformat(value), time(), zone), True
    given = datetime.strptime(value.rstrip("Z"), "%Y%m%dT%H%M%S")
    if value.endswith("Z"):
        return given.replace(tzinfo=ZoneInfo("UTC")), False
    parameters = dict(part.partition("=")[::2] for part in about.split(";") if part)
    try:
        named = (
            zone_named(parameters.get("TZID", "").strip('"')) if parameters.get("TZID") else zone
        )
    except ScheduleError:
        named = zone  # a name of its program's own
    return given.replace(tzinfo=named), False


def _repeated(
    start: datetime, rule: str, since: datetime, until: datetime, is_all_day: bool
) -> list[datetime]:
    """The starts of an event around a stretch of time, by its rule on the clock of its zone."""
    if not rule:
        return [start]
    if any(part in rule.upper() for part in ("SECONDLY", "MINUTELY", "HOURLY")):
        return []
    from dateutil.rrule import rrulestr

    zone = start.tzinfo
    low = since.astimezone(zone).replace(tzinfo=None) - timedelta(days=1 if is_all_day else 0)
    high = until.astimezone(zone).replace(tzinfo=None)
    # Its end may be in UTC; the clock of the zone is near enough for what is due today.
    plain = rule.upper().replace("RRULE:", "").replace("Z", "")
    naive = start.replace(tzinfo=None)
    times = rrulestr(plain, dtstart=naive)
    return [moment.replace(tzinfo=zone) for moment in times.between(low, high, inc=True)]
