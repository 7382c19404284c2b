"""Asking over HTTP: one client per event loop, and every failure turned into a `ModelError`.

A connection belongs to the event loop it was opened on, but one model may be used from several
(a thread with its own loop, or one `asyncio.run` after another). So each loop gets its own client;
clients of loops that have ended are dropped when the next one is made.

Leaving `post` in the middle of a reply closes the connection at once, which is what stops the
provider from generating; leaving it after the reply's last event keeps the connection for the next.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from agent.providers import failures
from agent.providers.connections import OPENED, pooled_transport
from agent.providers.light_httpx import httpx
from hermes_base.certificates import certificates
from hermes_base.version import __version__

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.25
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class HttpPeer:
    """One provider's address, with the connections to it."""

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        base_url: str,
        api_key: str,
        timeout: float,
        headers: Mapping[str, str],
    ) -> None:
        self.base_url = base_url.strip().rstrip("/")
        address, host = _address(self.base_url)
        self.peer = failures.Peer(provider, model, address, api_key, timeout)
        self._on_this_machine = host in _LOOPBACK
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "user-agent": f"hermes/{__version__}",
            **headers,
        }
        self._timeout = httpx.Timeout(timeout, connect=_CONNECT_SECONDS, pool=None)
        self._urls: dict[str, httpx.URL] = {}
        self._is_proxied = False
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}

    @asynccontextmanager
    async def post(self, path: str, payload: dict[str, Any]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send `payload` and give the bytes of the event stream that comes back."""
        # Half of a surrogate pair, as in an undecodable file name, must not stop a conversation.
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        response: httpx.Response | None = None
        try:
            response = await self._send(path, body)
            await self._require_stream(response)
            plain = response.headers.get("content-encoding", "identity") == "identity"
            chunks = response.aiter_raw() if plain else response.aiter_bytes()
            yield chunks
            await self._drain(chunks)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            raise failures.disconnected(self.peer, error, begun=response is not None) from error
        finally:
            if response is not None:
                await response.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop; those of ended loops are forgotten."""
        self._forget_ended_loops()
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            self._forget_ended_loops()
            has_proxy = self._is_proxied = self._has_proxy()
            client = self._clients[loop] = httpx.AsyncClient(
                verify=certificates() if has_proxy else True,
                # A proxy for the outside world cannot reach a server on this machine.
                trust_env=not self._on_this_machine,
                transport=None if has_proxy else pooled_transport(certificates),
                timeout=self._timeout,
                cookies=_NoCookies(),
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=20, keepalive_expiry=60
                ),
            )
        return client

    def _has_proxy(self) -> bool:
        """Whether the environment names a proxy, which httpx then has to be asked for."""
        return not self._on_this_machine and bool(getproxies())

    def _forget_ended_loops(self) -> None:
        # A weak dictionary would keep them for ever: a client's connections refer to its loop.
        for loop in list(self._clients):
            if loop.is_closed():
                self._clients.pop(loop, None)

    async def _send(self, path: str, body: bytes) -> httpx.Response:
        client = self._client()
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = httpx.URL(self.base_url + path)
        opened: list[bool] = []
        extensions: dict[str, Any] = {"timeout": self._timeout.as_dict(), OPENED: opened}
        if self._is_proxied:  # httpx's own pool does not say so by itself

            async def trace(event: str, _info: Mapping[str, Any]) -> None:
                if "connect_tcp" in event:
                    opened.append(True)

            extensions["trace"] = trace
        for last_try in (False, True):
            # Not by `client.build_request`, which parses the address anew and merges headers.
            request = httpx.Request(
                "POST", url, content=body, headers=self._headers, extensions=extensions
            )
            try:
                return await client.send(request, stream=True)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
                # A kept connection may have been closed by the server while it was idle. That says
                # nothing about the server, so it is worth one try on a new connection.
                if opened or last_try:
                    raise
                log.debug("A kept connection to %s was closed: %s", self.peer.address, error)
        raise AssertionError("the last try returns or raises")

    async def _require_stream(self, response: httpx.Response) -> None:
        """Raise unless what comes now is an event stream."""
        if response.status_code != 200:
            body = await response.aread()
            raise failures.refused(self.peer, response.status_code, response.headers, body)
        content_type = response.headers.get("content-type", "").lower()
        if "json" in content_type or "html" in content_type:
            body = await response.aread()
            try:
                event = json.loads(body)
            except ValueError:
                event = None
            if isinstance(event, dict) and event.get("error"):
                raise failures.reported(self.peer, event)
            raise failures.broken(
                self.peer,
                f"it is {content_type} and not an event stream; check model.base_url"
                f" ({self.peer.address})",
            )

    async def _drain(self, chunks: AsyncIterator[bytes]) -> None:
        """Read what little follows the last event, so that the connection can be used again."""
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in chunks:
                    pass
        except (TimeoutError, httpx.HTTPError) as error:
            log.debug("The connection to %s is not kept: %r", self.peer.address, error)


class _NoCookies(CookieJar):
    """Keeps none: a provider needs none, and looking for them costs more than it seems."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Nothing is kept."""


def _address(base_url: str) -> tuple[str, str]:
    """The part of an address that may be shown, and its host; empty if it is not an address."""
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "", ""
    return f"{parts.scheme}://{host}{port}", host
