"""Running the tools a reply asks for.

Every call gets exactly one result, stored as soon as it is there. A call that cannot be run, or a
tool that fails, is told to the model with what to try instead; it never breaks the turn. Calls
without effects run side by side; others run one after the other, in their order.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from hermes_state.history import tool_result
from tools.base import Tool, ToolContext, ToolError
from tools.output import shortened
from tools.registry import Registry
from tools.schema import fit

from .events import Event, ToolFinished, ToolProgressed, ToolStarted
from .journal import Journal
from .redact import redact
from .threads import in_thread

log = logging.getLogger(__name__)

INTERRUPTED = (
    "[interrupted] The user stopped this tool while it was running. It may or may not have taken "
    "effect; check before running it again."
)
NOT_RUN = "[not run] The user stopped the turn before this tool was started."


class ToolRunner:
    """Runs tool calls and writes their results down."""

    def __init__(
        self,
        registry: Registry,
        journal: Journal,
        emit: Callable[[Event], None],
        new_context: Callable[[str, Callable[[str], None]], ToolContext],
    ) -> None:
        self._registry = registry
        self._journal = journal
        self._emit = emit
        self._new_context = new_context

    async def run(self, calls: list[dict[str, Any]]) -> None:
        """Run the calls of one reply; when this returns or is cancelled, each has its result."""
        waiting = {call["id"]: call for call in calls}
        running: dict[str, ToolContext] = {}
        try:
            if len(calls) > 1 and all(self._effect(call) == "none" for call in calls):
                await side_by_side(self._run_one(call, waiting, running) for call in calls)
            else:
                for call in calls:
                    await self._run_one(call, waiting, running)
        except asyncio.CancelledError:
            for context in running.values():
                context.cancelled.set()
            self._journal.record(
                [
                    tool_result(call, INTERRUPTED if call_id in running else NOT_RUN)
                    for call_id, call in waiting.items()
                ]
            )
            raise

    def _effect(self, call: dict[str, Any]) -> str:
        tool = self._registry.get(call["function"]["name"])
        return "none" if tool is None else tool.effect

    async def _run_one(
        self,
        call: dict[str, Any],
        waiting: dict[str, dict[str, Any]],
        running: dict[str, ToolContext],
    ) -> None:
        call_id, name = call["id"], call["function"]["name"]
        started = time.perf_counter()
        loop = asyncio.get_running_loop()

        def progress(text: str) -> None:
            loop.call_soon_threadsafe(self._emit, ToolProgressed(call_id, text))

        context = self._new_context(call_id, progress)
        try:
            tool, arguments = self._prepare(call)
            running[call_id] = context
            self._emit(ToolStarted(call_id, name, arguments))
            text = redact(as_text(await call_tool(tool, context, arguments)))
            text, is_error = within_limit(text, tool, context), False
        except ToolError as error:
            text, is_error = f"Error: {error}", True
        except Exception as error:
            # Whatever a tool raises is the model's to read; only cancellation ends the turn.
            log.exception("The tool %s failed", name)
            text, is_error = f"Error: {type(error).__name__}: {error}", True
        result = tool_result(call, text)
        self._journal.record([result])
        del waiting[call_id]
        running.pop(call_id, None)
        seconds = time.perf_counter() - started
        self._emit(ToolFinished(call_id, name, text, seconds, is_error))

    def _prepare(self, call: dict[str, Any]) -> tuple[Tool, dict[str, Any]]:
        name, raw = call["function"]["name"], call["function"]["arguments"]
        tool = self._registry.get(name)
        if tool is None:
            raise ToolError(self._registry.suggest(name))
        try:
            arguments = json.loads(raw or "{}")
        except ValueError as error:
            raise ToolError(
                f"The arguments of {name} are not valid JSON ({error}). Send the call again."
            ) from error
        if not isinstance(arguments, dict):
            raise ToolError(f"The arguments of {name} must be a JSON object. Send the call again.")
        return tool, fit(arguments, tool.parameters, name)


async def call_tool(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> Any:
    """Run a tool: a coroutine here, anything else in a thread that knows the session."""
    if inspect.iscoroutinefunction(tool.run):
        return await tool.run(context, **arguments)
    run = contextvars.copy_context().run
    return await in_thread(lambda: run(tool.run, context, **arguments))


async def side_by_side(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines at once; the first failure, or a cancellation, stops them all."""
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


def within_limit(text: str, tool: Tool, context: ToolContext) -> str:
    """A result that the model can take at once, with a handle to the rest."""
    if len(text) <= tool.max_output:
        return text
    return shortened(text, tool.max_output, context.workspace.home / "tool-output", tool.name)


def as_text(result: Any) -> str:
    """A tool's result as the model reads it."""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(result)
