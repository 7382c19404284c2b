"""What is due for a person, as a check-in is told it: goals, failing jobs, events of calendars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes_state.goals import ACTIVE, PAUSED, in_words

from .calendar import events_in
from .schedule import show

if TYPE_CHECKING:
    from .actions import Jobs

FOLDER = "calendar"
MOST = 30
"""Entries of each kind that are told."""


def what_is_due(jobs: Jobs, folder: Path | None) -> str:
    """What stands open today; `folder` is where the person's calendars lie."""
    now, zone = jobs.db.now(), jobs.zone
    # Without the hour: what is due is the same until something changes, or the day.
    parts = [f"Today is {show(now, zone)[:14]}."]
    goals = [goal for goal in jobs.db.list_goals(jobs.owner) if goal["status"] in (ACTIVE, PAUSED)]
    parts += _listed("Goals", [f"{in_words(goal)} [{goal['session_id']}]" for goal in goals])
    failing = [job for job in jobs.all() if job.failures]
    parts += _listed("Jobs that fail", [job.name for job in failing])
    if folder is not None:
        events = events_in(folder, zone, now)
        parts += _listed("In the calendars, within a day", [str(event) for event in events])
    return "\n".join(parts)


def _listed(title: str, entries: list[str]) -> list[str]:
    if not entries:
        return []
    more = [f"… and {len(entries) - MOST} more"] if len(entries) > MOST else []
    return [f"{title}:", *(f"- {entry}" for entry in [*entries[:MOST], *more])]
