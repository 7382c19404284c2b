"""Times that a question names: yesterday, in March, 2024, last week; and questions for a time.

A month without a year is the last such month, a weekday the last such day. Times are those of this
machine's zone.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import NamedTuple

from .folding import words

_MONTHS: dict[str, int] = {}
for _line in (
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar marz april mai juni juli august september oktober november dezember",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
):
    _MONTHS |= {name: number for number, name in enumerate(_line.split(), 1)}
_AMBIGUOUS = frozenset(("may", "mar", "march", "mars"))  # in a question mostly other words

_DAYS: dict[str, int] = {}
for _line in (
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miercoles jueves viernes sabado domingo",
):
    _DAYS |= {name: number for number, name in enumerate(_line.split())}

_AGO = {
    "today": 0, "heute": 0, "aujourd": 0, "hoy": 0, "今天": 0, "今日": 0,
    "yesterday": 1, "gestern": 1, "hier": 1, "ayer": 1, "昨天": 1, "昨日": 1,
    "vorgestern": 2, "anteayer": 2, "前天": 2,
}  # fmt: skip
_LAST = {
    "week": ("last week", "past week", "letzte woche", "vorige woche", "semaine derniere",
             "semana pasada", "上周", "上星期", "先週"),
    "month": ("last month", "past month", "letzten monat", "vorigen monat", "mois dernier",
              "mes pasado", "上个月", "先月"),
    "year": ("last year", "letztes jahr", "voriges jahr", "annee derniere", "ano pasado", "去年",
             "昨年"),
}  # fmt: skip
_YEAR = re.compile(r"(?:19|20)\d\d")
_CJK_MONTH = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(?:(\d{1,2})日)?")

_WHEN = re.compile(
    r"\b(?:when|what (?:time|date|day|month|year)|which (?:day|date|month|year|weekday)"
    r"|how long ago"
    r"|wann|seit wann|um wie viel uhr|an welchem tag|quand|quel jour|quelle (?:heure|date)|cuando"
    r"|que (?:dia|fecha)|a que hora)\b|什么时候|几点|几号|哪天|いつ|何時|何日"
)
_TIME_WORDS = re.compile(
    r"\b(?:\d{1,2}[:.]\d\d|(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th)|oclock|uhr|heures|tomorrow|yesterday"
    r"|today|tonight|morning|evening|afternoon|week|weeks|month|months|year|years|days?|ago|last|next"
    r"|morgen|gestern|heute|abends?|woche|wochen|monat|monate|jahr|jahre|tage?|demain|hier|semaine"
    r"|mois|ans?|jours?|manana|ayer|semana|mes|meses|anos?|dias?|"
    + "|".join([*(name for name in _MONTHS if len(name) > 3), *_DAYS])
    + r")\b|\d+\s?[月日号点時年]|[一二三四五六七八九十]+月|[月火水木金土日]曜日"
    r"|明天|昨天|今天|上周|下周|明日|昨日|来週|先週|来月"
)


class Named(NamedTuple):
    """A stretch of time."""

    since: float
    until: float
    words: frozenset[str]
    """The words of the question that name it."""


def asks_when(typed: str) -> bool:
    """Whether a question asks for a time."""
    return bool(_WHEN.search(" ".join(words(typed)) + " " + typed))


def tells_time(text: str) -> bool:
    """Whether a text has words for a time."""
    return bool(_TIME_WORDS.search(" ".join(words(text))) or _TIME_WORDS.search(text))


def named_time(typed: str, now: float) -> Named | None:
    """The time that a question names, if it names one that has begun."""
    listed = words(typed)
    joined = " ".join(listed)
    today = (
        datetime.datetime.fromtimestamp(now)
        .astimezone()
        .replace(hour=0, minute=0, second=0, microsecond=0)
    )
    for word, days in _AGO.items():
        if word in listed or (not word.isascii() and word in typed):
            start = today - datetime.timedelta(days=days)
            return _named(start, start + datetime.timedelta(days=1), (word,))
    for unit, phrases in _LAST.items():
        for phrase in phrases:
            if phrase in joined or (not phrase.isascii() and phrase in typed):
                return _named(*_last(unit, today), phrase.split())
    return _dated(typed, listed, today)


def _last(unit: str, today: datetime.datetime) -> tuple[datetime.datetime, datetime.datetime]:
    if unit == "week":
        monday = today - datetime.timedelta(days=today.weekday())
        return monday - datetime.timedelta(days=7), monday
    if unit == "month":
        first = today.replace(day=1)
        return (first - datetime.timedelta(days=1)).replace(day=1), first
    first = today.replace(month=1, day=1)
    return first.replace(year=first.year - 1), first


def _dated(typed: str, listed: Sequence[str], today: datetime.datetime) -> Named | None:
    """A month, a year, a day of them, or a weekday."""
    year = next((int(word) for word in listed if _YEAR.fullmatch(word)), None)
    month = day = None
    used: list[str] = [str(year)] if year else []
    if (match := _CJK_MONTH.search(typed)) is not None:
        year = int(match.group(1)) if match.group(1) else year
        month, day = int(match.group(2)), int(match.group(3) or 0) or None
    for place, word in enumerate(listed):
        number = _MONTHS.get(word)
        if number is None or (word in _AMBIGUOUS and not year and not _is_date(listed, place)):
            continue
        month = number
        used.append(word)
        around = [listed[at] for at in (place - 1, place + 1) if 0 <= at < len(listed)]
        days = [re.sub(r"(?:st|nd|rd|th|er)$", "", word) for word in around]
        day = next((int(word) for word in days if word.isdigit() and 0 < int(word) < 32), None)
        break
    if month is None and year is None:
        weekday = next((_DAYS[word] for word in listed if word in _DAYS), None)
        if weekday is None:
            return None
        start = today - datetime.timedelta(days=(today.weekday() - weekday) % 7 or 7)
        name = next(word for word in listed if word in _DAYS)
        return _named(start, start + datetime.timedelta(days=1), (name,))
    if month is not None and not 1 <= month <= 12:
        return None
    try:
        if month is None:
            assert year is not None
            first = today.replace(year=year, month=1, day=1)
            return _named(first, first.replace(year=year + 1), used)
        if year is None:
            year = today.year - (month > today.month)
        first = today.replace(year=year, month=month, day=day or 1)
        if day is not None:
            return _named(first, first + datetime.timedelta(days=1), used)
        return _named(first, (first + datetime.timedelta(days=31)).replace(day=1), used)
    except (ValueError, OverflowError):
        return None  # there is no such day


def _is_date(listed: Sequence[str], place: int) -> bool:
    """Whether a word that may be a month stands where months stand."""
    before = listed[place - 1] if place else ""
    return before in ("in", "of", "last", "since", "im", "en", "de", "seit") or before.isdigit()


def _named(since: datetime.datetime, until: datetime.datetime, used: Sequence[str]) -> Named:
    return Named(since.timestamp(), until.timestamp(), frozenset(used))
