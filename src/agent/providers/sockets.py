"""Sockets for httpcore, on asyncio itself.

httpcore's own go through a layer that also knows other event loops; for a short reply that layer
costs as much as reading it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any

from agent.providers.light_httpx import httpcore

MOST_UNREAD = 256 * 1024
"""Bytes that are buffered before the sender is made to wait."""
_EYEBALLS_SECONDS = 0.25
"""After which the next address of a host is tried beside the first."""


class Backend(httpcore.AsyncNetworkBackend):
    """Opens connections on the running event loop."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a host; ConnectError or ConnectTimeout if that fails."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                transport, received = await loop.create_connection(
                    _Received, host, port, happy_eyeballs_delay=_EYEBALLS_SECONDS
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return Stream(transport, received)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class Stream(httpcore.AsyncNetworkStream):
    """One connection."""

    def __init__(self, transport: asyncio.Transport, received: _Received) -> None:
        self._transport, self._received = transport, received

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes; none at the end of the connection."""
        if not self._received.is_readable:
            async with _in_time(timeout, httpcore.ReadTimeout):
                await self._received.wait()
        return self._received.take(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes; returns when there is room for more."""
        if not buffer:
            return
        if self._received.error is not None or self._transport.is_closing():
            raise httpcore.WriteError(str(self._received.error or "The connection is closed."))
        self._transport.write(buffer)
        if self._received.is_paused:
            async with _in_time(timeout, httpcore.WriteTimeout):
                await self._received.wait_for_room()
            if self._received.error is not None:
                raise httpcore.WriteError(str(self._received.error))

    async def aclose(self) -> None:
        """Close at once; what was not sent is dropped."""
        self._transport.close()
        try:
            await asyncio.sleep(0)  # TLS says goodbye
        finally:
            self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Encrypt the connection; ConnectError or ConnectTimeout if that fails."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                transport = await loop.start_tls(
                    self._transport, self._received, ssl_context, server_hostname=server_hostname
                )
        except BaseException as error:
            self._transport.abort()
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout(str(error)) from error
            if isinstance(error, OSError):  # those of TLS are such, too
                raise httpcore.ConnectError(str(error)) from error
            raise
        if transport is None:
            raise httpcore.ConnectError("The connection ended while it was being encrypted.")
        self._received.connection_made(transport)
        return Stream(transport, self._received)

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks for: whether an idle connection has something to say, and such."""
        if info == "is_readable":
            return self._received.is_readable or self._transport.is_closing()
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._transport.get_extra_info(names.get(info, info))


class _Received(asyncio.Protocol):
    """What has come on a connection and was not read yet."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._has_ended = False
        self._is_full = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self.is_paused = False
        """Whether more was written than the other side has taken."""
        self.error: Exception | None = None
        """What broke the connection."""

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) > MOST_UNREAD and not self._is_full and self._transport is not None:
            self._is_full = True
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._has_ended = True
        _wake(self._reader)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._has_ended = True
        self.error = error or self.error
        _wake(self._reader)
        self.resume_writing()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        _wake(self._writer)

    # What a stream asks

    @property
    def is_readable(self) -> bool:
        """Whether reading need not wait."""
        return bool(self._unread) or self._has_ended

    async def wait(self) -> None:
        """Wait until there is something to read, or the end."""
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    async def wait_for_room(self) -> None:
        """Wait until more may be written, or the end."""
        self._writer = asyncio.get_running_loop().create_future()
        try:
            await self._writer
        finally:
            self._writer = None

    def take(self, most: int) -> bytes:
        """What has come, up to so many bytes; ReadError if the connection broke instead."""
        if not self._unread and self.error is not None:
            raise httpcore.ReadError(str(self.error))
        data = bytes(self._unread[:most])
        del self._unread[:most]
        if self._is_full and len(self._unread) < MOST_UNREAD and self._transport is not None:
            self._is_full = False
            self._transport.resume_reading()
        return data


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


@contextlib.asynccontextmanager
async def _in_time(seconds: float | None, late: type[Exception]) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise late(f"Nothing happened for {seconds} seconds.") from error
