"""What is said and done about jobs: the same from the command line, chats, tools and programs.

Whoever asks sees their own jobs. What is another's is answered exactly as what does not exist.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes_state import OPERATOR, JobError, Owner, stored_owner

from .job import SPENDING, Job, JobSettings
from .schedule import ScheduleError, local_zone, show, upcoming, zone_named
from .words import understand

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import SessionDB

LONGEST_NAME = 80


class Jobs:
    """One person's jobs."""

    def __init__(self, config: Config, db: SessionDB, owner: Owner = OPERATOR) -> None:
        self.config, self.db, self.owner = config, db, owner

    @property
    def is_operator(self) -> bool:
        """Whether these are the operator's, who may let a job do and spend everything."""
        if self.owner == OPERATOR or not isinstance(self.owner, str):
            return True
        person = self.db.get_person(self.owner)
        return person is not None and person.is_operator

    def _require_modest(self, settings: JobSettings) -> None:
        """Raise JobError for what only the operator may let a job do."""
        if self.is_operator:
            return
        if settings.mode == "full":
            raise JobError("A job without a wall (mode full) is for the operator.")
        for name in SPENDING:
            most, wanted = getattr(self.config.jobs, name), getattr(settings, name)
            if most is not None and wanted is not None and wanted > most:
                period = name.rpartition("_")[2]
                much = f"${most:.2f}" if name.startswith("usd") else f"{most:,.0f} tokens"
                raise JobError(f"A job may spend {much} a {period} here.")

    @property
    def zone(self) -> str:
        """The time zone of schedules that name none."""
        configured = self.config.jobs.timezone
        if configured:
            zone_named(configured)
        return configured or local_zone()

    def add(
        self,
        schedule: str,
        settings: JobSettings,
        *,
        name: str = "",
        zone: str = "",
        said: str = "",
    ) -> Job:
        """Keep a job; JobError or ScheduleError says why it cannot be. `said` is the schedule as
        its owner wrote it."""
        if not isinstance(self.owner, str):
            raise JobError("A job belongs to somebody.")
        now = self.db.now()
        settings = dataclasses.replace(settings, said=said or schedule)
        settings.check()
        self._require_modest(settings)
        found = understand(schedule, zone or self.zone, now)
        name = " ".join(name.split())[:LONGEST_NAME] or self._name_for(settings)
        job = _draft(os.urandom(6).hex(), name, found.schedule, found.zone, settings)
        due = job.following(now)
        if due is None:
            raise ScheduleError("The job would end before it is due once.")
        row = self.db.add_job(
            job.id, user_id=stored_owner(self.owner), name=name, schedule=found.schedule,
            timezone=found.zone, settings=settings.kept(), next_due=due, next_at=job.begins(due),
            most=self.config.jobs.most,
        )  # fmt: skip
        return Job.read(row)

    def preview(self, schedule: str, zone: str = "", ends_at: int | None = None) -> list[str]:
        """The next three times that a schedule comes to, as its owner reads them; ScheduleError."""
        now = self.db.now()
        found = understand(schedule, zone or self.zone, now)
        settings = JobSettings(ends_at=ends_at)
        return next_times(_draft("", "", found.schedule, found.zone, settings), now)

    def _name_for(self, settings: JobSettings) -> str:
        """A name from a job's first words that is free."""
        words = (settings.prompt or settings.script or settings.url).split()
        base = " ".join(words)[:40].strip() or ("check-in" if settings.kind == "check" else "job")
        taken = {job.name for job in self.all()}
        names = (base if n == 1 else f"{base} {n}" for n in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def all(self) -> list[Job]:
        """All of them, those that are due next first."""
        return [Job.read(row) for row in self.db.list_jobs(self.owner)]

    def find(self, wanted: str) -> Job:
        """A job by its id, the beginning of that, or its name; JobError."""
        wanted = wanted.strip()
        jobs = self.all()
        exact = [job for job in jobs if wanted in (job.id, job.name)]
        near = exact or [
            job
            for job in jobs
            if (len(wanted) >= 3 and job.id.startswith(wanted))
            or job.name.lower() == wanted.lower()
        ]
        if not wanted or not near:
            raise JobError(f"There is no job {wanted!r}.")
        if len(near) > 1:
            several = ", ".join(f"{job.id} ({job.name})" for job in near)
            raise JobError(f"Several jobs match {wanted!r}: {several}. Name one by its id.")
        return near[0]

    def edit(
        self, wanted: str, changes: Mapping[str, Any], *, schedule: str = "", name: str = ""
    ) -> Job:
        """Change a job, what it does or when."""
        job = self.find(wanted)
        now = self.db.now()
        settings = dataclasses.replace(job.settings, **changes)
        if schedule:
            settings = dataclasses.replace(settings, said=schedule)
        settings.check()
        self._require_modest(settings)
        found = understand(schedule, job.timezone, now) if schedule else None
        drafted = dataclasses.replace(
            job,
            settings=settings,
            schedule=found.schedule if found else job.schedule,
            timezone=found.zone if found else job.timezone,
        )
        fields: dict[str, Any] = {"settings": settings.kept()}
        if found is not None:
            fields |= {"schedule": found.schedule, "timezone": found.zone}
        if found is not None or changes.keys() & {"jitter", "ends_at"}:
            state = "active" if job.state == "done" else job.state
            fields |= {"state": state, **_next(drafted, now)}
        if name:
            fields["name"] = " ".join(name.split())[:LONGEST_NAME]
        return self._change(job, fields)

    def pause(self, wanted: str) -> Job:
        """Let nothing of a job begin until it is resumed."""
        job = self.find(wanted)
        if job.state == "done":
            raise JobError(f"{job.name} is over. Give it a new schedule with edit.")
        return self._change(job, {"state": "paused"})

    def resume(self, wanted: str) -> Job:
        """Let a job go on from now; what was due meanwhile is over."""
        job = self.find(wanted)
        if job.state == "done":
            raise JobError(f"{job.name} is over. Give it a new schedule with edit.")
        fields = _next(job, self.db.now())
        if fields["next_due"] is None:
            raise JobError(f"{job.name} is not due any more. Give it a new schedule with edit.")
        return self._change(job, {"state": "active", **fields})

    def remove(self, wanted: str) -> Job:
        """Delete a job."""
        job = self.find(wanted)
        self.db.remove_job(job.id)
        return job

    def start(self, wanted: str) -> Job:
        """Have a job run now, by whichever process runs jobs."""
        job = self.find(wanted)
        due = int(self.db.now())
        if not self.db.start_run(job.id, due, job.content(), job.session_for(due), owned=False):
            raise JobError(
                f"{job.name} was begun in this very second. For another run, ask again in a second."
            )
        return job

    def history(self, wanted: str, limit: int = 20) -> list[dict[str, Any]]:
        """What became of a job's occurrences, newest first."""
        return self.db.list_job_runs(self.find(wanted).id, limit)

    def _change(self, job: Job, fields: Mapping[str, Any]) -> Job:
        if not self.db.change_job(job.id, job.version, **fields):
            raise JobError(f"{job.name} was changed by somebody else meanwhile. Look at it again.")
        return self.find(job.id)


def _draft(job_id: str, name: str, schedule: str, zone: str, settings: JobSettings) -> Job:
    return Job(
        job_id, None, name, schedule, zone, settings, "active", None, None, 0, 0, None, None, 1, 0.0
    )


def _next(job: Job, now: float) -> dict[str, Any]:
    due = job.following(now)
    return {"next_due": due, "next_at": None if due is None else job.begins(due)}


# In words


def next_times(job: Job, now: float) -> list[str]:
    """The next three times of a job, as its owner reads them."""
    times = upcoming(job.schedule, job.timezone, now, 3)
    ends_at = job.settings.ends_at
    return [show(due, job.timezone) for due in times if ends_at is None or due <= ends_at]


def confirmation(job: Job, now: float) -> str:
    """What somebody reads who has made or changed a job."""
    times = next_times(job, now)
    head = f"{job.name} ({job.id}): {job.settings.said or job.schedule}"
    return "\n".join([head, *(f"  {time}" for time in times)])


def line(job: Job, now: float) -> str:
    """A job in one line."""
    if job.state != "active" or job.next_due is None:
        when = job.state
    else:
        when = f"next {show(job.next_due, job.timezone)}"
    failing = f", failed {job.failures}×" if job.failures else ""
    return f"{job.id}  {job.name}: {job.settings.said or job.schedule}; {when}{failing}"


def as_dict(job: Job, now: float | None = None) -> dict[str, Any]:
    """A job for programs."""
    plain = dataclasses.asdict(job)
    settings = plain.pop("settings")
    plain.pop("user_id")
    return {
        **plain,
        **settings,
        "toolsets": list(job.settings.toolsets),
        "enabled": job.state == "active",
        "next_times": [] if now is None else upcoming(job.schedule, job.timezone, now, 3),
    }
