"""What the tool `cronjob` does for an agent: its person's jobs, within its limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.workspaces import workspaces_of
from hermes_state import NOBODY, OPERATOR, JobError
from tools.base import ToolError

from .actions import Jobs, confirmation, line
from .due import FOLDER, what_is_due
from .job import JobSettings
from .schedule import ScheduleError

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.config import Config


class JobService:
    """The jobs that an agent may make and change: those of its person."""

    def __init__(self, config: Config, agent: AIAgent) -> None:
        self._config, self._agent = config, agent

    def __call__(self, action: str, given: Mapping[str, str]) -> str:
        """Do it, and say what came of it; ToolError."""
        try:
            return self._act(action, dict(given))
        except (JobError, ScheduleError) as error:
            raise ToolError(str(error)) from error

    def _act(self, action: str, given: dict[str, str]) -> str:
        agent = self._agent
        if agent.db is None or agent.owner == NOBODY:
            raise ToolError("Nobody knows whose the job would be.")
        # At the machine it may look into everybody's conversations; its jobs are the operator's.
        owner = agent.owner if isinstance(agent.owner, str) else OPERATOR
        jobs = Jobs(self._config, agent.db, owner)
        now, wanted = agent.db.now(), given.pop("job", "")
        if action == "list":
            return "\n".join(line(job, now) for job in jobs.all()) or "There are no jobs."
        if action == "due":
            return what_is_due(jobs, self._calendars())
        if action == "note":
            return self._note(jobs, wanted, given.get("note", ""))
        schedule, name = given.pop("schedule", ""), given.pop("name", "")
        given.pop("note", None)
        if action == "add":
            settings = JobSettings(**given, **self._place(), depth=agent.job_depth)  # type: ignore[arg-type]
            return f"Kept. {confirmation(jobs.add(schedule, settings, name=name), now)}"
        if action == "edit":
            return confirmation(jobs.edit(wanted, given, schedule=schedule, name=name), now)
        if action == "history":
            runs = jobs.history(wanted, 10)
            shown = [f"{run['due_at']:.0f} {run['state']} {run['error'] or ''}" for run in runs]
            return "\n".join(shown) or "It was not due yet."
        if action == "run":
            return f"{jobs.start(wanted).name} runs now."
        job = getattr(jobs, {"pause": "pause", "resume": "resume", "remove": "remove"}[action])(
            wanted
        )
        return f"{action} done: {job.name}"

    def _calendars(self) -> Path | None:
        """Where the person's calendars lie: of the operator in the home, of others in the folder
        that they work in, so that nobody reads another's."""
        agent = self._agent
        if agent.user_id is None:
            return self._config.home / FOLDER
        person = (
            agent.db.get_person(agent.owner) if isinstance(agent.owner, str) and agent.db else None
        )
        folder = None if person is None else workspaces_of(self._config).of_person(person)
        return None if folder is None else folder / FOLDER

    def _note(self, jobs: Jobs, wanted: str, text: str) -> str:
        job_id = self._agent.job_id if not wanted else jobs.find(wanted).id
        if job_id is None or not jobs.db.write_notepad(job_id, text[:20_000]):
            raise ToolError("Only a job has a notepad; name one.")
        return "Noted for the next run."

    def _place(self) -> dict[str, Any]:
        """Where a job that is made here answers: in the chat, or in the home chat."""
        facts, platform = self._agent.session_facts, self._agent.platform
        if not facts.get("chat_id") or not facts.get("session_key"):
            return {"deliver": "home"}
        to = {
            "session_key": facts["session_key"], "platform": platform,
            "chat_id": facts["chat_id"], "thread_id": facts.get("thread_id"),
        }  # fmt: skip
        return {"deliver": "chat", "to": to}
