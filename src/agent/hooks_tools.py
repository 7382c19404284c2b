"""Tool calls with plugins' hooks, which may block, change or wrap them, or require approval.

`watch` gives None while no plugin hooks into tools, so that an ordinary call costs a few dict
lookups.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any

from hermes_base import plugins
from hermes_base.redaction import redact
from tools.approval import check_action
from tools.base import Tool, ToolContext, ToolError
from tools.schema import fit

from .hooks import fire
from .threads import CallsFromThread, in_thread

log = logging.getLogger(__name__)

_HOOKS = ("pre_tool_call", "post_tool_call", "transform_tool_result", "pre_verify")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\+\+\+ (?:b/)?(\S+)", re.M)

Run = Callable[[Tool, ToolContext, dict[str, Any]], Coroutine[Any, Any, Any]]


class ToolBlocked(ToolError):
    """A plugin, or the person it had asked, does not want the call."""


def watch(context: ToolContext, name: str) -> ToolWatch | None:
    """The hooks around a call; None if no plugin hooks into tools."""
    if any(map(plugins.has_hook, _HOOKS)):
        return ToolWatch(context, name)
    if any(map(plugins.has_middleware, ("tool_request", "tool_execution"))):
        return ToolWatch(context, name)
    return None


class ToolWatch:
    """One tool call, as plugins see it."""

    def __init__(self, context: ToolContext, name: str) -> None:
        self._context = context
        self._facts: dict[str, Any] = {
            "tool_name": name,
            "args": {},
            "task_id": context.session_id,
            "session_id": context.session_id,
            "tool_call_id": context.call_id,
            "turn_id": context.turn.id,
            "api_request_id": context.turn.request_id,
        }
        self._trace: list[Any] = []
        self._began = time.perf_counter()

    async def before(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments to call with; ToolBlocked if the call is not wanted."""
        self._facts["args"] = arguments
        if plugins.has_middleware("tool_request"):
            arguments = self._facts["args"] = await self._changed(tool, arguments)
        if plugins.has_hook("pre_tool_call"):
            answers = await fire("pre_tool_call", **self._facts, middleware_trace=self._trace)
            for answer in answers:
                if isinstance(answer, dict) and answer.get("action") in ("block", "approve"):
                    await self._obey(answer)
                    break
        return arguments

    async def run(
        self, tool: Tool, context: ToolContext, arguments: dict[str, Any], call: Run
    ) -> Any:
        """Call the tool, through the middleware that wraps it."""
        if not plugins.has_middleware("tool_execution"):
            return await call(tool, context, arguments)
        below = CallsFromThread()

        def next_call(payload: dict[str, Any]) -> Any:
            fitting = (
                arguments if payload == arguments else fit(payload, tool.parameters, tool.name)
            )
            return below.call(lambda: call(tool, context, fitting))

        run, execute = contextvars.copy_context().run, plugins.get_middleware().execute
        facts = {name: value for name, value in self._facts.items() if name != "args"}
        try:
            return await in_thread(
                lambda: run(execute, "tool_execution", "args", arguments, facts, next_call)
            )
        finally:
            await below.end()

    async def transformed(self, text: str, failure: BaseException | None) -> str:
        """The result as plugins want the model to read it."""
        self._note_changed_files(failure)
        if not plugins.has_hook("transform_tool_result"):
            return text
        answers = await fire("transform_tool_result", **self._outcome(text, failure))
        return next((answer for answer in answers if isinstance(answer, str)), text)

    async def after(self, text: str, failure: BaseException | None) -> None:
        """Report that the call is over and its result stored."""
        if plugins.has_hook("post_tool_call"):
            outcome = self._outcome(text, failure)
            await fire("post_tool_call", **outcome, middleware_trace=self._trace)

    def _outcome(self, text: str, failure: BaseException | None) -> dict[str, Any]:
        blocked = isinstance(failure, ToolBlocked)
        return {
            **self._facts,
            "result": text,
            "duration_ms": int((time.perf_counter() - self._began) * 1000),
            "status": "blocked" if blocked else "error" if failure else "ok",
            "error_type": type(failure).__name__ if failure else None,
            "error_message": redact(str(failure)) if failure else None,
        }

    async def _changed(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        run, change = contextvars.copy_context().run, plugins.get_middleware().change
        facts = {name: value for name, value in self._facts.items() if name != "args"}
        wanted, trace = await in_thread(
            lambda: run(change, "tool_request", "args", arguments, facts)
        )
        if not trace:
            return arguments
        try:
            fitting = fit(wanted, tool.parameters, tool.name)
        except ToolError as error:
            log.warning("A plugin changed the arguments of %s to nonsense: %s", tool.name, error)
            return arguments
        self._trace = trace
        return fitting

    async def _obey(self, answer: dict[str, Any]) -> None:
        message = answer.get("message")
        said = message if isinstance(message, str) and message.strip() else ""
        if answer["action"] == "block":
            raise ToolBlocked(f"Blocked: {said or 'a plugin does not allow this.'}")
        name, args = self._facts["tool_name"], self._facts["args"]
        key = answer.get("rule_key")
        rule = f"plugin:{key if isinstance(key, str) and key else name}"
        why = said or f"a plugin wants {name} to be approved"
        subject = redact(f"{name} {json.dumps(args, ensure_ascii=False, default=str)}")[:1000]
        run = contextvars.copy_context().run
        try:
            await in_thread(lambda: run(check_action, self._context, rule, why, subject))
        except asyncio.CancelledError:
            self._context.cancelled.set()  # the turn was stopped: no answer is wanted
            raise
        except ToolError as error:
            raise ToolBlocked(str(error)) from error

    def _note_changed_files(self, failure: BaseException | None) -> None:
        if failure is not None or self._facts["tool_name"] not in ("write_file", "patch"):
            return
        args = self._facts["args"]
        paths = {str(args["path"])} if args.get("path") else set()
        for match in _PATCHED.finditer(str(args.get("patch") or "")):
            paths.add((match[1] or match[2]).strip())
        with self._context.workspace.lock:
            self._context.turn.changed_paths.update(paths)
