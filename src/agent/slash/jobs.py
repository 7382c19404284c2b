"""Commands for work that begins by itself: /cron and /remind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_state import OPERATOR, JobError

from .owner import LOCAL
from .surface import CommandError
from .table import command

if TYPE_CHECKING:
    from agent.jobs.actions import Jobs
    from agent.jobs.job import JobSettings

    from .surface import Surface

CATEGORY = "Work"
USAGE = (
    "/cron [list | add WHEN | PROMPT | history JOB | pause JOB | resume JOB | run JOB | remove JOB]"
)
SHOWN_RUNS = 10


def _jobs(surface: Surface) -> Jobs:
    from agent.jobs.actions import Jobs

    if surface.platform in LOCAL and surface.user_id is None:
        return Jobs(surface.config, surface.db, OPERATOR)
    if not surface.user_id:
        raise CommandError("It is not known who you are here, so you can have no jobs.")
    return Jobs(surface.config, surface.db, surface.user_id)


def _settings(surface: Surface, prompt: str, **more: Any) -> JobSettings:
    """Settings of a job that answers where it was made."""
    from agent.jobs.job import JobSettings

    return JobSettings(prompt=prompt, **surface.job_place(), **more)


@command("remind", category=CATEGORY, args="WHEN WHAT")
def remind(surface: Surface, args: str) -> str:
    """Be reminded here, e.g. /remind tomorrow at nine call Ada."""
    from agent.jobs.actions import confirmation
    from agent.jobs.schedule import ScheduleError
    from agent.jobs.words import split

    if not args:
        raise CommandError("When, and of what? /remind tomorrow at nine call Ada")
    jobs = _jobs(surface)
    now = surface.db.now()
    try:
        when, what = split(args, jobs.zone, now)
        if not what:
            raise CommandError("Of what? /remind tomorrow at nine call Ada")
        said = _said(args, what)
        settings = _settings(surface, what, kind="message")
        job = jobs.add(when.schedule, settings, zone=when.zone, said=said)
    except (JobError, ScheduleError) as error:
        raise CommandError(str(error)) from error
    return f"⏰ {confirmation(job, now)}\n/cron remove {job.id} takes it back."


def _said(args: str, what: str) -> str:
    """The words of a reminder that say when."""
    text = " ".join(args.split())
    rest = text[: -len(what)] if text.endswith(what) else text.removeprefix(what)
    words = rest.split()
    words = words[1:] if words[:1] == ["me"] else words
    return " ".join(words[:-1] if words[-1:] in (["to"], ["that"], ["about"]) else words)


@command("cron", category=CATEGORY, args="[list | add | history | pause | resume | run | remove]")
def cron(surface: Surface, args: str) -> str:
    """List and change your jobs; /cron add WHEN | PROMPT makes one."""
    from agent.jobs.actions import confirmation, line
    from agent.jobs.schedule import ScheduleError

    action, _, rest = args.strip().partition(" ")
    jobs, now, rest = _jobs(surface), surface.db.now(), rest.strip()
    try:
        if action in ("", "list"):
            kept = jobs.all()
            return "\n".join(line(job, now) for job in kept) or f"You have no jobs. {USAGE}"
        if action == "add":
            when, bar, prompt = rest.partition("|")
            if not bar or not prompt.strip():
                raise CommandError("Write: /cron add daily 08:30 | What is in the news?")
            job = jobs.add(when.strip(), _settings(surface, prompt.strip()))
            return confirmation(job, now)
        if action == "history":
            return _history(jobs, rest)
        if action == "run":
            return f"{jobs.start(rest).name} runs now."
        if action in ("pause", "resume", "remove"):
            job = getattr(jobs, action)(rest)
            said = {"pause": "is paused.", "resume": "goes on.", "remove": "is removed."}
            return f"{job.name} {said[action]}"
    except (JobError, ScheduleError) as error:
        raise CommandError(str(error)) from error
    raise CommandError(USAGE)


def _history(jobs: Jobs, wanted: str) -> str:
    job = jobs.find(wanted)
    lines = [
        f"{job.shown(run['due_at'])}: {run['state']} {run['error'] or ''}".rstrip()
        for run in jobs.history(job.id, SHOWN_RUNS)
    ]
    return "\n".join(lines) or f"{job.name} was not due yet."
