"""Sub-agents for `delegate_task`: each has its own session, budget and tools, none has sub-agents.

A sub-agent's session hangs below the conversation that started it and is not listed beside it. When
the caller is interrupted, so is the sub-agent; what it had done is stored like any other turn.
Those in the background go on until they are done, and the conversation is notified of their result
once.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
import weakref
from typing import TYPE_CHECKING, Any

from hermes_state import SUB_AGENT, at_hand
from tools.approval import StoredAsker
from tools.base import Asker, NobodyToAsk, Tool, ToolContext, ToolError
from tools.delegate import Task

from .asking import own_asker
from .errors import ModelError
from .events import BackgroundFinished, Event, NoteStored, ReplyFinished, ToolStarted, Watcher
from .hooks import fire
from .notes import count_stored
from .outcome import Answered, TurnOutcome
from .request import Question

if TYPE_CHECKING:
    from .agent import AIAgent
    from .model import Model

log = logging.getLogger(__name__)

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
        self._children: weakref.WeakSet[AIAgent] = weakref.WeakSet()

    @property
    def children(self) -> list[AIAgent]:
        """The sub-agents that may be at work."""
        return list(self._children)

    async def __call__(self, task: Task, number: int, caller: ToolContext) -> str:
        """Run one task to its end; returns the report."""
        child = self._new_agent(task, self._parent.turn_asker())
        return await self._run(child, task, lambda event: relay(event, number, caller))

    async def _run(self, child: AIAgent, task: Task, watch: Watcher | None = None) -> str:
        context = str(task.get("context") or "").strip()
        prompt = f"{task['goal']}\n\n{context}" if context else task["goal"]
        began = time.perf_counter()
        facts = await self._tell_start(child, task)
        outcome = await child.run(Question(prompt), watch=watch)
        await fire(
            "subagent_stop",
            **facts,
            child_session_id=child.session_id,
            child_summary=outcome.text,
            child_status=_status(outcome),
            duration_ms=int((time.perf_counter() - began) * 1000),
        )
        if self._parent.db is not None:
            await at_hand(self._parent.db, self._close_session, child.session_id)
        if not isinstance(outcome, Answered):
            reason = outcome.error or "it was interrupted"
            raise ToolError(f"The sub-agent did not finish: {reason}")
        note = "" if outcome.completed else f"\n[It stopped early: {outcome.error}]"
        report = f"{outcome.text}{note}"
        self._parent.learner.providers.tell(
            "on_delegation", task["goal"], report, child_session_id=child.session_id
        )
        return f"{report}\n[session {child.session_id}]"

    def _close_session(self, session_id: str) -> None:
        assert self._parent.db is not None
        self._parent.db.end_session(session_id, "agent_close")
        self._parent.db.drop_notes(session_id)  # the sub-agent's session has ended

    async def _tell_start(self, child: AIAgent, task: Task) -> dict[str, Any]:
        facts = {
            "parent_session_id": self._parent.session_id,
            "parent_turn_id": self._parent.turn_facts.id,
            "child_role": str(task.get("role") or ""),
        }
        await fire(
            "subagent_start",
            **facts,
            parent_subagent_id=None,  # a sub-agent has none of its own
            child_session_id=child.session_id,
            child_subagent_id=child.session_id,
            child_goal=task["goal"],
        )
        return facts

    # In the background

    def start(self, tasks: list[Task]) -> str:
        """Begin tasks that go on by themselves; returns the id under which they are known."""
        from . import background

        parent = self._parent
        if parent.db is None:
            raise ToolError("Without a store nothing can run in the background. Do it now instead.")
        parent.ensure_session()
        asker = asker_in_background(parent.asker)
        run = background.Run(
            f"bg_{os.urandom(4).hex()}",
            parent.db.get_conversation_root(parent.session_id),
            parent.db,
            tasks,
            [self._new_agent(task, asker) for task in tasks],
            self._announce_end,
        )
        try:
            background.begin(run, parent.session_id, self._run_and_close)
        except background.TooManyError as error:
            raise ToolError(f"{error} Do it now instead, or wait for one of them.") from error
        return run.id

    async def _run_and_close(self, child: AIAgent, task: Task) -> str:
        try:
            return await self._run(child, task)
        finally:
            child.close()

    def _announce_end(self, delegation_id: str, state: str, report: str) -> None:
        count_stored()
        parent = self._parent
        parent.announce(BackgroundFinished(parent.session_id, delegation_id, state, report))
        parent.announce(NoteStored(parent.session_id))

    def _new_agent(self, task: Task, asker: Asker) -> AIAgent:
        from .agent import AIAgent

        parent = self._parent
        role = str(task.get("role") or "").strip()
        settings = parent.workspace.settings.get("delegation") or {}
        most = int(settings.get("max_iterations") or MAX_ITERATIONS)
        child = AIAgent(
            self._model(),
            db=parent.db,
            platform=SUB_AGENT,
            user_id=parent.user_id,
            owner=parent.owner,
            tools=parent.tools.usable(allowed),
            system_prompt=PROMPT.format(role=f" in the role of {role}" if role else ""),
            max_iterations=min(most, parent.max_iterations),
            session_facts={
                "parent_session_id": parent.session_id,
                "model_config": {"_delegate_from": parent.session_id},
                "cwd": str(parent.workspace.cwd),
            },
            # Its own working directory and variables, so that several do not disturb each other.
            workspace=dataclasses.replace(
                parent.workspace, environ=dict(parent.workspace.environ), state={}
            ),
            asker=asker,
            auxiliary=parent.auxiliary,
            compression=parent.compression,
            compression_timeout=parent.compression_timeout,
            limits=parent.limits,
            permissions=parent.permissions,
            memory=dataclasses.replace(
                parent.memory, conversation=parent.memory.conversation or parent.session_id
            ),
        )
        child.spend_for(parent)
        self._children.add(child)
        return child

    def _model(self) -> Model:
        """The model of sub-agents: the one under `delegation`, or else their agent's own."""
        parent = self._parent
        if parent.auxiliary is None:
            return parent.llm
        try:
            return parent.auxiliary.own_model("delegation") or parent.llm
        except (ModelError, ValueError) as error:
            raise ToolError(f"The model for sub-agents cannot be used: {error}") from error


def _status(outcome: TurnOutcome) -> str:
    if outcome.interrupted:
        return "interrupted"
    return "failed" if outcome.failed else "completed" if outcome.completed else "partial"


def asker_in_background(asker: Asker) -> Asker:
    """The asker for background work: one that may answer later, never one at a prompt."""
    own = own_asker(asker)
    return own if isinstance(own, StoredAsker) else NobodyToAsk()


def allowed(tool: Tool) -> bool:
    """Whether a sub-agent may have this tool."""
    return tool.toolset not in WITHHELD_TOOLSETS


def relay(event: Event, number: int, caller: ToolContext) -> None:
    """Show what a sub-agent is doing, as progress of the call that started it."""
    if isinstance(event, ToolStarted):
        caller.progress(f"[{number}] {event.name} …\n")
    elif isinstance(event, ReplyFinished) and event.text:
        caller.progress(f"[{number}] {event.text[:200]}\n")
