"""A job: what it does, where, for whom and within which limits."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_state import JobError

from .schedule import check, next_after, show

KINDS = ("prompt", "message", "script", "monitor", "check")
PLACES = ("fresh", "own", "chat", "session")
MISSED = ("skip", "once", "all")
OVERLAPS = ("skip", "queue")
MODES = ("plan", "guarded", "full")
APPROVALS = ("ask", "refuse")
CHECK_PROMPT = (
    "Look through what is due, and through what you remember. Say in a few sentences what the"
    " person should know or do now, and nothing that you have told them before. Most of the time"
    " there is no reason to speak."
)
"""What a check-in asks that has no prompt of its own."""
SILENT = "[SILENT]"
"""An answer that begins with it is kept and not sent."""
MISSED_AFTER = 120
"""Seconds after which an occurrence that was not begun was missed."""
SPENDING = ("usd_per_day", "usd_per_month", "tokens_per_day", "tokens_per_month")
"""What may be limited about a job, as it is limited for persons and chats."""
LONGEST_TEXT = 20_000
DEEPEST = 1
"""How far jobs may be made by jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What a person decides about a job."""

    kind: str = "prompt"
    """prompt: a model is asked; message: the text is said as it is; script: a command is run and
    its output said, without a model; monitor: a model is asked if what a command prints, or a page
    says, has changed; check: a model is asked if what is due for the person has changed."""
    prompt: str = ""
    script: str = ""
    """The command of a script or a monitor."""
    url: str = ""
    """The page of a monitor without a command."""
    where: str = "fresh"
    """The conversation: a fresh one for each run, one of its own, the one that a chat is in, or the
    one of `session_id`."""
    session_id: str = ""
    session_key: str = ""
    """The chat of `where: chat`."""
    deliver: str = "none"
    """none, home (the owner's home chat), or chat (`to`)."""
    to: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    toolsets: tuple[str, ...] = ()
    mode: str = "guarded"
    approvals: str = "refuse"
    """What needs approval: asked in the owner's chat, or refused."""
    missed: str = "once"
    missed_most: int = 10
    """Occurrences that `missed: all` catches up with."""
    overlap: str = "skip"
    jitter: int = 0
    ends_at: int | None = None
    max_runs: int | None = None
    usd_per_day: float | None = None
    usd_per_month: float | None = None
    tokens_per_day: float | None = None
    tokens_per_month: float | None = None
    notepad: bool = False
    """Whether it is shown what it has noted, and may note more."""
    depth: int = 0
    """0 if a person made it, 1 if a job of theirs did."""
    said: str = ""
    """The schedule as it was written."""

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> JobSettings:
        """From what is kept; what a newer release has added is passed over."""
        known = {item.name for item in dataclasses.fields(cls)}
        values = {name: value for name, value in kept.items() if name in known}
        values["toolsets"] = tuple(values.get("toolsets") or ())
        return cls(**values)

    def kept(self) -> dict[str, Any]:
        """As it is kept: what is not as by default."""
        plain = dataclasses.asdict(self)
        default = dataclasses.asdict(JobSettings())
        return {name: value for name, value in plain.items() if value != default[name]}

    def check(self) -> None:
        """Raise JobError unless a job can be run like this."""
        for name, known in (
            ("kind", KINDS), ("where", PLACES), ("missed", MISSED), ("overlap", OVERLAPS),
            ("mode", MODES), ("approvals", APPROVALS),
            ("deliver", ("none", "home", "chat")),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                raise JobError(f"{name} must be one of {', '.join(known)}.")
        wanted = {"prompt": self.prompt, "message": self.prompt, "script": self.script}
        if self.kind != "check" and not wanted.get(self.kind, self.script or self.url):
            raise JobError(f"A job of the kind {self.kind} needs {_NEEDS[self.kind]}.")
        if max(len(self.prompt), len(self.script), len(self.url)) > LONGEST_TEXT:
            raise JobError(f"The text of a job may have {LONGEST_TEXT:,} characters.")
        if self.kind == "monitor" and not self.prompt:
            raise JobError("A monitor needs a prompt: what to do when something has changed.")
        for name, least, most in (("jitter", 0, 86_400), ("missed_most", 1, 1000)):
            if not least <= getattr(self, name) <= most:
                raise JobError(f"{name} must be between {least} and {most}.")
        if self.max_runs is not None and self.max_runs < 1:
            raise JobError("A job runs once at least.")
        for name in SPENDING:
            most = getattr(self, name)
            if most is not None and not most >= 0:
                raise JobError(f"{name} must be a number of {_unit(name)}.")
        if self.depth > DEEPEST:
            raise JobError("A job that a job made may not make further jobs.")


def _unit(limit: str) -> str:
    return "dollars" if limit.startswith("usd") else "tokens"


_NEEDS = {
    "prompt": "a prompt", "message": "a text", "script": "a command",
    "monitor": "a command or a URL to look at",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is kept."""

    id: str
    user_id: str | None
    name: str
    schedule: str
    timezone: str
    settings: JobSettings
    state: str
    next_due: int | None
    next_at: float | None
    runs: int
    failures: int
    notepad: str | None
    last_result: str | None
    version: int
    created_at: float

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Job:
        """From a row of the store."""
        values = {item.name: row[item.name] for item in dataclasses.fields(cls)}
        values["settings"] = JobSettings.read(row["settings"])
        values["next_due"] = None if row["next_due"] is None else int(row["next_due"])
        return cls(**values)

    def shown(self, moment: float) -> str:
        """A moment as its owner reads it."""
        return show(moment, self.timezone)

    def following(self, moment: float) -> int | None:
        """Its first time after a moment; None if it is over by then."""
        due = next_after(self.schedule, self.timezone, moment)
        ends_at = self.settings.ends_at
        return None if due is None or (ends_at is not None and due > ends_at) else due

    def begins(self, due: int) -> float:
        """When an occurrence is begun: later than due by its jitter, the same in every process."""
        jitter = self.settings.jitter
        if not jitter:
            return float(due)
        digest = hashlib.sha256(f"{self.id}:{due}".encode()).digest()
        return due + int.from_bytes(digest[:4], "big") % (jitter + 1)

    def content(self) -> str:
        """What an occurrence is asked, as the conversation has it."""
        settings = self.settings
        text = settings.prompt or settings.script or settings.url or CHECK_PROMPT
        parts = [f"[Job {self.name!r}]", text]
        if settings.notepad:
            kept = self.notepad or "nothing yet"
            parts.append(f"[Your notepad, which the tool cronjob writes (action note):]\n{kept}")
        if settings.kind in ("prompt", "monitor", "check"):
            parts.append(
                f"[Nobody waits for this. Answer {SILENT} alone if nothing is to be said.]"
            )
        return "\n\n".join(parts)

    def session_for(self, due: int) -> str:
        """The session that an occurrence begins in, where that is the job's to say."""
        import time

        if self.settings.where == "session":
            return self.settings.session_id
        if self.settings.where == "own":
            return f"cron_{self.id}_own"
        return f"cron_{self.id}_{time.strftime('%Y%m%d_%H%M%S', time.gmtime(due))}"


def check_schedule(schedule: str, zone: str) -> None:
    """Raise ScheduleError unless a schedule can be kept."""
    check(schedule, zone)
