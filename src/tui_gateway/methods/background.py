"""Work that sub-agents do beside the conversations."""

from __future__ import annotations

from typing import Any

from tools.base import ToolError

from .. import agents, live
from .. import shapes_work as wire
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method
from .processes import process_info, processes_of

NO_TASK = 4012
NO_SUBAGENT = 4000
NOT_STARTED = 5008


@method("prompt.background", scope=TALK, slow=True)
def start(call: Call, session_id: str, text: str) -> wire.Started:
    """Have a task done beside the conversation; its result comes as background.complete."""
    session = call.session(session_id)
    if not text.strip():
        raise RpcError(NO_TASK, "What is to be done? The text is empty.")
    agent = agents.ensure_agent(call.hub, session_id, session)
    try:
        return {"task_id": agent.delegation.start([{"goal": text}])}
    except ToolError as error:
        raise RpcError(NOT_STARTED, str(error)) from error


def _tasks(call: Call, state: str | None = None) -> list[wire.TaskInfo]:
    """The background tasks of the live sessions."""
    return [
        _info(sid, delegation)
        for sid, session in call.live_sessions()
        for delegation in call.here(session).delegations(live.current_key(session), state)
    ]


def _info(sid: str, task: dict[str, Any]) -> wire.TaskInfo:
    return {
        "task_id": task["delegation_id"],
        "session_id": sid,
        "goals": task["goals"],
        "state": task["state"],
        "subagents": task["sessions"],
        "started_at": task["dispatched_at"],
        "ended_at": task["completed_at"],
    }


@method("agents.list", scope=READ, slow=True)
def list_agents(call: Call) -> wire.Agents:
    """The background processes and tasks of all live sessions."""
    return {
        "processes": [
            process_info(sid, process)
            for sid, session in call.live_sessions()
            for process in processes_of(session)
        ],
        "tasks": _tasks(call),
    }


@method("delegation.status", scope=READ, slow=True)
def status(call: Call) -> wire.DelegationStatus:
    """The background tasks that run, and how many may."""
    from agent.background import MOST_AT_ONCE

    return {
        "active": _tasks(call, "running"),
        "paused": False,
        "max_spawn_depth": 1,
        "max_concurrent_children": MOST_AT_ONCE,
    }


@method("subagent.interrupt", scope=TALK, slow=True)
def interrupt(call: Call, subagent_id: str) -> wire.SubagentStopped:
    """Stop a background task, by its id or its sub-agent's session; what it did is kept."""
    if not subagent_id.strip():
        raise RpcError(NO_SUBAGENT, "Which one? delegation.status lists them.")
    from agent import background

    for task in _tasks(call, "running"):
        if subagent_id == task["task_id"] or subagent_id in task["subagents"]:
            return {"found": background.stop(task["task_id"]), "subagent_id": subagent_id}
    return {"found": False, "subagent_id": subagent_id}
