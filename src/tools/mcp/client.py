"""MCP servers of others as tools of ours.

    mcp_servers:
      files: {command: npx, args: ["-y", "some-server"], env: {KEY: "${MY_KEY}"}, timeout: 60}
      notes: {url: "https://notes.example/mcp", headers: {Authorization: "Bearer ${NOTES_TOKEN}"}}

What `${NAME}` stands for is filled in where the configuration is read, with `.env`.
Each server has a thread with an event loop, in which a supervisor connects, notices when the server
is gone, and starts it again: a few retries, with growing pauses. A call waits for its answer, for
the user's interrupt or for its time limit, whichever comes first; what the server does in the
meantime is its own affair.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import importlib.util
import json
import logging
import threading
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_base.version import __version__

from ..base import Tool, ToolContext, ToolError
from ..extras import install_hint
from ..screening import marked
from ..wall.programs import ProgramWall
from .shapes import description, parameters, result_text, tool_name
from .stdio import StdioServer

log = logging.getLogger(__name__)

CONNECT_SECONDS = 30.0
CALL_SECONDS = 60.0
MAX_TOOLS = 128
PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0)
"""Seconds before each retry; no further retries until the server has run for a while."""
_GOOD_SECONDS = 120.0
_TICK = 0.05


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One entry of `mcp_servers`."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = CALL_SECONDS
    wall: ProgramWall = field(default_factory=ProgramWall)

    @classmethod
    def read(cls, name: str, entry: Any) -> ServerConfig:
        """From the settings; ValueError says what is wrong."""
        if not isinstance(entry, Mapping):
            raise ValueError("it must have a command or a url")
        command, url = str(entry.get("command") or ""), str(entry.get("url") or "")
        if bool(command) == bool(url):
            raise ValueError("it must have either a command or a url")
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("its url must begin with http:// or https://")
        args = entry.get("args") or ()
        if isinstance(args, str) or not isinstance(args, list | tuple):
            raise ValueError("its args must be a list")
        return cls(
            name,
            command,
            tuple(str(argument) for argument in args),
            _texts(entry.get("env")),
            url,
            _texts(entry.get("headers")),
            float(entry.get("timeout") or CALL_SECONDS),
            _wall(entry),
        )


def _wall(entry: Mapping[str, Any]) -> ProgramWall:
    roots, network = entry.get("roots") or (), str(entry.get("network", "on"))
    if isinstance(roots, str) or not isinstance(roots, list | tuple):
        raise ValueError("its roots must be a list of folders")
    sandbox = str(entry.get("sandbox") or "auto")
    if sandbox not in ("auto", "required", "off"):
        raise ValueError("its sandbox must be auto, required or off")
    # YAML reads a bare on or off as true or false.
    is_open = network.lower() not in ("off", "false")
    return ProgramWall(tuple(str(root) for root in roots), is_open, sandbox)


def _texts(entry: Any) -> dict[str, str]:
    mapping = entry if isinstance(entry, Mapping) else {}
    return {str(key): str(value) for key, value in mapping.items()}


class McpServer:
    """A supervised connection to one server."""

    def __init__(self, config: ServerConfig, home: Path | None = None) -> None:
        self.config = config
        self.listed: list[Any] = []
        """The tools of the first successful connection: they stay the same from then on."""
        self.problem = ""
        """Why it cannot be used at the moment."""
        self._home = home
        self._loop = asyncio.new_event_loop()
        self._client: Any = None
        self._changed = threading.Condition()
        self._given_up = False
        self._closing = asyncio.Event()
        self._lost = asyncio.Event()
        name = f"hermes-mcp-{config.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until it is connected; False if that fails or takes longer."""
        with self._changed:
            self._changed.wait_for(lambda: self._client is not None or self.problem, seconds)
            return self._client is not None

    def call(self, context: ToolContext, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool of the server; ToolError for any failure."""
        name, deadline = self.config.name, time.monotonic() + self.config.timeout
        while self._client is None:
            if self._given_up or time.monotonic() > deadline:
                raise ToolError(f"The MCP server {name!r} is not available: {self.problem}.")
            self._check_interrupt(context)
            time.sleep(_TICK)
        future = asyncio.run_coroutine_threadsafe(self._call(tool, arguments), self._loop)
        try:
            while not future.done():
                self._check_interrupt(context)
                if time.monotonic() > deadline:
                    raise ToolError(
                        f"{tool} of the MCP server {name!r} did not answer within "
                        f"{self.config.timeout:g} seconds. It may or may not have taken effect."
                    )
                concurrent.futures.wait([future], _TICK)
            result = future.result()
        except concurrent.futures.CancelledError:
            raise ToolError(f"The MCP server {name!r} was stopped during the call.") from None
        finally:
            future.cancel()
        text = marked(result_text(result.content, result.structured_content))
        if result.is_error:
            raise ToolError(text or f"{tool} failed without saying why.")
        return text or "[no output]"

    def close(self) -> None:
        """End the connection and the server."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(10)

    @staticmethod
    def _check_interrupt(context: ToolContext) -> None:
        if context.cancelled.is_set():
            raise ToolError("The call was interrupted; it may or may not have taken effect.")

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        client = self._client
        try:
            if client is None:
                raise ConnectionError("it has just ended")
            return await client.call_tool(tool, arguments)
        except Exception as error:
            # Whatever the SDK raises about a server that misbehaves is the model's to read.
            if self.config.url or self._client is not client:
                self._lost.set()
            why = self.problem if self._client is not client else ""
            raise ToolError(
                f"{tool} of the MCP server {self.config.name!r} failed: {_said(error)}"
                + (f" The server is being restarted: {why}." if why else "")
            ) from error

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._supervise())
            self._loop.run_until_complete(_all_done())
            with suppress(RuntimeError):  # the program is ending, and starts no threads any more
                self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._set(None, self.problem, given_up=True)
            self._loop.close()

    async def _supervise(self) -> None:
        starts = 0
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                await self._until_closed(asyncio.create_task(self._connected()))
            except Exception as error:  # noqa: BLE001 - servers fail in any way; it goes on
                self._set(None, _said(error))
                log.warning("The MCP server %s failed: %s", self.config.name, self.problem)
            starts = 0 if time.monotonic() - began > _GOOD_SECONDS else starts + 1
            if starts > len(PAUSES):
                log.error("The MCP server %s is given up: %s", self.config.name, self.problem)
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), PAUSES[max(0, starts - 1)])
        self._set(None, "it was stopped")

    async def _until_closed(self, connection: asyncio.Task[None]) -> None:
        """Wait for the end of a connection; when we are closing, help it to end."""
        closing = asyncio.ensure_future(self._closing.wait())
        await asyncio.wait([connection, closing], return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        if not connection.done():
            # One that is established says goodbye by itself.
            await asyncio.wait([connection], timeout=5 if self._client is not None else 0)
            connection.cancel()
            await asyncio.wait([connection])
        if not connection.cancelled():
            connection.result()

    async def _connected(self) -> None:
        """One connection, from its beginning to its end."""
        from mcp import Client
        from mcp.types import Implementation

        config, child = self.config, None
        self._lost.clear()
        try:
            async with AsyncExitStack() as stack:
                if config.command:
                    child = StdioServer(
                        config.command, config.args, config.env, self._home, config.wall
                    )
                    transport: Any = child.streams()
                else:
                    transport = await self._http(stack)
                async with asyncio.timeout(CONNECT_SECONDS):
                    ours = Implementation(name="hermes", version=__version__)
                    client = await stack.enter_async_context(Client(transport, client_info=ours))
                    # Its pattern may take for ever to match, and nothing could interrupt that.
                    client.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
                    listed = await _all_tools(client)
                self.listed = self.listed or listed
                self._set(client, "")
                ends = [self._closing, self._lost, *([child.ended] if child else [])]
                await _first_of(ends)
                self._set(None, child.why() if child and child.ended.is_set() else "it was lost")
        except TimeoutError:
            raise ConnectionError(
                f"it did not connect within {CONNECT_SECONDS:g} seconds"
            ) from None
        except FileNotFoundError:
            raise ConnectionError(f"there is no command {config.command!r}") from None
        except Exception:
            # Whatever the transport made of it, a program that has ended is the reason to tell.
            if child is not None and child.ended.is_set():
                raise ConnectionError(child.why()) from None
            raise

    async def _http(self, stack: AsyncExitStack) -> Any:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        timeout = httpx2.Timeout(30.0, read=max(30.0, self.config.timeout))
        client = httpx2.AsyncClient(headers=dict(self.config.headers), timeout=timeout)
        await stack.enter_async_context(client)
        return streamable_http_client(self.config.url, http_client=client)

    def _set(self, client: Any, problem: str, *, given_up: bool = False) -> None:
        with self._changed:
            self._client, self.problem = client, problem
            self._given_up = given_up
            self._changed.notify_all()


async def _unchecked(name: str, result: Any) -> None:
    """Take a result as it is, without checking it against a schema of the server's making."""


async def _all_done() -> None:
    """Wait for what is still being tidied up, within reason."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=5)


async def _first_of(events: list[asyncio.Event]) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def _all_tools(client: Any) -> list[Any]:
    tools: list[Any] = []
    cursor = None
    for _ in range(20):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) >= MAX_TOOLS:
            break
    return tools[:MAX_TOOLS]


def _said(error: BaseException) -> str:
    """An error in one line; of a group, the first one in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(getattr(error, "message", "") or error).split())[:500]
    return text or type(error).__name__


