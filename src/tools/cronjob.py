"""The tool by which the agent makes and changes jobs of its person."""

from __future__ import annotations

from typing import Literal

from hermes_state import at_hand

from .base import Tool, ToolContext, ToolError, tool


@tool(toolset="cronjob", effect="effectful")
async def cronjob(
    context: ToolContext,
    action: Literal[
        "list", "add", "edit", "pause", "resume", "run", "remove", "history", "note", "due"
    ],
    job: str | None = None,
    schedule: str | None = None,
    prompt: str | None = None,
    name: str | None = None,
    kind: Literal["prompt", "message", "script", "monitor", "check"] | None = None,
    script: str | None = None,
    url: str | None = None,
    note: str | None = None,
) -> str:
    """Keep jobs: work that begins by itself at its time, and answers in this chat.

    Use it when the person wants something later or again and again: a reminder (kind message), a
    question to you (kind prompt), a command without you (kind script), or something that is
    watched, where you are asked only if it has changed (kind monitor), or a check-in, where you
    look through what is due and speak only if there is reason (kind check). It says when a new job
    is due next: tell the person. Within a job, action note replaces its notepad for its next runs.

    action: what to do; due says what stands open: goals, jobs that fail, events of calendars
    job: the id or name of a job, for everything but list, add and due
    schedule: "tomorrow at nine", "every other Monday at 10", "every 20m", or a cron expression
    prompt: what the job is to do, complete in itself; the text of a message
    name: what it is called
    kind: prompt unless said otherwise
    script: the command of a script or a monitor
    url: the page that a monitor looks at
    note: the new content of the notepad
    """
    service = context.services.jobs
    if service is None or context.db is None:
        raise ToolError("Jobs are not available here.")
    given = {
        "job": job, "schedule": schedule, "prompt": prompt, "name": name, "kind": kind,
        "script": script, "url": url, "note": note,
    }  # fmt: skip
    wanted = {key: value for key, value in given.items() if value is not None}
    return await at_hand(context.db, service, action, wanted)


TOOLS: list[Tool] = [cronjob]
