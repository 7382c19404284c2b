"""Schedules in words: "tomorrow at nine", "every other Monday", "daily 08:30 Europe/Berlin".

What people write becomes one of the kinds that `schedule` keeps. Whoever takes words shows the next
times before they are kept: what was understood is seen, not guessed. Words that are not understood
are refused with examples; nothing is half understood.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import NamedTuple

from .schedule import DAY, ScheduleError, check, next_after, zone_named

EXAMPLES = (
    "tomorrow at nine", "in 20 minutes", "at 2026-12-24 18:00", "every 20m", "daily 08:30",
    "every weekday at 7:15", "every other Monday at 10", "monthly on the 1st", "30 8 * * 1-5",
)  # fmt: skip
DEFAULT_HOUR = 9
"""When a day is named and no time."""

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20,
    "thirty": 30, "forty-five": 45,
}  # fmt: skip
_UNITS = {
    "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
    "d": DAY, "day": DAY, "days": DAY, "w": 7 * DAY, "week": 7 * DAY, "weeks": 7 * DAY,
}  # fmt: skip
_PARTS_OF_DAY = {"morning": 8, "noon": 12, "afternoon": 15, "evening": 19, "night": 21}


class Understood(NamedTuple):
    """What words came to."""

    schedule: str
    zone: str
    """The zone that they named, or the one that was given."""


def understand(text: str, zone: str, now: float) -> Understood:
    """The schedule that words describe; ScheduleError if they are not understood."""
    words, zone = _without_zone(" ".join(text.split()), zone)
    found = _Reader(words, zone, now).read()
    check(found, zone)
    if next_after(found, zone, now) is None:
        past = "That time is over." if found.startswith("at ") else "That never comes."
        raise ScheduleError(f"{past} ({text})")
    return Understood(found, zone)


def split(text: str, zone: str, now: float) -> tuple[Understood, str]:
    """A reminder such as "tomorrow at nine call Ada": when, and what."""
    words = re.sub(r"^me\s+", "", " ".join(text.split()), flags=re.IGNORECASE).split(" ")
    orders = [(words[:end], words[end:]) for end in range(len(words) - 1, 0, -1)]
    orders += [(words[start:], words[:start]) for start in range(1, len(words))]
    for when, what in orders:
        message = re.sub(r"^(to|that|about)\s+", "", " ".join(what), flags=re.IGNORECASE)
        try:
            return understand(" ".join(when), zone, now), message
        except ScheduleError:
            continue  # fewer words may say it
    raise _unknown(text)


def _without_zone(text: str, zone: str) -> tuple[str, str]:
    """The words without a zone behind them, and that zone."""
    head, _, last = text.rpartition(" ")
    if head and (last in ("UTC", "GMT") or re.fullmatch(r"[A-Z]\w+/[\w/+-]+", last)):
        zone_named(last)
        return head, last
    return text, zone


def _unknown(text: str) -> ScheduleError:
    return ScheduleError(f"{text!r} names no time I understand. Write for example: {_examples()}.")


def _examples() -> str:
    return "; ".join(EXAMPLES)


class _Reader:
    """Reads one text."""

    def __init__(self, text: str, zone: str, now: float) -> None:
        self.text = text
        self.words = text.lower().replace(",", " ").split()
        self.now = now
        self.today = datetime.fromtimestamp(now, zone_named(zone)).replace(tzinfo=None)
        self.zone = zone

    def read(self) -> str:
        if re.fullmatch(r"(cron|every \d+ from|at|rule) .*\d", self.text) and self._is_kept():
            return self.text
        fields = self.text.removeprefix("cron ").split(" ")
        if len(fields) in (5, 6) and re.fullmatch(r"[\d*][\d*/,-]*", fields[0]):
            return f"cron {' '.join(fields)}"
        for read in (self._duration, self._every_so_often, self._recurring, self._once):
            if (found := read()) is not None:
                return found
        raise _unknown(self.text)

    def _is_kept(self) -> bool:
        try:
            check(self.text, self.zone)
        except ScheduleError:
            return False
        return True

    # Distances

    def _duration(self) -> str | None:
        """ "in 20 minutes", "20m", "in an hour and a half"."""
        words = self.words[1:] if self.words[:1] == ["in"] else self.words
        if self.words[:1] != ["in"] and not re.fullmatch(r"(\d+[smhd])+", self.text.lower()):
            return None
        if words == ["half", "an", "hour"]:
            return f"at {int(self.now) + 1800}"
        seconds = _seconds_in(words)
        return None if seconds is None else f"at {int(self.now) + seconds}"

    def _every_so_often(self) -> str | None:
        """ "every 20m", "every 2 hours", "hourly"."""
        words = self.words
        if words in (["hourly"], ["every", "hour"]):
            return "cron 0 * * * *"
        if words in (["every", "minute"],):
            return "cron * * * * *"
        if words[:1] != ["every"] or len(words) < 2:
            return None
        if words[1:] == ["half", "hour"]:
            return f"every 1800 from {int(self.now)}"
        seconds = _seconds_in(words[1:])
        if seconds is None or words[1] in _UNITS:  # "every day" has a time of day
            return None
        return f"every {seconds} from {int(self.now)}"

    # Rules

    def _recurring(self) -> str | None:
        words = self.words
        head = words[0] if words else ""
        if head in ("daily", "weekly", "monthly", "yearly", "weekdays", "weekends"):
            words = [
                "every",
                {
                    "daily": "day",
                    "weekly": "week",
                    "monthly": "month",
                    "yearly": "year",
                    "weekdays": "weekday",
                    "weekends": "weekend",
                }[head],
                *words[1:],
            ]
        if words[:1] != ["every"] and words[:1] != ["each"]:
            return None
        words = words[1:]
        interval = 1
        if words[:1] == ["other"] or words[:1] == ["second"]:
            interval, words = 2, words[1:]
        elif len(words) > 1 and (number := _number(words[0])) and words[1] in ("weeks", "week"):
            interval, words = number, words[1:]
        return self._rule(words, interval)

    def _rule(self, words: list[str], interval: int) -> str | None:
        part = next((hour for name, hour in _PARTS_OF_DAY.items() if words[:1] == [name]), None)
        if part is not None:
            words = ["day", *words[1:]] if words[1:] else ["day", "at", str(part)]
        if not words:
            return None
        unit, rest = words[0], words[1:]
        days: list[int] = []
        if unit in ("day", "days"):
            days = list(range(7))
        elif unit in ("weekday", "weekdays"):
            days = list(range(5))
        elif unit in ("weekend", "weekends"):
            days = [5, 6]
        elif unit in ("month", "year"):
            return self._monthly(unit, rest) if interval == 1 else None
        elif unit in ("week", "weeks"):
            rest = rest[1:] if rest[:1] == ["on"] else rest
            days, rest = _weekdays(rest)
            days = days or [self.today.weekday()]
        else:
            days, rest = _weekdays(words)
        time = _time(rest, self.today)
        if not days or time is None:
            return None
        hour, minute, second = time
        if interval == 1:
            fields = f"{minute} {hour} * * {_cron_days(days)}"
            return f"cron {f'{second} ' if second else ''}{fields}"
        if len(days) == 7:
            rule, began = f"FREQ=DAILY;INTERVAL={interval}", self.today.date()
        else:
            names = ",".join(_DAYS[day][:2].upper() for day in days)
            rule = f"FREQ=WEEKLY;INTERVAL={interval};BYDAY={names}"
            began = self._next_date(days[0], (hour, minute, second))
        at = f"BYHOUR={hour};BYMINUTE={minute};BYSECOND={second}"
        return f"rule {rule};{at} from {began.isoformat()}"

    def _next_date(self, weekday: int, time: tuple[int, int, int]) -> date:
        """The next day of that name; today if its time is to come."""
        days = (weekday - self.today.weekday()) % 7
        is_over = days == 0 and (self.today.hour, self.today.minute, self.today.second) >= time
        return self.today.date() + timedelta(days=7 if is_over else days)

    def _monthly(self, unit: str, rest: list[str]) -> str | None:
        rest = rest[1:] if rest[:1] == ["on"] else rest
        rest = rest[1:] if rest[:1] == ["the"] else rest
        if unit == "year":
            found = _month_day(rest)
            if found is None:
                return None
            month, day, rest = found
            time = _time(rest, self.today)
            return None if time is None else f"cron {time[1]} {time[0]} {day} {month} *"
        day_word = rest[0] if rest else "1"
        last = day_word == "last"
        if last:
            rest = [word for word in rest[1:] if word != "day"]
        number = _ordinal(day_word)
        time = _time(rest if last else rest[1:], self.today)
        if time is None or (number is None and not last):
            return None
        return f"cron {time[1]} {time[0]} {'L' if last else number} * *"

    # Once

    def _once(self) -> str | None:
        words = [word for word in self.words if word != "on"]
        if words[:1] == ["at"] and len(words) > 1 and re.match(r"\d{4}-", words[1]):
            words = words[1:]
        found = self._date(words)
        if found is None:
            time = _time(words, self.today, required=True)
            if time is None:
                return None
            moment = datetime(*self.today.timetuple()[:3], *time)
            return self._at(moment if moment > self.today else moment + timedelta(days=1))
        day, rest = found
        time = _time(rest, self.today)
        return None if time is None else self._at(datetime(day.year, day.month, day.day, *time))

    def _at(self, moment: datetime) -> str:
        return f"at {int(moment.replace(tzinfo=zone_named(self.zone)).timestamp())}"

    def _date(self, words: list[str]) -> tuple[date, list[str]] | None:
        today = self.today.date()
        if not words:
            return None
        first, rest = words[0], words[1:]
        if first in ("today", "tonight"):
            return today, (rest or ["at", "21"]) if first == "tonight" else rest
        if first == "tomorrow":
            return today + timedelta(days=1), rest
        if words[:3] == ["the", "day", "after"] and words[3:4] == ["tomorrow"]:
            return today + timedelta(days=2), words[4:]
        if first in ("next", "this", "coming") and rest and (day := _weekday(rest[0])) is not None:
            return today + timedelta(days=(day - today.weekday() - 1) % 7 + 1), rest[1:]
        if words[:2] == ["next", "week"]:
            return today + timedelta(days=7 - today.weekday()), words[2:]
        if (day := _weekday(first)) is not None:
            return today + timedelta(days=(day - today.weekday() - 1) % 7 + 1), rest
        if iso := re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:t(\d\d:\d\d(?::\d\d)?))?", first):
            try:
                return date.fromisoformat(iso[1]), ["at", iso[2]] if iso[2] else rest
            except ValueError as error:
                raise ScheduleError(f"{iso[1]} is no day: {error}.") from error
        return self._day_in_year(words)

    def _day_in_year(self, words: list[str]) -> tuple[date, list[str]] | None:
        words = words[1:] if words[0] == "the" else words
        found = _month_day(words)
        if found is None:
            return None
        month, day, rest = found
        year = None
        if rest and re.fullmatch(r"\d{4}", rest[0]):
            year, rest = int(rest[0]), rest[1:]
        try:
            named = date(year or self.today.year, month, day)
            if year is None and named < self.today.date():
                named = date(self.today.year + 1, month, day)
        except ValueError as error:
            raise ScheduleError(f"There is no such day ({self.text}): {error}.") from error
        return named, rest


def _seconds_in(words: list[str]) -> int | None:
    """How long "2 hours and 30 minutes", "90s" or "1h30m" is."""
    total = 0
    parts = [word for word in words if word != "and"]
    while parts:
        joined = re.findall(r"(\d+)([a-z]+)", parts[0])
        if joined and "".join(map("".join, joined)) == parts[0]:
            if any(unit not in _UNITS for _, unit in joined):
                return None
            total += sum(int(number) * _UNITS[unit] for number, unit in joined)
            parts = parts[1:]
            continue
        number = _number(parts[0])
        if number is None or len(parts) < 2 or parts[1] not in _UNITS:
            return None
        total += number * _UNITS[parts[1]]
        parts = parts[2:]
    return total or None


def _number(word: str) -> int | None:
    return int(word) if word.isdecimal() and len(word) < 7 else _NUMBERS.get(word)


def _ordinal(word: str) -> int | None:
    found = re.fullmatch(r"(\d{1,2})(st|nd|rd|th|\.)?", word)
    names = {"first": 1, "second": 2, "third": 3, "fifteenth": 15}
    return int(found[1]) if found and 1 <= int(found[1]) <= 31 else names.get(word)


def _weekday(word: str) -> int | None:
    name = word.removesuffix("s") if len(word) > 5 else word
    return next(
        (n for n, day in enumerate(_DAYS) if name == day or (len(name) >= 3 and name == day[:3])),
        None,
    )


def _weekdays(words: list[str]) -> tuple[list[int], list[str]]:
    """The weekdays that words begin with, and the words behind them."""
    days: list[int] = []
    for index, word in enumerate(words):
        day = _weekday(word)
        if day is None and word != "and":
            return sorted(set(days)), words[index:]
        if day is not None:
            days.append(day)
    return sorted(set(days)), []


def _cron_days(days: list[int]) -> str:
    if len(days) == 7:
        return "*"
    if days == list(range(5)):
        return "1-5"
    return ",".join(str((day + 1) % 7) for day in days)


def _month_day(words: list[str]) -> tuple[int, int, list[str]] | None:
    """ "December 24", "24 December", "24th of December"."""
    parts = [word for word in words if word != "of"]
    if len(parts) < 2:
        return None
    for first, second in ((0, 1), (1, 0)):
        month = next(
            (n for n, name in enumerate(_MONTHS, 1) if parts[first] in (name, name[:3])), None
        )
        day = _ordinal(parts[second])
        if month is not None and day is not None:
            return month, day, parts[2:]
    return None


def _time(
    words: list[str], today: datetime, *, required: bool = False
) -> tuple[int, int, int] | None:
    """The time of day that words say; None if they say something else."""
    words = [word for word in words if word not in ("at", "o'clock", "in", "the", "clock")]
    if not words:
        return None if required else (DEFAULT_HOUR, 0, 0)
    offset = 0
    if words[-1] in ("morning", "afternoon", "evening", "night") and len(words) > 1:
        offset = 12 if words[-1] != "morning" else 0
        words = words[:-1]
    elif words[-1] in ("am", "pm") and len(words) > 1:
        words = [*words[:-2], words[-2] + words[-1]]
    text = " ".join(words)
    if text in _PARTS_OF_DAY or text == "midnight":
        return _PARTS_OF_DAY.get(text, 0), 0, 0
    if near := re.fullmatch(r"(half|quarter) (past|to) (\S+)", text):
        hour = _number(near[3])
        minutes = 30 if near[1] == "half" else 15
        if hour is None or hour > 24:
            return None
        total = hour * 60 + (minutes if near[2] == "past" else -minutes)
        return _hour(total // 60 % 24, offset), total % 60, 0
    clock = re.fullmatch(r"(\d{1,2})(?:[:.h](\d\d))?(?::(\d\d))?\s?(am|pm)?", text)
    if clock:
        hour = int(clock[1])
        if clock[4] and not 1 <= hour <= 12:
            return None
        if clock[4]:
            hour = hour % 12 + (12 if clock[4] == "pm" else 0)
        found = _hour(hour, offset), int(clock[2] or 0), int(clock[3] or 0)
    elif (
        len(words) == 1 and (named := _number(words[0])) is not None and words[0] not in ("a", "an")
    ):
        found = _hour(named, offset), 0, 0
    else:
        return None
    return found if found[0] < 24 and found[1] < 60 and found[2] < 60 else None


def _hour(hour: int, offset: int) -> int:
    return hour + offset if offset and hour < 12 else hour