_servers: dict[str, McpServer] = {}
_servers_lock = threading.Lock()


def load_mcp_tools(
    settings: Mapping[str, Any], home: Path | None = None, seconds: float = CONNECT_SECONDS
) -> list[Tool]:
    """The tools of the servers under `mcp_servers`; those that do not answer in time have none.

    The servers are started together, and shared by everybody in this process. With a Hermes `home`,
    what they leave behind when Hermes is killed is ended at its next start.
    """
    wanted = settings.get("mcp_servers")
    if not isinstance(wanted, Mapping) or not wanted:
        return []
    if importlib.util.find_spec("mcp") is None:
        log.warning(
            "MCP servers are configured, but the package mcp is not there. Run: %s",
            install_hint("mcp"),
        )
        return []
    servers = [server for name in wanted if (server := _server(str(name), wanted[name], home))]
    deadline = time.monotonic() + seconds
    tools: list[Tool] = []
    taken: set[str] = set()
    for server in servers:
        if not server.wait(max(0.0, deadline - time.monotonic())) and not server.listed:
            log.warning(
                "The MCP server %s is not available: %s",
                server.config.name,
                server.problem or "it does not answer",
            )
        for listed in server.listed:
            tool = _tool(server, listed, taken)
            if tool.name not in taken:
                taken.add(tool.name)
                tools.append(tool)
    return tools


