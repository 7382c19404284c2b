"""Connections to signal-cli's daemon: lines of JSON-RPC over a socket.

There are two. One asks, and gets its answers in any order. The other receives, and reads a line
only when the one before it is stored: what is not read waits in the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..last_look import LOST, is_lost

log = logging.getLogger(__name__)

TCP_PORT = 7583
LONGEST_LINE = 64 * 1024 * 1024
"""A line may hold a file."""
CONNECT_SECONDS = 10.0
REPLY_SECONDS = 60.0
QUIET_SECONDS = 60.0
"""After which the daemon is asked whether it is there."""
METHOD_NOT_FOUND = -32601


class SignalError(ConnectionError):
    """The daemon cannot be used; the message says what to change."""


class BrokenError(OSError):
    """The connection to the daemon broke; `unsure` says whether it may have got the request."""

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.unsure = unsure


class RpcError(Exception):
    """The daemon refuses a request."""

    def __init__(self, error: Any) -> None:
        given = error if isinstance(error, dict) else {}
        super().__init__(str(given.get("message") or "no reason"))
        self.code = given.get("code")
        data = given.get("data")
        response = data.get("response") if isinstance(data, dict) else None
        self.results = results_of(response)
        """What became of it for each recipient, if that is told."""


def results_of(answer: Any) -> list[Mapping[str, Any]]:
    """What became of a message for each of its recipients."""
    results = answer.get("results") if isinstance(answer, dict) else None
    return [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []


def own_socket() -> str:
    """Where signal-cli listens if it is told nothing."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return f"{folder}/signal-cli/socket"


def is_local(address: str) -> bool:
    """Whether the daemon is certainly on this machine."""
    host = _tcp(address)
    return host is None or host[0] in ("localhost", "127.0.0.1", "::1")


class Connection:
    """One socket, read line by line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ids = itertools.count(1)

    @classmethod
    async def open(cls, address: str) -> Connection:
        """Connect; raises SignalError, with what to do."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                place = _tcp(address)
                if place is None:
                    path = str(Path(address).expanduser())
                    streams = await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
                else:
                    streams = await asyncio.open_connection(*place, limit=LONGEST_LINE)
        except (OSError, TimeoutError) as error:
            option = "--socket" if _tcp(address) is None else "--tcp"
            raise SignalError(
                f"signal-cli's daemon cannot be reached at {address}"
                f" ({error or type(error).__name__}). Start it with: signal-cli -a ACCOUNT daemon"
                f" {option} {address} --receive-mode=manual"
            ) from error
        connected = streams[1].get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return cls(*streams)

    def write(self, method: str, params: Mapping[str, Any]) -> str:
        """Send a request; returns its id."""
        name = f"h{next(self._ids)}"
        request = {"jsonrpc": "2.0", "id": name, "method": method, "params": dict(params)}
        if self._writer.is_closing():
            raise BrokenError("signal-cli's daemon is not connected")
        self._writer.write(json.dumps(request).encode() + b"\n")
        return name

    async def drain(self) -> None:
        """Wait until the daemon takes what was sent."""
        await self._writer.drain()

    async def read(self) -> dict[str, Any]:
        """The next object that came; raises BrokenError at the end."""
        is_asked = False
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    line = await self._reader.readuntil(b"\n")
            except TimeoutError:
                if is_asked:
                    raise BrokenError("signal-cli's daemon has fallen silent") from None
                is_asked = True
                self.write("version", {})
                continue
            except asyncio.IncompleteReadError:
                raise BrokenError("signal-cli's daemon closed the connection") from None
            except asyncio.LimitOverrunError as error:
                raise BrokenError("signal-cli's daemon sent a line that is too long") from error
            is_asked = False
            try:
                given = json.loads(line)
            except (ValueError, RecursionError):
                log.warning("signal-cli's daemon sent a line that is no JSON")
                continue
            if isinstance(given, dict):
                return given

    async def close(self) -> None:
        """End the connection."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Caller:
    """Asks the daemon; answers may come in any order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._broken = ""
        self.reading = asyncio.ensure_future(self._read())

    async def call(
        self, method: str, params: Mapping[str, Any], seconds: float = REPLY_SECONDS
    ) -> Any:
        """What the daemon answers; raises RpcError, or BrokenError if it does not."""
        if self._broken:
            raise BrokenError(self._broken)
        if is_lost():
            raise BrokenError(LOST)
        name = self._connection.write(method, params)
        answer = self._waiting[name] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._connection.drain()
                return await answer
        except TimeoutError as error:
            raise BrokenError("signal-cli's daemon does not answer", unsure=True) from error
        except BrokenError:
            raise
        except OSError as error:
            raise BrokenError(f"the connection broke: {error}", unsure=True) from error
        finally:
            del self._waiting[name]

    async def close(self) -> None:
        """End the connection."""
        self.reading.cancel()
        await asyncio.gather(self.reading, return_exceptions=True)
        await self._connection.close()

    async def _read(self) -> None:
        try:
            while True:
                given = await self._connection.read()
                waiting = self._waiting.get(str(given.get("id")))
                if waiting is None or waiting.done():
                    continue  # a notification, which the other connection gets as well
                if given.get("error") is not None:
                    waiting.set_exception(RpcError(given["error"]))
                else:
                    waiting.set_result(given.get("result"))
        except OSError as error:
            self._broken = str(error)
            raise
        finally:
            self._broken = self._broken or "signal-cli's daemon is not connected"
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(BrokenError(self._broken, unsure=True))


def _tcp(address: str) -> tuple[str, int] | None:
    """Host and port; None for the path of a socket."""
    if "/" in address:
        return None
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        return host.strip("[]") or "localhost", int(port)
    return address or "localhost", TCP_PORT
