"""The webhook server that Telegram calls: one path, one secret, one update at a time.

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

from ..acceptor import Acceptor, listen

log = logging.getLogger(__name__)

MAX_BODY = 4 * 1024 * 1024
IDLE_SECONDS = 75.0
STRANGER_SECONDS = 15.0
"""How long a request may take of a client that has not shown the secret yet."""
SECRET_HEADER = b"x-telegram-bot-api-secret-token"

Accept = Callable[[Any], Awaitable[None]]


class WebhookServer:
    """Takes updates over HTTP; TLS is for the proxy in front of it."""

    def __init__(self, path: str, secret: str, accept: Accept) -> None:
        self._path = path.encode()
        self._secret = secret.encode()
        self._accept = accept
        self._acceptor: Acceptor | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is chosen if it was 0."""
        listener = listen(host, port)
        self._acceptor = Acceptor(listener, self._make_protocol)
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Stop listening; requests that are being answered are aborted, and delivered again."""
        if self._acceptor is None:
            return
        self._acceptor.stop()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        self._acceptor = None

    def _make_protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._connected)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._acceptor is None:  # it was on its way when we stopped
            writer.close()
            return
        strangers = self._acceptor.strangers
        self._connections.add(task)
        strangers.add(task, writer.transport.abort)
        try:
            await self._serve(reader, writer, lambda: strangers.discard(task))
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            log.info("A webhook connection ended: %s", error)
        except asyncio.CancelledError:
            pass  # we stop; the update is delivered again
        finally:
            self._connections.discard(task)
            strangers.discard(task)
            writer.close()

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        trust: Callable[[], None],
    ) -> None:
        connection = h11.Connection(h11.SERVER)
        seconds = STRANGER_SECONDS
        while True:
            async with asyncio.timeout(seconds):
                request, body = await _read(connection, reader)
            if request is None:
                return
            known = self._knows_secret(request)
            if known:
                trust()
                seconds = IDLE_SECONDS
            status, reason = await self._answer(request, body)
            text = json.dumps({"ok": status == 200, "description": reason}).encode()
            headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
            data = connection.send(h11.Response(status_code=status, headers=headers)) or b""
            data += connection.send(h11.Data(data=text)) or b""
            data += connection.send(h11.EndOfMessage()) or b""
            writer.write(data)
            await writer.drain()
            if not known:
                return
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    def _knows_secret(self, request: h11.Request) -> bool:
        given = dict(request.headers).get(SECRET_HEADER, b"")
        return hmac.compare_digest(given, self._secret)

    async def _answer(self, request: h11.Request, body: bytes | None) -> tuple[int, str]:
        if request.target.partition(b"?")[0] != self._path:
            return 404, "not found"
        if not self._knows_secret(request):
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
