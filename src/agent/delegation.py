"""Sub-agents for `delegate_task`: each has its own session, budget and tools, none has sub-agents.

A sub-agent's session hangs below the conversation that started it and is not listed beside it. When
the caller is interrupted, so is it; what it had done is stored like any other turn.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tools.base import Tool, ToolContext, ToolError
from tools.delegate import Task

from .events import Event, ReplyFinished, ToolStarted

if TYPE_CHECKING:
    from .agent import AIAgent

MAX_ITERATIONS = 50
WITHHELD_TOOLSETS = frozenset({"delegation", "clarify", "memory", "todo"})
"""What a sub-agent does not get: it works for the agent, not for the person."""

PROMPT = (
    "You are a sub-agent{role}. You were given one task by another agent, who sees nothing of your "
    "work but your final answer. Do the task with your tools, then report what you found or did, "
    "with the paths, names and figures that matter, and what is still open. Do not ask questions."
)


class Delegation:
    """Starts sub-agents for one agent."""

    def __init__(self, parent: AIAgent) -> None:
        self._parent = parent

    async def __call__(self, task: Task, number: int, caller: ToolContext) -> str:
        """Run one task to its end; returns the report."""
        child = self._new_agent(task)
        child.on_event = lambda event: relay(event, number, caller)
        context = str(task.get("context") or "").strip()
        prompt = f"{task['goal']}\n\n{context}" if context else task["goal"]
        result = await child.run(prompt)
        if self._parent.db is not None:
            self._parent.db.end_session(child.session_id, "agent_close")
        if result["failed"] or result["interrupted"]:
            reason = result["error"] or "it was interrupted"
            raise ToolError(f"The sub-agent did not finish: {reason}")
        note = "" if result["completed"] else f"\n[It stopped early: {result['error']}]"
        return f"{result['final_response']}{note}\n[session {child.session_id}]"

    def _new_agent(self, task: Task) -> AIAgent:
        from .agent import AIAgent

        parent = self._parent
        role = str(task.get("role") or "").strip()
        return AIAgent(
            parent.llm,
            db=parent.db,
            platform="tool",
            user_id=parent.user_id,
            tools=parent.tools.usable(allowed),
            system_prompt=PROMPT.format(role=f" in the role of {role}" if role else ""),
            max_iterations=min(MAX_ITERATIONS, parent.max_iterations),
            session_facts={
                "parent_session_id": parent.session_id,
                "model_config": {"_delegate_from": parent.session_id},
                "cwd": str(parent.workspace.cwd),
            },
            # Its own working directory and variables, so that several do not disturb each other.
            workspace=dataclasses.replace(
                parent.workspace, environ=dict(parent.workspace.environ), state={}
            ),
            asker=parent.asker,
        )


def allowed(tool: Tool) -> bool:
    """Whether a sub-agent may have this tool."""
    return tool.toolset not in WITHHELD_TOOLSETS


def relay(event: Event, number: int, caller: ToolContext) -> None:
    """Show what a sub-agent is doing, as progress of the call that started it."""
    if isinstance(event, ToolStarted):
        caller.progress(f"[{number}] {event.name} …\n")
    elif isinstance(event, ReplyFinished) and event.text:
        caller.progress(f"[{number}] {event.text[:200]}\n")
