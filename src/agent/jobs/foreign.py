"""The jobs of Hermes Agent: its `cron/jobs.json`, read once and kept as jobs of ours."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hermes_state import JobError

from .actions import Jobs
from .job import JobSettings
from .schedule import ScheduleError, zone_named
from .targets import parse_target


def import_file(jobs: Jobs, path: Path) -> Iterator[str]:
    """Take over what a file lists; what became of each, in a line."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise JobError(f"{path} cannot be read: {error}") from error
    listed = kept.get("jobs") if isinstance(kept, dict) else kept
    if not isinstance(listed, list):
        raise JobError(f"{path} lists no jobs.")
    for entry in listed:
        if not isinstance(entry, dict):
            continue
        name = str(entry.get("name") or entry.get("id") or "job")
        try:
            yield f"{name}: {_import(jobs, name, entry, path.resolve().parents[1] / 'scripts')}"
        except (JobError, ScheduleError) as error:
            yield f"{name}: left out. {error}"


def _import(jobs: Jobs, name: str, entry: Mapping[str, Any], scripts: Path) -> str:
    if any(job.name == name for job in jobs.all()):
        return "there is a job of that name already."
    repeat = entry.get("repeat")
    left = None
    if isinstance(repeat, Mapping) and repeat.get("times"):
        left = int(repeat["times"]) - int(repeat.get("completed") or 0)
        if left < 1:
            return "left out, as it is over."
    deliver, to = _target(jobs, entry)
    settings = JobSettings(
        kind="script" if entry.get("no_agent") and entry.get("script") else "prompt",
        prompt=_prompt(entry),
        script=_command(scripts, str(entry.get("script") or "")),
        deliver=deliver,
        to=to,
        model=str(entry.get("model") or ""),
        toolsets=tuple(map(str, entry.get("enabled_toolsets") or ())),
        max_runs=left,
    )
    job = jobs.add(_schedule(jobs, entry), settings, name=name)
    if entry.get("enabled") is False or entry.get("state") == "paused":
        jobs.pause(job.id)
        return f"kept as {job.id}, paused."
    assert job.next_due is not None
    return f"kept as {job.id}, next {job.shown(job.next_due)}."


def _prompt(entry: Mapping[str, Any]) -> str:
    """What is asked, with the skills that the job names."""
    skills = entry.get("skills") or ([entry["skill"]] if entry.get("skill") else [])
    named = ", ".join(map(str, skills)) if isinstance(skills, list) else str(skills)
    prompt = str(entry.get("prompt") or "")
    return f"Use these skills: {named}.\n\n{prompt}".strip() if named else prompt


def _command(scripts: Path, script: str) -> str:
    """The command of a script, which there lies in a folder of the home."""
    path = scripts / script
    if not script or not path.is_file():
        return script
    return f"{'python3' if path.suffix == '.py' else 'bash'} {shlex.quote(str(path))}"


def _schedule(jobs: Jobs, entry: Mapping[str, Any]) -> str:
    schedule = entry.get("schedule")
    if isinstance(schedule, str):
        return schedule
    if not isinstance(schedule, Mapping):
        raise ScheduleError("It has no schedule.")
    kind = schedule.get("kind")
    if kind == "cron":
        return str(schedule.get("expr"))
    if kind == "interval":
        anchor = _moment(jobs, entry.get("next_run_at")) or int(jobs.db.now())
        return f"every {int(schedule.get('minutes') or 0) * 60} from {anchor}"
    moment = _moment(jobs, schedule.get("run_at"))
    if moment is None:
        raise ScheduleError(f"Its schedule is of a kind that is not known: {kind!r}.")
    return f"at {moment}"


def _moment(jobs: Jobs, text: Any) -> int | None:
    try:
        given = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    local = given if given.tzinfo is not None else given.replace(tzinfo=zone_named(jobs.zone))
    return int(local.timestamp())


def _target(jobs: Jobs, entry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Where the answers go: "origin" is the chat in which the job was made."""
    deliver, origin = str(entry.get("deliver") or "local").split(",")[0], entry.get("origin")
    if deliver == "origin" and isinstance(origin, Mapping) and origin.get("chat_id"):
        thread = origin.get("thread_id")
        where = f"{origin.get('platform')}:{origin['chat_id']}"
        deliver = f"{where}:{thread}" if thread else where
    return parse_target(jobs.config, jobs.db, deliver)
