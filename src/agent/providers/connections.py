"""Connections to a provider: as many as there are requests, the last used first.

httpx's own pool looks at every connection for every request, and at every pair of idle ones when a
request ends; with hundreds of turns at once that costs more than the turns. Here taking a
connection and giving it back does not depend on how many there are. A request that finds none idle
opens one; nothing waits for another request to end.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable

from agent.providers.light_httpx import httpcore, httpx
from agent.providers.sockets import Backend

log = logging.getLogger(__name__)

KEEP = 128
"""Idle connections that are kept per address."""
KEEP_SECONDS = 60.0

_BACKEND = Backend()

OPENED = "hermes.opened"
"""The extension of a request that is a list: it gets an entry if a connection was opened for it."""


def pooled_transport(ssl_context: Callable[[], ssl.SSLContext]) -> httpx.AsyncHTTPTransport:
    """A transport for an `httpx.AsyncClient` that keeps its connections here.

    `ssl_context` is asked for the certificates with the first https:// address.
    """
    # Its own pool, which would read them at once, is never used.
    transport = httpx.AsyncHTTPTransport(verify=False)
    transport._pool = Connections(ssl_context)  # type: ignore[assignment]
    return transport


class Connections:
    """A pool as `httpx.AsyncHTTPTransport` uses one, for one event loop."""

    def __init__(self, ssl_context: Callable[[], ssl.SSLContext]) -> None:
        self._ssl_context = ssl_context
        self._idle: dict[str, deque[httpcore.AsyncHTTPConnection]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request on a connection of its own."""
        if request.url.scheme not in (b"http", b"https") or not request.url.host:
            raise httpcore.UnsupportedProtocol("The address is no http:// or https:// address.")
        origin = request.url.origin
        connection = self._take(origin)
        if not connection.is_idle():
            request.extensions.get(OPENED, []).append(True)
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            self._close(connection)
            raise
        return httpcore.Response(
            response.status,
            headers=response.headers,
            content=_Body(response, lambda: self.give_back(origin, connection)),
            extensions=response.extensions,
        )

    def _take(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        idle = self._idle.get(str(origin))
        while idle:
            connection = idle.pop()
            if not connection.is_closed() and not connection.has_expired():
                return connection
            self._close(connection)
        return httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=self._ssl_context() if origin.scheme == b"https" else None,
            keepalive_expiry=KEEP_SECONDS,
            network_backend=_BACKEND,
        )

    def give_back(self, origin: httpcore.Origin, connection: httpcore.AsyncHTTPConnection) -> None:
        """Its request is over; it is kept for the next, if it can be used again."""
        if not connection.is_idle():
            self._close(connection)
            return
        idle = self._idle.setdefault(str(origin), deque())
        idle.append(connection)
        if len(idle) > KEEP or idle[0].has_expired():
            self._close(idle.popleft())

    def _close(self, connection: httpcore.AsyncHTTPConnection) -> None:
        """Close in the background: a cancelled caller must not wait for it."""
        if connection.is_closed():
            return
        task = asyncio.ensure_future(connection.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closed)

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("A connection did not close well: %r", task.exception())

    async def aclose(self) -> None:
        """Close what is idle."""
        for idle in self._idle.values():
            while idle:
                self._close(idle.pop())
        if self._closing:
            await asyncio.wait(list(self._closing))

    async def __aenter__(self) -> Connections:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Body:
    """A reply's bytes; when it is closed, its connection is free."""

    def __init__(self, response: httpcore.Response, on_close: Callable[[], None]) -> None:
        self._response, self._on_close = response, on_close
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.stream:  # type: ignore[union-attr]
            yield chunk

    async def aclose(self) -> None:
        """The reply is read, or not wanted any more."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._response.stream.aclose()  # type: ignore[union-attr]
        finally:
            self._on_close()
