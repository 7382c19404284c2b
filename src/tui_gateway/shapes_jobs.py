"""Shapes on the wire: jobs."""

from __future__ import annotations

from typing import TypedDict


class WireJob(TypedDict):
    """A job."""

    id: str
    name: str
    said: str
    schedule: str
    timezone: str
    kind: str
    prompt: str
    state: str
    next_times: list[int]
    runs: int
    failures: int


class WireRun(TypedDict):
    """What became of an occurrence, or of several that were left out."""

    due_at: float
    state: str
    skipped: int
    started_at: float | None
    ended_at: float | None
    session_id: str | None
    answer: str | None
    error: str | None
    cost_usd: float | None


class JobList(TypedDict):
    """Jobs, those that are due next first."""

    jobs: list[WireJob]


class JobManaged(TypedDict):
    """A job as it is now, or as it was before it was removed."""

    job: WireJob
    message: str


class JobHistory(TypedDict):
    """What became of a job's occurrences, newest first."""

    job: WireJob
    runs: list[WireRun]
