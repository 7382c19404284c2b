"""What becomes of a job that is due: what is run, what is left out by its rule, what is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes_state.jobs import Claim, Notice, Skip

from .job import MISSED_AFTER, Job
from .schedule import last_until, next_after


def plan(job: Job, now: float, tell: Mapping[str, Any] | None = None) -> Claim:
    """The claim of a job that was due by `now`; `tell` is the chat that hears what was missed."""
    assert job.next_due is not None
    first = job.next_due
    until = now if job.settings.ends_at is None else min(now, job.settings.ends_at)
    last, count = last_until(job.schedule, job.timezone, first, until)
    is_missed = now - job.begins(last) > MISSED_AFTER
    due = _chosen(job, first, last, count, is_missed)
    left = None if job.settings.max_runs is None else job.settings.max_runs - job.runs
    if left is not None:
        due = due[:left]
    next_due = job.following(last)
    if left is not None and len(due) >= left:
        next_due = None
    skips = _skips(first, last, count, due)
    notices: tuple[Notice, ...] = ()
    if tell is not None and now - job.begins(first) > MISSED_AFTER:
        name = f"say:job:{job.id}:missed:{first}"
        notices = (Notice(name, _missed(job, first, last, count, len(due)), tell),)
    next_at = None if next_due is None else job.begins(next_due)
    return Claim(next_due, next_at, due, skips, notices)


def _chosen(job: Job, first: int, last: int, count: int, is_missed: bool) -> tuple[int, ...]:
    """The occurrences that are run, of those from the first to the last."""
    rule = job.settings.missed
    if rule == "skip" and is_missed:
        return ()
    if rule != "all" or count == 1:
        return (last,)
    most = job.settings.missed_most
    newest = [first]
    while newest[-1] < last and (due := next_after(job.schedule, job.timezone, newest[-1])):
        newest = [*newest[-most + 1 :], due] if most > 1 else [due]
    return tuple(newest)


def _skips(first: int, last: int, count: int, due: tuple[int, ...]) -> tuple[Skip, ...]:
    """The stretch of occurrences that are left out: those before the ones that are run."""
    left_out = count - len(due)
    if left_out <= 0:
        return ()
    why = "nothing was running then"
    if not due:
        return (Skip(first, last, left_out, why),)
    if first in due:  # the job ends before the newest of them
        return (Skip(due[-1] + 1, last, left_out, "the job was over"),)
    return (Skip(first, due[0] - 1, left_out, why),)


def _missed(job: Job, first: int, last: int, count: int, runs: int) -> str:
    """What the owner is told of occurrences that were missed."""
    when = job.shown(first) if count == 1 else f"from {job.shown(first)} to {job.shown(last)}"
    left_out = count - runs
    said = [f"⏰ {job.name}: nothing was running {when}."]
    if runs:
        said.append("It runs now." if runs == 1 else f"The last {runs} run now.")
    if left_out:
        times = "One occurrence was" if left_out == 1 else f"{left_out} occurrences were"
        said.append(f"{times} left out, by its rule ({job.settings.missed}).")
    return " ".join(said)
