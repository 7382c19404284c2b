"""Jobs: work that begins by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from agent.jobs.actions import Jobs, as_dict, confirmation
from agent.jobs.job import Job, JobSettings
from agent.jobs.schedule import ScheduleError
from hermes_state import JobError

from .. import shapes_jobs as wire
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method

BAD_JOB = 4016
R = TypeVar("R")
_RUN_FIELDS = tuple(wire.WireRun.__annotations__)


@method("cron.list", scope=READ)
def list_jobs(call: Call) -> wire.JobList:
    """The person's jobs."""
    return {"jobs": [_shown(call, job) for job in _jobs(call).all()]}


@method("cron.history", scope=READ)
def history(call: Call, name: str, limit: int = 20) -> wire.JobHistory:
    """What became of a job's occurrences: outcome, times, cost and conversation."""
    jobs = _jobs(call)
    job = _done(lambda: jobs.find(name))
    runs = jobs.history(job.id, max(1, min(limit, 500)))
    shown: list[wire.WireRun] = [
        {field: run[field] for field in _RUN_FIELDS}  # type: ignore[misc]
        for run in runs
    ]
    return {"job": _shown(call, job), "runs": shown}


@method("cron.manage", scope=TALK, slow=True)
def manage(
    call: Call,
    action: Literal["add", "edit", "pause", "resume", "run", "remove"],
    name: str = "",
    prompt: str = "",
    schedule: str = "",
    kind: Literal["prompt", "message", "script", "monitor", "check"] = "prompt",
    script: str = "",
    url: str = "",
) -> wire.JobManaged:
    """Make or change a job; `name` is its name or its id.

    A job that is made here has a conversation for each run and answers in the person's home chat.
    """
    jobs = _jobs(call)

    def act() -> Job:
        if action == "add":
            settings = JobSettings(kind=kind, prompt=prompt, script=script, url=url, deliver="home")
            return jobs.add(schedule, settings, name=name)
        if action == "edit":
            given = {"prompt": prompt, "script": script, "url": url}
            changes = {field: text for field, text in given.items() if text}
            return jobs.edit(name, changes, schedule=schedule)
        if action == "run":
            return jobs.start(name)
        change: Callable[[str], Job] = getattr(jobs, action)
        return change(name)

    job = _done(act)
    return {"job": _shown(call, job), "message": confirmation(job, call.db.now())}


def _jobs(call: Call) -> Jobs:
    return Jobs(call.config, call.db, call.principal.person_id)


def _done(act: Callable[[], R]) -> R:
    try:
        return act()
    except (JobError, ScheduleError) as error:
        raise RpcError(BAD_JOB, str(error)) from error


def _shown(call: Call, job: Job) -> wire.WireJob:
    plain = as_dict(job, call.db.now())
    return {field: plain[field] for field in wire.WireJob.__annotations__}  # type: ignore[return-value]