def close_mcp() -> None:
    """End all servers; the next `load_mcp_tools` starts them anew."""
    with _servers_lock:
        servers = list(_servers.values())
        _servers.clear()
    threads = [threading.Thread(target=server.close, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)


def _server(name: str, entry: Any, home: Path | None) -> McpServer | None:
    try:
        config = ServerConfig.read(name, entry)
    except (ValueError, TypeError) as error:
        log.warning("The MCP server %s is not usable: %s", name, error)
        return None
    with _servers_lock:
        server = _servers.get(name)
        if server is not None and server.config != config:
            server.close()
            server = None
        if server is None:
            if not _servers:
                atexit.unregister(close_mcp)
                atexit.register(close_mcp)
            server = _servers[name] = McpServer(config, home)
        return server


def _tool(server: McpServer, listed: Any, taken: set[str]) -> Tool:
    def run(context: ToolContext, **arguments: Any) -> str:
        try:
            json.dumps(arguments)
        except (TypeError, ValueError) as error:
            raise ToolError(f"The arguments cannot be sent: {error}.") from None
        return server.call(context, listed.name, arguments)

    name = server.config.name
    return Tool(
        name=tool_name(name, listed.name, taken),
        description=description(listed.description, name),
        run=run,
        parameters=parameters(listed.input_schema),
        effect="effectful",  # what a server says about this is only a claim
        toolset=f"mcp-{name}",
    )
