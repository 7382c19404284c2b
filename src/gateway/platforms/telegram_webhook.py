"""The door Telegram knocks at in webhook mode: one path, one secret, one update at a time.

It answers 200 only when the update was taken; anything else makes Telegram deliver it again.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import h11

log = logging.getLogger(__name__)

MAX_BODY = 4 * 1024 * 1024
IDLE_SECONDS = 75.0
SECRET_HEADER = b"x-telegram-bot-api-secret-token"

Accept = Callable[[Any], Awaitable[None]]


class WebhookServer:
    """Takes updates over HTTP; TLS is for the proxy in front of it."""

    def __init__(self, path: str, secret: str, accept: Accept) -> None:
        self._path = path.encode()
        self._secret = secret.encode()
        self._accept = accept
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is chosen if it was 0."""
        self._server = await asyncio.start_server(self._connected, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening; requests that are being answered are cut off, and delivered again."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        await self._server.wait_closed()
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            log.info("A webhook connection ended: %s", error)
        except asyncio.CancelledError:
            pass  # we stop; the update is delivered again
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                request, body = await _read(connection, reader)
            if request is None:
                return
            status, reason = await self._answer(request, body)
            text = json.dumps({"ok": status == 200, "description": reason}).encode()
            headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
            data = connection.send(h11.Response(status_code=status, headers=headers)) or b""
            data += connection.send(h11.Data(data=text)) or b""
            data += connection.send(h11.EndOfMessage()) or b""
            writer.write(data)
            await writer.drain()
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _answer(self, request: h11.Request, body: bytes | None) -> tuple[int, str]:
        if request.target.partition(b"?")[0] != self._path:
            return 404, "not found"
        given = dict(request.headers).get(SECRET_HEADER, b"")
        if not hmac.compare_digest(given, self._secret):
            log.warning("A webhook request without the right secret was refused")
            return 401, "wrong secret"
        if request.method != b"POST":
            return 405, "use POST"
        if body is None:
            return 413, "too large"
        try:
            update = json.loads(body)
        except ValueError:
            return 400, "not JSON"
        try:
            await self._accept(update)
        except Exception:
            # Whatever it was, Telegram is to deliver the update again.
            log.exception("An update could not be taken; Telegram will deliver it again")
            return 503, "try again"
        return 200, "taken"


async def _read(
    connection: h11.Connection, reader: asyncio.StreamReader
) -> tuple[h11.Request | None, bytes | None]:
    """The next request and its body (None if too large); no request at the end."""
    request: h11.Request | None = None
    body: bytes | None = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65_536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body = None if body is None or len(body) > MAX_BODY else body + event.data
        elif isinstance(event, h11.EndOfMessage):
            return request, body
        else:
            return None, None
