"""The HTTP server: uvicorn, within limits, leaving signals to the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = logging.getLogger(__name__)

MAX_HEAD = 64 * 1024
"""Bytes of a request's line and headers."""
KEEP_ALIVE_SECONDS = 75
HEAD_SECONDS = 30.0
BACKLOG = 2048


class BoundedProtocol(HttpToolsProtocol):
    """One connection; its requests have a head of bounded size that arrives in bounded time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = 0
        self._in_head = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is here; it has to say what it wants."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._in_head:
            self._head += len(data)
            if self._timer is None:
                self._timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)
        super().data_received(data)
        if self._in_head and self._head > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("The request's headers are too large.")

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head, self._head = False, 0
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole; another may follow."""
        self._in_head = True
        super().on_message_complete()

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the gateway's."""
        yield


class HttpServer:
    """Listens, serves, and stops when asked to."""

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._server = _Uvicorn(
            uvicorn.Config(
                app, http=BoundedProtocol, ws="none", lifespan="off", log_config=None,
                access_log=False, server_header=False, proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS, backlog=BACKLOG,
            )
        )  # fmt: skip
        self._serving: asyncio.Task[None] | None = None
        self.port = port

    async def start(self) -> None:
        """Listen; raises OSError with what to do if the address cannot be had."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # Named as TCP, or asyncio leaves Nagle's algorithm on: 40 ms per answer.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise OSError(
                f"The API server cannot listen on {self._host}:{self._port} ({error.strerror}). Is"
                " another program there? Set API_SERVER_PORT or API_SERVER_HOST."
            ) from error
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[listener]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.001)
        if self._serving.done():
            self._serving.result()

    async def wait(self) -> None:
        """Until it ends."""
        assert self._serving is not None
        await asyncio.shield(self._serving)

    def stop_listening(self) -> None:
        """Take no further connections; what is being answered is answered."""
        self._server.should_exit = True

    async def stop(self, seconds: float) -> None:
        """End, at the latest after some seconds."""
        if self._serving is None:
            return
        self._server.should_exit = True
        _, late = await asyncio.wait([self._serving], timeout=seconds)
        if late:
            self._server.force_exit = True
            for connection in list(self._server.server_state.connections):
                transport = getattr(connection, "transport", None)
                if transport is not None:
                    transport.abort()
            await asyncio.wait([self._serving], timeout=1)
        self._serving = None
