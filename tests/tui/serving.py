"""A real session server process, a client of it, and a look into its store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from scripted_provider import ScriptedProvider

from hermes_state import SessionDB
from tests import forked
from tui_gateway.client import ChildProcess, Client, Event, WebSocket
from tui_gateway.client_wires import _Pipes

SECONDS = 60.0
"""After so long something has gone wrong for good."""


def configure(home: Path, provider: ScriptedProvider, **sections: Any) -> Path:
    """A Hermes home whose model is the scripted provider."""
    home.mkdir(parents=True, exist_ok=True)
    model = {"default": "scripted", "provider": "custom", "base_url": provider.url, "api_key": "k"}
    config = {
        "model": {**model, "context_length": 128_000},
        "auxiliary": {"title_generation": {"enabled": False}},
        "memory": {"enabled": False},
        "approvals": {"mode": "off"},
        **sections,
    }
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    return home


class Child(ChildProcess):
    """Starts servers in a home, and knows the one that runs.

    They are forked from a process that has the program loaded, unless the start matters.
    """

    def __init__(self, home: Path, *, start_anew: bool = False, **environment: str) -> None:
        super().__init__(environment={"HERMES_HOME": str(home), **environment}, cwd=home)
        self._start_anew = start_anew
        self.starts = 0

    async def dial(self) -> Any:
        """A new server."""
        if self._start_anew:
            pipes = await super().dial()
        else:
            pipes = _Pipes(
                await forked.start(
                    "tui_gateway.entry", environ=self._environment, cwd=self._cwd or "."
                )
            )
        self.process: asyncio.subprocess.Process = pipes.process
        self.starts += 1
        return pipes

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


@contextlib.asynccontextmanager
async def stdio_client(home: Path, *, reconnect: bool = False) -> AsyncIterator[Client]:
    """A client with a server of its own."""
    async with Client(Child(home), reconnect=reconnect) as client:
        yield client


class WsServer:
    """A server that listens for WebSockets."""

    process: asyncio.subprocess.Process
    url: str
    token_file: Path

    def client(self, *, reconnect: bool = True) -> Client:
        """A client that is not connected yet."""
        return Client(WebSocket(self.url, self.token), reconnect=reconnect)

    @property
    def token(self) -> str:
        """What a client needs to be let in."""
        return self.token_file.read_text()


@contextlib.asynccontextmanager
async def ws_server(
    home: Path, port: int = 0, descriptors: int | None = None, **environment: str
) -> AsyncIterator[WsServer]:
    """A listening server, that may have so many descriptors open; it is ended with SIGTERM."""
    import os

    program = ("tui_gateway.entry", "--ws", str(port))
    environ = {**os.environ, "HERMES_HOME": str(home), **environment}
    errors = asyncio.subprocess.PIPE
    if descriptors:
        limited = ("sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh")
        process = await asyncio.create_subprocess_exec(
            *limited, sys.executable, "-m", *program, stderr=errors, env=environ, cwd=home
        )
    else:
        process = await forked.start(*program, environ=environ, cwd=home, stderr=errors)
    assert process.stderr is not None
    server = WsServer()
    server.process = process
    try:
        async with asyncio.timeout(SECONDS):
            said = (await process.stderr.readline()).decode()
        found = re.fullmatch(r"Listening on (\S+); the token is in (.+)\n", said)
        assert found is not None, said
        server.url, server.token_file = found[1], Path(found[2])
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(SECONDS):
            await process.stderr.read()
            await process.wait()


async def turn_ends(client: Client, session_id: str | None = None) -> Event:
    """Wait for the end of a turn."""
    async with asyncio.timeout(SECONDS):
        return await client.wait_for("message.complete", session_id)


async def event(client: Client, kind: str, session_id: str | None = None) -> Event:
    """Wait for an event."""
    async with asyncio.timeout(SECONDS):
        return await client.wait_for(kind, session_id)


@contextlib.contextmanager
def store(home: Path) -> Any:
    """The store of a home."""
    with SessionDB(home / "state.db") as db:
        yield db


def said_by_user(db: SessionDB, session_id: str) -> list[str]:
    """The names of the scripts, or the texts, that users sent."""
    names = []
    for message in db.get_messages(session_id):
        if message["role"] == "user":
            with contextlib.suppress(ValueError):
                message["content"] = json.loads(message["content"])["name"]
            names.append(message["content"])
    return names


def require_valid(messages: list[dict[str, Any]]) -> None:
    """Every tool call has exactly one result, right behind it, and roles alternate."""
    open_calls: list[str] = []
    last = None
    for message in messages:
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] in open_calls, message
            open_calls.remove(message["tool_call_id"])
        else:
            assert not open_calls, f"no result for {open_calls}"
            assert role != last, f"two messages of {role} in a row"
        last = role
        open_calls += [one["id"] for one in message.get("tool_calls") or ()]
    assert not open_calls, f"no result for {open_calls}"


class Cuttable(WebSocket):
    """A connection that a test can cut, and keep from being made again."""

    def __init__(self, server: WsServer) -> None:
        super().__init__(server.url, server.token)
        self.may_connect = asyncio.Event()
        self.may_connect.set()

    async def dial(self) -> Any:
        """A new connection, once that is allowed."""
        await self.may_connect.wait()
        socket = await super().dial()
        self._connection = socket._connection
        return socket

    def cut(self) -> None:
        """Lose the connection without a word."""
        self._connection.transport.abort()
