"""The only way from inside a wall to the network: a proxy in the agent's process.

It speaks HTTP (CONNECT, and plain requests) and SOCKS5 on one port, which exists in the network
inside only. Each connection is decided by the name that the program asked for; the name is resolved
out here, once, and an address that is not public is refused as the web tools refuse it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..base import ToolError
from ..web.address import AllowedPrivate, checked_addresses, system_resolver

log = logging.getLogger(__name__)

HEAD_LIMIT = 65_536
"""Bytes of a request before its body."""
_HEAD_SECONDS = 30
_CONNECT_SECONDS = 30
_CHUNK = 65_536
_MOST_CONNECTIONS = 256
_CLOSE_SECONDS = 5
HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})|[0-9A-Fa-f:.]{2,45}")
"""Names and addresses, and nothing that would look like something else in a question."""
_HOP_HEADERS = (b"proxy-connection:", b"connection:", b"keep-alive:", b"proxy-authorization:")
_SOCKS_REFUSED, _SOCKS_UNREACHABLE, _SOCKS_UNKNOWN = 2, 4, 7

Decide = Callable[[str, int], None]
"""Returns if a host may be connected to, ToolError with the reason if not; may take its time."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a program asked for."""

    host: str
    port: int
    head: bytes = b""
    """What is to be sent on first, for a plain request."""


class Proxy:
    """Serves one wall; `close` ends every connection."""

    def __init__(
        self,
        listener: socket.socket,
        decide: Decide,
        allowed: AllowedPrivate,
        is_allowed: Callable[[str], bool] = lambda host: False,
    ) -> None:
        """`is_allowed` knows at once which hosts need no decision."""
        self._decide = decide
        self._is_allowed = is_allowed
        # Its own, for its own questions: those of one conversation hold up no other.
        self._threads = ThreadPoolExecutor(1, "hermes-proxy-asks")
        self._allowed = allowed
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = _loop()
        listener.setblocking(False)
        self._listener = listener
        self._serving: asyncio.Task[None] | None = None
        self._submit(self._serve())

    def close(self) -> None:
        """Stop listening, and end what is open.

        The loop lets go of the listener before anybody closes it: its number may be another
        conversation's connection right afterwards.
        """
        with contextlib.suppress(RuntimeError, TimeoutError):  # the loop's process is ending
            self._submit(self._end()).result(_CLOSE_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _end(self) -> None:
        tasks = [*self._tasks, *filter(None, [self._serving])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    def _submit(self, work: Coroutine[Any, Any, None]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _serve(self) -> None:
        self._serving = asyncio.current_task()
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError as error:
                if self._listener.fileno() < 0:
                    return
                # Too many open files, for example: others may go away.
                log.warning("The proxy could not take a connection: %s", error)
                await asyncio.sleep(0.1)
                continue
            if len(self._tasks) >= _MOST_CONNECTIONS:
                connection.close()
                continue
            task = self._loop.create_task(self._handle(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=HEAD_LIMIT)
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                first = await reader.readexactly(1)
                wanted = await (_socks(reader, writer) if first == b"\5" else _http(first, reader))
            await self._answer(wanted, first == b"\5", reader, writer)
        except (
            OSError,
            TimeoutError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ) as error:
            # A program that broke off, or does not speak either language: its own affair.
            log.debug("A connection from inside a wall came to nothing: %s", error)
        finally:
            writer.close()

    async def _answer(
        self,
        wanted: _Wanted,
        is_socks: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            if not self._is_allowed(wanted.host):
                await self._loop.run_in_executor(
                    self._threads, self._decide, wanted.host, wanted.port
                )
            addresses = await checked_addresses(
                wanted.host, wanted.port, self._allowed, system_resolver
            )
        except ToolError as error:
            writer.write(_refusal(_SOCKS_REFUSED, str(error), is_socks))
            await writer.drain()
            return
        try:
            far_reader, far_writer = await _connect(addresses, wanted.port)
        except (OSError, TimeoutError) as error:
            text = f"{wanted.host} cannot be reached: {error}"
            writer.write(_refusal(_SOCKS_UNREACHABLE, text, is_socks))
            await writer.drain()
            return
        try:
            if is_socks:
                writer.write(_socks_reply(0))
            elif wanted.head:
                far_writer.write(wanted.head)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            far_writer.close()


async def _http(first: bytes, reader: asyncio.StreamReader) -> _Wanted:
    head = first + await reader.readuntil(b"\r\n\r\n")
    line, _, rest = head.partition(b"\r\n")
    method, target, version = line.split(b" ")
    if method == b"CONNECT":
        host, _, port = target.decode("ascii").rpartition(":")
        return _Wanted(_name(host.strip("[]")), int(port))
    url = urlsplit(target.decode("ascii"))
    if url.scheme != "http" or not url.hostname:
        raise ValueError("neither CONNECT nor the address of a page")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [header for header in rest.split(b"\r\n") if not header.lower().startswith(_HOP_HEADERS)]
    # One request per connection: the next one may want another host.
    head = b" ".join([method, path.encode(), version]) + b"\r\nConnection: close\r\n"
    return _Wanted(_name(url.hostname), url.port or 80, head + b"\r\n".join(kept))


async def _socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Wanted:
    methods = await reader.readexactly(1)
    await reader.readexactly(methods[0])
    writer.write(b"\5\0")
    version, command, _, kind = await reader.readexactly(4)
    if version != 5 or command != 1:
        writer.write(_socks_reply(_SOCKS_UNKNOWN))
        raise ValueError("only connections are offered")
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
    else:
        family, length = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        host = socket.inet_ntop(family, await reader.readexactly(length))
    (port,) = struct.unpack("!H", await reader.readexactly(2))
    return _Wanted(_name(host), port)


def _name(host: str) -> str:
    """A host as it is shown to a person; ValueError if it is made to look like something else."""
    if not HOST.fullmatch(host):
        raise ValueError("that is no name of a host")
    return host


async def _connect(
    addresses: list[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    failure: OSError | TimeoutError = OSError("it has no address")
    for address in addresses:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await asyncio.open_connection(address, port)
        except (OSError, TimeoutError) as error:
            failure = error
    raise failure


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the end, which is passed on."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        # One side is gone: so is the connection.
        writer.close()


def _refusal(code: int, text: str, is_socks: bool) -> bytes:
    if is_socks:
        return _socks_reply(code)
    body = f"{text}\n".encode()
    head = (
        "HTTP/1.1 403 Forbidden by the wall\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _socks_reply(code: int) -> bytes:
    return bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0])


_started = threading.Lock()
_running: asyncio.AbstractEventLoop | None = None


def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of all proxies, in a thread of its own."""
    global _running
    with _started:
        if _running is None:
            _running = asyncio.new_event_loop()
            threading.Thread(target=_running.run_forever, name="hermes-proxy", daemon=True).start()
        return _running
