"""How a client reaches a session server: a child process of its own, or a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from .transport import MAX_LINE

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

STOP_SECONDS = 15.0
"""How long a child process has to end its sessions."""


class Wire(Protocol):
    """One connection. What is lost shows as the end of what is received, or as OSError."""

    async def send(self, text: str) -> None:
        """Send a frame."""
        ...

    async def receive(self) -> str | bytes | None:
        """The next frame; None at the end."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


class Dialer(Protocol):
    """Makes connections to one server, as often as needed."""

    async def dial(self) -> Wire:
        """A new connection; OSError if there is none to be had."""
        ...


class ChildProcess:
    """Starts a session server as a child process; every connection is a new one."""

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        """`environment` is added to this process's own."""
        self._command = list(command or (sys.executable, "-m", "tui_gateway.entry"))
        self._environment = {**os.environ, **(environment or {})}
        self._cwd = cwd

    async def dial(self) -> _Pipes:
        """A new process."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            cwd=self._cwd,
            limit=2 * MAX_LINE,
        )
        return _Pipes(process)


class _Pipes:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self._input, self._output = process.stdin, process.stdout

    async def send(self, text: str) -> None:
        self._input.write(text.encode() + b"\n")
        await self._input.drain()

    async def receive(self) -> bytes | None:
        return await self._output.readline() or None

    async def close(self) -> None:
        # The end of input is the server's sign to end its sessions.
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                while await self._output.read(65536):
                    pass  # nobody reads its last events, and a full pipe would hold it up
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


class WebSocket:
    """Connects to a session server that listens on this machine."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    async def dial(self) -> _Socket:
        """A new connection."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        try:
            connection = await connect(
                self._url,
                additional_headers={"Authorization": f"Bearer {self._token}"},
                max_size=2 * MAX_LINE,
                compression=None,
                proxy=None,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            reason = (error.response.body or b"").decode(errors="replace").strip()
            raise PermissionError(f"{self._url} refused with {status}: {reason}") from error
        except WebSocketException as error:
            raise ConnectionError(f"{self._url}: {error}") from error
        return _Socket(connection)


class _Socket:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, text: str) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(text)
        except ConnectionClosed as error:
            raise ConnectionError("the connection is closed") from error

    async def receive(self) -> str | bytes | None:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._connection.recv()
        except ConnectionClosed:
            return None

    async def close(self) -> None:
        # AttributeError: asyncio takes the loop from a transport that was reset.
        with contextlib.suppress(AttributeError):
            await self._connection.close()
