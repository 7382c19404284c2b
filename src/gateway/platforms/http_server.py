"""The HTTP server: uvicorn, within limits, leaving signals to the gateway.

A client is a stranger until a handler says that it has authenticated (`trust`). Strangers are few
at any time, and their connection is closed after one answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agent.descriptors import Strangers

from .acceptor import BACKLOG, STRANGER_SECONDS, Acceptor, listen

MAX_HEAD = 64 * 1024
"""Bytes of a request's line and headers."""
KEEP_ALIVE_SECONDS = 75
HEAD_SECONDS = STRANGER_SECONDS
_TRUST = "hermes.trust"


def trust(scope: Scope) -> None:
    """The client of this request has authenticated: its connection may stay."""
    trusting: Callable[[], None] | None = (scope.get("extensions") or {}).get(_TRUST)
    if trusting is not None:  # another server, as in a test without a socket, has none
        trusting()


class BoundedProtocol(HttpToolsProtocol):
    """One connection; its requests have a head of bounded size that arrives in bounded time."""

    def __init__(self, *args: Any, strangers: Strangers, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._strangers = strangers
        self._trusted = False
        self._ending = False
        self._head = 0
        self._in_head = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is here; it has to say what it wants."""
        super().connection_made(transport)
        self._strangers.add(self, transport.abort)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_timer()
        self._strangers.discard(self)
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
        if self.parser.should_upgrade() and self._should_upgrade():
            return  # it becomes a socket, which has no answer of its own here
        cycle, keep_alive = self.cycle, self.cycle.keep_alive
        cycle.keep_alive = keep_alive and self._trusted

        def trusting() -> None:
            self._trusted = True
            self._strangers.discard(self)
            cycle.keep_alive = keep_alive and not self._ending

        self.scope["extensions"] = {_TRUST: trusting}  # type: ignore[dict-item]

    def handle_websocket_upgrade(self) -> None:
        """It becomes a socket, whose handler refuses or accepts at once."""
        self._stop_timer()
        self._strangers.discard(self)
        super().handle_websocket_upgrade()

    def on_message_complete(self) -> None:
        """The request is whole; another may follow."""
        self._in_head = True
        super().on_message_complete()

    def shutdown(self) -> None:
        """The server ends: what is being answered is answered, and no more."""
        self._ending = True
        super().shutdown()

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

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        what: str = "The API server",
        advice: str = "Set API_SERVER_PORT or API_SERVER_HOST.",
        **sockets: Any,
    ) -> None:
        """`what` listens, and `advice` says what to do if it cannot; `sockets` are uvicorn's
        settings for WebSockets, which are refused without any."""
        self._host, self._port = host, port
        self._what, self._advice = what, advice
        self._config = uvicorn.Config(
            app, http=BoundedProtocol, lifespan="off", log_config=None,
            access_log=False, server_header=False, proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS, backlog=BACKLOG, **{"ws": "none", **sockets},
        )  # fmt: skip
        self._server = _Uvicorn(self._config)
        self._acceptor: Acceptor | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = port

    async def start(self) -> None:
        """Listen; raises OSError with what to do if the address cannot be had."""
        try:
            listener = listen(self._host, self._port)
        except OSError as error:
            raise OSError(
                f"{self._what} cannot listen on {self._host}:{self._port} ({error.strerror}). Is"
                f" another program there? {self._advice}"
            ) from error
        self.port = listener.getsockname()[1]
        # uvicorn serves the connections; accepting them is ours.
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.001)
        if self._serving.done():
            listener.close()
            self._serving.result()
        self._acceptor = Acceptor(listener, self._make_protocol)

    def _make_protocol(self) -> BoundedProtocol:
        assert self._acceptor is not None
        return BoundedProtocol(
            self._config, self._server.server_state, {}, strangers=self._acceptor.strangers
        )

    async def wait(self) -> None:
        """Until it ends."""
        assert self._serving is not None
        await asyncio.shield(self._serving)

    def stop_listening(self) -> None:
        """Take no further connections; what is being answered is answered."""
        if self._acceptor is not None:
            self._acceptor.stop()
        self._server.should_exit = True

    async def stop(self, seconds: float) -> None:
        """End, at the latest after some seconds."""
        if self._serving is None:
            return
        self.stop_listening()
        _, late = await asyncio.wait([self._serving], timeout=seconds)
        if late:
            self._server.force_exit = True
            for connection in list(self._server.server_state.connections):
                transport = getattr(connection, "transport", None)
                if transport is not None:
                    transport.abort()
            await asyncio.wait([self._serving], timeout=1)
        self._serving = None
