"""Hermes' tools for other programs: an MCP server over standard input and output.

Every call gets a context from the caller of `serve`, who decides by it what is allowed; a tool that
fails tells why, a call that the client cancels is interrupted. Standard output belongs to the
protocol: logging must go elsewhere.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..base import Tool, ToolContext, ToolError
from ..output import shortened
from ..own_folders import output_folder
from ..registry import Registry
from ..schema import fit

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

log = logging.getLogger(__name__)

Present = Callable[[Tool, ToolContext, Any], str]
"""Turns what a tool returned into the text that leaves Hermes."""


def as_text(tool: Tool, context: ToolContext, result: Any) -> str:
    """A result as text, shortened if it is long."""
    if not isinstance(result, str):
        result = json.dumps(result, ensure_ascii=False, default=str)
    if len(result) <= tool.max_output:
        return result
    return shortened(result, tool.max_output, output_folder(context), tool.name)


def serve(
    registry: Registry, context_factory: Callable[[], ToolContext], present: Present = as_text
) -> None:
    """Offer the tools until the client closes the connection; needs the package mcp."""
    asyncio.run(serve_stdio(registry, context_factory, present))


async def serve_stdio(
    registry: Registry, context_factory: Callable[[], ToolContext], present: Present = as_text
) -> None:
    """The same, for those who have an event loop."""
    from mcp.server.stdio import stdio_server

    server = make_server(registry, context_factory, present)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def make_server(
    registry: Registry, context_factory: Callable[[], ToolContext], present: Present = as_text
) -> Server[Any]:
    """A server of the SDK that offers the tools, for any transport."""
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolResult, ListToolsResult, TextContent
    from mcp_types import Tool as Offered

    offered = [
        Offered(name=tool.name, description=tool.description, input_schema=tool.parameters)
        for tool in registry
    ]

    async def list_tools(request: Any, parameters: Any) -> ListToolsResult:
        return ListToolsResult(tools=offered)

    async def call_tool(request: Any, parameters: Any) -> CallToolResult:
        failed = False
        try:
            text = await _call(parameters.name, parameters.arguments or {})
        except ToolError as error:
            text, failed = str(error), True
        except Exception as error:
            # Whatever a tool raises is the client's to read; the server goes on.
            log.exception("The tool %s failed", parameters.name)
            text, failed = f"{type(error).__name__}: {error}", True
        return CallToolResult(content=[TextContent(text=text)], is_error=failed)

    async def _call(name: str, arguments: dict[str, Any]) -> str:
        tool = registry.get(name)
        if tool is None:
            raise ToolError(registry.suggest(name))
        context = context_factory()
        fitted = fit(arguments, tool.parameters, name)
        try:
            return present(tool, context, await _run(tool, context, fitted))
        except asyncio.CancelledError:
            context.cancelled.set()
            raise

    return Server("hermes", on_list_tools=list_tools, on_call_tool=call_tool)


async def _run(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> Any:
    """Run a tool: a coroutine here, anything else in a daemon thread."""
    if inspect.iscoroutinefunction(tool.run):
        return await tool.run(context, **arguments)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    surroundings = contextvars.copy_context()

    def settle(result: Any, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        outcome: tuple[Any, Exception | None]
        try:
            outcome = (surroundings.run(tool.run, context, **arguments), None)
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits the result
            outcome = (None, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name=f"hermes-serve-{tool.name}", daemon=True).start()
    return await done
