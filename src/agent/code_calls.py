"""Tool calls from inside `execute_code`: the same checks and limits as a call of the model.

They are part of the running `execute_code` call, so they have no messages of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tools.base import ToolContext, ToolError
from tools.registry import Registry
from tools.schema import fit

from .redact import redact
from .threads import run_to_end
from .tool_calls import as_text


class CodeCalls:
    """`call(name, arguments)` for programs; callable from any thread."""

    def __init__(
        self,
        registry: Registry,
        new_context: Callable[[str, Callable[[str], None]], ToolContext],
    ) -> None:
        self._registry = registry
        self._new_context = new_context

    def __call__(self, name: str, arguments: dict[str, Any]) -> str:
        """Run a tool and return its text; raises ToolError if it fails or may not run."""
        tool = self._registry.get(name)
        if tool is None:
            raise ToolError(self._registry.suggest(name))
        context = self._new_context(f"code_{name}", lambda text: None)
        fitting = fit(arguments, tool.parameters, name)
        if inspect.iscoroutinefunction(tool.run):
            result = run_to_end(tool.run(context, **fitting))
        else:
            result = tool.run(context, **fitting)
        return redact(as_text(result))
