"""Sub-agents: parts of a task done beside each other, each in a session of its own.

The layer above lends the means (`services.delegate`); this tool checks what is asked, runs the
parts at once, relays their progress and gives the results back in the order of the tasks. In the
background the call returns at once, and the conversation is told later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypedDict

from hermes_state import at_hand

from .base import Tool, ToolContext, ToolError, tool

MOST_TASKS = 8


class Task(TypedDict, total=False):
    """One part of the work."""

    goal: str
    context: str
    role: str


class Delegate(Protocol):
    """Starts sub-agents."""

    async def __call__(self, task: Task, number: int, caller: ToolContext) -> str:
        """Run one to its end and return its report; raises ToolError if it failed."""
        ...

    def start(self, tasks: list[Task]) -> str:
        """Begin the tasks in the background; returns the id under which they are known."""
        ...


@tool(toolset="delegation", effect="effectful", max_output=100_000)
async def delegate_task(
    caller: ToolContext,
    goal: str | None = None,
    context: str | None = None,
    tasks: list[Task] | None = None,
    role: str | None = None,
    background: bool = False,
) -> str:
    """Have sub-agents work on independent parts at the same time. Each begins with nothing but what
    you tell it, and reports back once. Use it for work that would fill your own context.

    goal: what the sub-agent is to achieve, and what to report
    context: what it needs to know: paths, findings, constraints
    tasks: several parts instead of one, each with goal, context and role
    role: what it should be, e.g. "reviewer"
    background: go on at once; the result comes as a message when it is there
    """
    wanted: list[Task] = list(tasks or [])
    if goal:
        wanted.insert(0, Task(goal=goal, context=context or "", role=role or ""))
    if not wanted or any(not str(task.get("goal") or "").strip() for task in wanted):
        raise ToolError("Give a goal, or tasks that each have a goal.")
    settings = caller.workspace.settings.get("delegation") or {}
    most = int(settings.get("max_tasks") or MOST_TASKS)
    if len(wanted) > most:
        raise ToolError(f"At most {most} tasks at once. Do the rest afterwards.")
    delegate = caller.services.delegate
    if delegate is None:
        raise ToolError("Sub-agents are not available here. Do the work yourself.")
    if background:
        started = await at_hand(caller.db, delegate.start, wanted)
        return (
            f"Started in the background as {started}. Its result comes by itself, "
            "as a message, when it is there. Do not wait for it: go on, or end your turn."
        )
    outcomes = await asyncio.gather(
        *(delegate(task, number, caller) for number, task in enumerate(wanted, 1)),
        return_exceptions=True,
    )
    report = joined(wanted, outcomes)
    if all(isinstance(outcome, Exception) for outcome in outcomes):
        raise ToolError(report)
    return report


def joined(tasks: list[Task], outcomes: Sequence[str | BaseException]) -> str:
    """The reports in the order of the tasks; a cancellation among them is raised."""
    parts = []
    for number, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True), 1):
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        text = f"Failed: {outcome}" if isinstance(outcome, Exception) else outcome
        parts.append(f"## {number}. {task['goal']}\n{text}" if len(tasks) > 1 else text)
    return "\n\n".join(parts)


TOOLS: list[Tool] = [delegate_task]
