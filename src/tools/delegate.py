"""Sub-agents: parts of a task done beside each other, each in a session of its own.

The layer above lends the means (`services["delegate"]`); this tool checks what is asked, runs the
parts at once, relays their progress and gives the results back in the order of the tasks.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, TypedDict

from .base import Tool, ToolContext, ToolError, tool

MOST_TASKS = 8


class Task(TypedDict, total=False):
    """One part of the work."""

    goal: str
    context: str
    role: str


class Delegate(Protocol):
    """Runs one sub-agent to its end and returns its report; raises ToolError if it failed."""

    async def __call__(self, task: Task, number: int, caller: ToolContext) -> str: ...


@tool(toolset="delegation", effect="effectful", max_output=100_000)
async def delegate_task(
    caller: ToolContext,
    goal: str | None = None,
    context: str | None = None,
    tasks: list[Task] | None = None,
    role: str | None = None,
) -> str:
    """Have sub-agents work on independent parts at the same time. Each begins with nothing but what
    you tell it, and reports back once. Use it for work that would fill your own context.

    goal: what the sub-agent is to achieve, and what to report
    context: what it needs to know: paths, findings, constraints
    tasks: several parts instead of one, each with goal, context and role
    role: what it should be, e.g. "reviewer"
    """
    wanted: list[Task] = list(tasks or [])
    if goal:
        wanted.insert(0, Task(goal=goal, context=context or "", role=role or ""))
    if not wanted or any(not str(task.get("goal") or "").strip() for task in wanted):
        raise ToolError("Give a goal, or tasks that each have a goal.")
    if len(wanted) > MOST_TASKS:
        raise ToolError(f"At most {MOST_TASKS} tasks at once. Do the rest afterwards.")
    delegate: Delegate | None = caller.services.get("delegate")
    if delegate is None:
        raise ToolError("Sub-agents are not available here. Do the work yourself.")
    outcomes = await asyncio.gather(
        *(delegate(task, number, caller) for number, task in enumerate(wanted, 1)),
        return_exceptions=True,
    )
    parts = []
    for number, (task, outcome) in enumerate(zip(wanted, outcomes, strict=True), 1):
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome  # cancelled
        text = f"Failed: {outcome}" if isinstance(outcome, Exception) else outcome
        parts.append(f"## {number}. {task['goal']}\n{text}" if len(wanted) > 1 else text)
    if all(isinstance(outcome, Exception) for outcome in outcomes):
        raise ToolError("\n\n".join(parts))
    return "\n\n".join(parts)


TOOLS: list[Tool] = [delegate_task]
