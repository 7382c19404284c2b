"""The tools an agent has: found by name, told to the model in a stable order."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from .base import Tool


class Registry:
    """A set of tools. The order in which they were added is the order the model sees."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Add a tool; a name can be taken only once."""
        if tool.name in self._tools:
            raise ValueError(f"There is a tool {tool.name!r} already.")
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def schemas(self) -> list[dict[str, Any]]:
        """Every tool as models are told of it."""
        return [tool.schema() for tool in self._tools.values()]

    def suggest(self, name: str) -> str:
        """A sentence for a model that asked for a tool that does not exist."""
        if not self._tools:
            return f"There is no tool {name!r}: no tools are available. Answer without one."
        near = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"There is no tool {name!r}.{hint} Available: {', '.join(self._tools)}."
