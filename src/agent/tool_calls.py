"""Running the tools a reply asks for.

Every call gets exactly one result, stored as soon as it is there. A call that cannot be run, or a
tool that fails, is reported to the model with what to try instead; it never breaks the turn. Calls
without effects run side by side; others run one after the other, in their order.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import json
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from hermes_base.redaction import redact, redact_value
from hermes_state import LeaseLostError, Started
from hermes_state.history import tool_result
from tools.base import Tool, ToolContext, ToolError
from tools.modes import check_mode
from tools.objects import are_shared
from tools.objects.in_texts import localize, may_name_objects, put_output
from tools.output import shortened
from tools.own_folders import OUTPUT_FOLDER, output_folder
from tools.permissions import check_permitted
from tools.registry import Registry
from tools.schema import fit

from . import hooks_tools
from .events import Event, ToolFinished, ToolProgressed, ToolStarted
from .journal import Journal
from .model import Message
from .threads import in_thread

log = logging.getLogger(__name__)

INTERRUPTED = (
    "[interrupted] The user stopped this tool while it was running. It may or may not have taken "
    "effect; check before running it again."
)
LONGEST_ERROR = 10_000
LONGEST_ON_LOOP = 50_000
"""Characters of a result that are searched for secrets without leaving the event loop."""
NOT_RUN = "[not run] The user stopped the turn before this tool was started."


class ResultLog:
    """Stores results as they come; results that come at the same moment share one write."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pending: dict[str, Message] = {}
        self._starts: list[Started] = []
        self._held: dict[str, Message] = {}
        self._stored: set[str] = set()
        self._next: asyncio.Task[None] | None = None
        """Will write what is pending."""
        self._writes: set[asyncio.Task[None]] = set()

    def hold(self, result: Message) -> None:
        """Keep a preliminary result, to be stored if the turn is stopped before the final one."""
        self._held[result["tool_call_id"]] = result

    async def store(self, result: Message, starts: Iterable[Started] = ()) -> None:
        """Store a result, and that the tools in `starts` run next; both are then on disk."""
        self._pending[result["tool_call_id"]] = result
        self._starts += starts
        if self._next is None:
            self._next = asyncio.create_task(self._write())
            self._writes.add(self._next)
            self._next.add_done_callback(self._writes.discard)
        await asyncio.shield(self._next)

    async def _write(self) -> None:
        pending, self._pending = self._pending, {}
        starts, self._starts = self._starts, []
        self._next = None  # results that come from now on go into the next write
        await self._journal.record(list(pending.values()), starts=starts)
        self._stored.update(pending)

    async def settle(self, calls: list[Message], content: Callable[[str], str]) -> None:
        """Store results for the rest of these calls; `content` where nothing is known."""
        await asyncio.gather(*self._writes)
        rest = [call for call in calls if call["id"] not in self._stored]
        await self._journal.record(
            [self._held.get(call["id"]) or tool_result(call, content(call["id"])) for call in rest]
        )


class ToolRunner:
    """Runs tool calls and stores their results."""

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
        results = ResultLog(self._journal)
        running: dict[str, ToolContext] = {}
        try:
            if self._at_once(calls):
                await side_by_side(self._run_one(call, results, running) for call in calls)
            else:
                for call, after in itertools.zip_longest(calls, calls[1:]):
                    await self._run_one(call, results, running, [after] if after else [])
        except asyncio.CancelledError:
            for context in running.values():
                context.cancelled.set()
            await results.settle(calls, lambda call: INTERRUPTED if call in running else NOT_RUN)
            raise

    def first(self, calls: list[dict[str, Any]]) -> list[Started]:
        """Those of a reply's calls that run as soon as it is stored."""
        return self._started(calls if self._at_once(calls) else calls[:1])

    def _at_once(self, calls: list[dict[str, Any]]) -> bool:
        return len(calls) > 1 and all(self._effect(call) == "none" for call in calls)

    def _started(self, calls: Iterable[dict[str, Any]]) -> list[Started]:
        return [Started(call["id"], call["function"]["name"], self._effect(call)) for call in calls]

    def _effect(self, call: dict[str, Any]) -> str:
        tool = self._registry.get(call["function"]["name"])
        return "none" if tool is None else tool.effect

    async def _run_one(
        self,
        call: dict[str, Any],
        results: ResultLog,
        running: dict[str, ToolContext],
        after: Iterable[dict[str, Any]] = (),
    ) -> None:
        call_id, name = call["id"], call["function"]["name"]
        started = time.perf_counter()
        loop = asyncio.get_running_loop()

        def progress(text: str) -> None:
            loop.call_soon_threadsafe(self._emit, ToolProgressed(call_id, redact(text)))

        context = self._new_context(call_id, progress)
        watch = hooks_tools.watch(context, name)
        failure: Exception | None = None
        try:
            tool, arguments = self._prepare(call)
            check_permitted(context, tool)
            if watch is not None:
                arguments = await watch.before(tool, arguments)
            running[call_id] = context
            self._emit(ToolStarted(call_id, name, redact_value(arguments)))
            await self._journal.require_turn()
            if watch is not None:
                text = as_text(await watch.run(tool, context, arguments, call_tool))
            else:
                text = as_text(await call_tool(tool, context, arguments))
        except ToolError as error:
            text, failure = f"Error: {error}", error
        except LeaseLostError:
            raise  # the turn was taken over; the other process records what became of the tool
        except Exception as error:
            # Whatever a tool raises is the model's to read; only cancellation ends the turn.
            log.exception("The tool %s failed", name)
            text, failure = f"Error: {type(error).__name__}: {error}", error
        text = await self._presentable(text, context, name)
        if watch is not None:
            results.hold(tool_result(call, text))
            changed = await watch.transformed(text, failure)
            text = await self._presentable(changed, context, name)
        running.pop(call_id, None)
        await results.store(tool_result(call, text), self._started(after))
        seconds = time.perf_counter() - started
        self._emit(ToolFinished(call_id, name, text, seconds, failure is not None))
        if watch is not None:
            await watch.after(text, failure)

    async def _presentable(self, text: str, context: ToolContext, name: str) -> str:
        """Without secrets and within the limit, with what it names in a file in the store too; a
        long text is worked on in a thread, because this event loop may serve other conversations.
        """
        is_shared = are_shared(context.db)
        if len(text) <= (LONGEST_ERROR if is_shared else LONGEST_ON_LOOP):
            text = self._within_limit(redact(text), context, name)
        else:
            text = await in_thread(lambda: self._within_limit(redact(text), context, name))
        if is_shared and OUTPUT_FOLDER in text:
            home, session_id = context.workspace.home, context.session_id
            return await in_thread(lambda: put_output(context.db, home, text, session_id))
        return text

    def _within_limit(self, text: str, context: ToolContext, name: str) -> str:
        tool = self._registry.get(name)
        limit = tool.max_output if tool else LONGEST_ERROR
        if len(text) <= limit:
            return text
        return shortened(text, limit, output_folder(context), name)

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
    check_permitted(context, tool)
    check_mode(context, tool)
    if are_shared(context.db) and may_name_objects(arguments):
        arguments = await in_thread(lambda: localize(context, arguments))
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


def as_text(result: Any) -> str:
    """A tool's result as the model reads it."""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(result)
