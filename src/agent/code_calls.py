"""Tool calls from inside `execute_code`: the same checks and limits as a call of the model.

They are part of the running `execute_code` call, so they have no messages of their own.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from hermes_base.redaction import redact
from tools.base import Tool, ToolContext, ToolError
from tools.modes import check_mode
from tools.objects.in_texts import localize
from tools.permissions import check_permitted
from tools.registry import Registry
from tools.schema import fit

from . import hooks_tools
from .threads import run_to_end
from .tool_calls import as_text, call_tool

log = logging.getLogger(__name__)


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
        check_permitted(context, tool)
        check_mode(context, tool)
        fitting = fit(arguments, tool.parameters, name)
        watch = hooks_tools.watch(context, name)
        if watch is not None:
            return run_to_end(_watched(watch, tool, context, fitting))
        fitting = localize(context, fitting)
        if inspect.iscoroutinefunction(tool.run):
            result = run_to_end(tool.run(context, **fitting))
        else:
            result = tool.run(context, **fitting)
        return redact(as_text(result))

    def answer(self, name: str, arguments: dict[str, Any]) -> str:
        """The same, with errors returned as text for the caller to read."""
        try:
            return self(name, arguments)
        except ToolError as error:
            return f"Error: {error}"
        except Exception as error:
            # As for a call of the model.
            log.exception("The tool %s failed for a plugin", name)
            return f"Error: {type(error).__name__}: {error}"


async def _watched(
    watch: hooks_tools.ToolWatch, tool: Tool, context: ToolContext, arguments: dict[str, Any]
) -> str:
    """The call with plugins around it, as for a call of the model."""
    failure: Exception | None = None
    try:
        arguments = await watch.before(tool, arguments)
        text = redact(as_text(await watch.run(tool, context, arguments, call_tool)))
    except Exception as error:
        failure, text = error, redact(f"Error: {error}")
        raise
    else:
        text = redact(await watch.transformed(text, None))
        return text
    finally:
        await watch.after(text, failure)
