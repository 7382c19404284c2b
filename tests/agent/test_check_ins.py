"""What is due for a person: their goals, their failing jobs, and their calendars."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from agent.config import load_config
from agent.jobs.actions import Jobs
from agent.jobs.calendar import events_in
from agent.jobs.due import what_is_due
from hermes_state import SessionDB

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 18, 8, 0, tzinfo=ZoneInfo(ZONE)).timestamp()


def event(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VEVENT", *lines, "END:VEVENT", ""])


def titles(folder: Path, *events: str) -> list[str]:
    (folder / "mine.ics").write_text("BEGIN:VCALENDAR\r\n" + "".join(events) + "END:VCALENDAR\r\n")
    return [str(found) for found in events_in(folder, ZONE, NOW)]


def test_events_of_the_next_day_are_told_in_order(tmp_path: Path) -> None:
    assert events_in(tmp_path / "none", ZONE, NOW) == []
    assert titles(
        tmp_path,
        event("DTSTART:20261118T120000Z", "SUMMARY:Call A", " da"),
        event("DTSTART;TZID=America/New_York:20261118T060000", "SUMMARY:Early there"),
        event("DTSTART;VALUE=DATE:20261118", "SUMMARY:A feast"),
        event("DTSTART:20261118T070000", "SUMMARY:Over already"),
        event("DTSTART:20261120T070000", "SUMMARY:Later"),
    ) == [
        "Wed 2026-11-18: A feast", "Wed 2026-11-18 12:00: Early there",
        "Wed 2026-11-18 13:00: Call Ada",
    ]  # fmt: skip


def test_rules_are_followed_on_their_own_clock(tmp_path: Path) -> None:
    weekly = "RRULE:FREQ=WEEKLY;BYDAY=WE;UNTIL=20270101T000000Z"
    assert titles(
        tmp_path,
        event(f"DTSTART;TZID={ZONE}:20260603T093000", weekly, "SUMMARY:Standing"),
        event(f"DTSTART;TZID={ZONE}:20260604T093000", "RRULE:FREQ=WEEKLY", "SUMMARY:Thursdays"),
        event("DTSTART:20261118T090000", "STATUS:CANCELLED", "SUMMARY:Not any more"),
    ) == ["Wed 2026-11-18 09:30: Standing"]


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert titles(
        tmp_path,
        event("DTSTART:soon", "SUMMARY:No time"),
        event("SUMMARY:No start"),
        event("DTSTART:20261118T090000", "RRULE:FREQ=NEVER", "SUMMARY:No rule"),
        event("DTSTART:20261118T090000", "RRULE:FREQ=SECONDLY", "SUMMARY:Too often"),
        event("DTSTART:20261118T100000", "BEGIN:VALARM", "SUMMARY:Its alarm", "END:VALARM"),
    ) == ["Wed 2026-11-18 10:00: an event without a title"]


def test_only_what_is_ones_own_is_due(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"TZ": ZONE})
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        db.set_goal("s", "Ship it", "begin")
        mine = what_is_due(Jobs(config, db), None)
        assert "🎯 Goal, step 1: Ship it [s]" in mine and mine.startswith("Today is ")
        assert "Ship it" not in what_is_due(Jobs(config, db, "telegram:1"), None)
