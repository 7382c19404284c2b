"""Parts for the tests of what an agent learns beside its turns."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.auxiliary import Auxiliary
from agent.events import Event
from agent.learning.learner import LearningSettings
from agent.scripted import ScriptedModel, say
from agent.system_prompt import build_system_prompt
from hermes_state import SessionDB
from tools.base import Workspace
from tools.memory import memory, memory_path, read_entries
from tools.registry import Registry
from tools.skills import skill_manage, skill_view, skills_list

SECONDS = 60.0
"""A test that waits this long has failed."""


class Watched:
    """The events of an agent, and a way to wait for one of them from any thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def wait_for(self, kind: type, count: int = 1) -> Any:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.of(kind)) >= count, SECONDS), self.events
        return self.of(kind)[-1]


def kept(*memory_changes: dict[str, Any], skills: list[dict[str, Any]] | None = None) -> str:
    """A reviewer's reply."""
    return json.dumps({"memory": memory_changes, "skills": skills or []})


def add(content: str, target: str = "memory") -> dict[str, str]:
    return {"action": "add", "target": target, "content": content}


def side_model(*replies: Any) -> ScriptedModel:
    return ScriptedModel([say(one) if isinstance(one, str) else one for one in replies])


def until(reached: threading.Event) -> Callable[[], Awaitable[None]]:
    """A move of a scripted model: wait for what another thread sets."""

    async def wait() -> None:
        while not reached.is_set():
            await asyncio.sleep(0.005)

    return wait


def new_agent(
    home: Path,
    db: SessionDB | None,
    *,
    side: ScriptedModel | None = None,
    model: ScriptedModel | None = None,
    settings: LearningSettings | None = None,
    tools: Registry | None = None,
    **options: Any,
) -> AIAgent:
    """An agent that answers "ok" to everything, with memory, and side tasks on `side`."""
    if tools is None:
        tools = Registry([memory, skills_list, skill_view, skill_manage])
    return AIAgent(
        model or ScriptedModel(itertools.repeat(say("ok"))),
        db=db,
        tools=tools,
        workspace=Workspace(home, home),
        system_prompt=lambda spaces: build_system_prompt(home, None, "cli", "scripted"),
        auxiliary=None if side is None else Auxiliary(lambda: side),
        learning=settings or LearningSettings(titles=False, review_every=2),
        **options,
    )


def remembered(home: Path, target: str = "memory") -> list[str]:
    return read_entries(memory_path(home, target))


def settled(agent: AIAgent, *names: str) -> None:
    """Wait until the agent's side work has ended."""
    for name in names or ("title", "review"):
        assert agent.learner._background.wait(name, SECONDS), f"{name} still runs"
