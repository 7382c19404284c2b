"""What the platforms share that listen for HTTP requests: the server's life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config import PlatformConfig
from .base import AdapterHost, OnMessage, PlatformAdapter

if TYPE_CHECKING:
    from .http_server import HttpServer

HOST = "127.0.0.1"
"""Loopback, unless the configuration says otherwise."""
STOP_SECONDS = 3.0


class HttpAdapter(PlatformAdapter):
    """A platform that listens; `connect` of the subclass starts `_server`."""

    is_exclusive = False

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self.address = str(config.extra.get("host") or HOST)
        self._server: HttpServer | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None, "connect first"
        return self._server.port

    async def run(self) -> None:
        """Serve until cancelled; then nobody new is let in."""
        assert self._server is not None
        try:
            await self._server.wait()
        finally:
            self._server.stop_listening()

    async def disconnect(self) -> None:
        """End the connections; requests that are being answered get a moment."""
        if self._server is not None:
            await self._server.stop(STOP_SECONDS)
            self._server = None
