"""A tool: a function with a name, a schema, and a word on what it does to the world."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Effect = Literal["none", "idempotent", "effectful"]
"""Whether running a tool twice, or not knowing if it ran, can do harm."""


@dataclass(slots=True)
class ToolContext:
    """What a running tool may know of its surroundings."""

    session_id: str
    call_id: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the user interrupts: a tool in a thread should stop soon after."""
    progress: Callable[[str], None] = lambda text: None
    """Report what is going on, for people to watch."""


class ToolError(Exception):
    """A failure the model should read: say what went wrong and what to try instead."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `run(context, **arguments)` returns text (or something JSON can hold)."""

    name: str
    description: str
    run: Callable[..., Any | Awaitable[Any]]
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments."""
    effect: Effect = "effectful"

    def schema(self) -> dict[str, Any]:
        """The tool as models are told of it."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }
