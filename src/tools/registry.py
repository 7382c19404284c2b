"""The tools an agent has: looked up by name, shown to the model in a stable order."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable
from typing import Any

from .base import Tool

log = logging.getLogger(__name__)


class Registry:
    """A set of tools. The order in which they were added is the order the model sees."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool, *, override: bool = False) -> None:
        """Add a tool; a name can be taken only once, unless `override` says so."""
        if tool.name in self._tools and not override:
            raise ValueError(f"There is a tool {tool.name!r} already.")
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def __iter__(self) -> Any:
        return iter(self._tools.values())

    def schemas(self) -> list[dict[str, Any]]:
        """Every tool as models are told of it."""
        return [tool.schema() for tool in self._tools.values()]

    def usable(self, wanted: Callable[[Tool], bool] = lambda tool: True) -> Registry:
        """The tools that are wanted and can be used here; why others cannot is logged."""
        usable = Registry()
        for tool in self._tools.values():
            if not wanted(tool):
                continue
            reason = tool.check() if tool.check else None
            if reason:
                log.info("The tool %s is not available: %s", tool.name, reason)
            else:
                usable.add(tool)
        return usable

    def suggest(self, name: str) -> str:
        """A sentence for a model that asked for a tool that does not exist."""
        if not self._tools:
            return f"There is no tool {name!r}: no tools are available. Answer without one."
        near = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"There is no tool {name!r}.{hint} Available: {', '.join(self._tools)}."
