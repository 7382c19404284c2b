"""A small HTTP server on loopback, for platforms that tests play."""

from __future__ import annotations

import asyncio
import email.parser
import email.policy
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import h11


@dataclass
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


class Response(NamedTuple):
    """What is answered."""

    status: int
    body: bytes
    kind: str = "application/json"


class LoopbackServer:
    """Answers requests with `answer`. Use as `async with`; it may be closed and opened again."""

    def __init__(self) -> None:
        self.url = ""
        self._port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._is_open = False

    async def answer(self, request: Request) -> Response | None:
        """Deal with a request; None cuts the connection."""
        raise NotImplementedError

    async def __aenter__(self) -> Any:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen; after `close`, where it listened before."""
        self._is_open = True
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def close(self) -> None:
        """Cut every connection, and take no more."""
        assert self._server is not None
        self._is_open = False
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:  # it was taken just before the end
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, h11.ProtocolError, asyncio.CancelledError):
            pass  # the other side went away, or we are closing
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        while (request := await _read(connection, reader)) is not None:
            response = await self.answer(request)
            if response is None:
                return
            headers = [
                ("Content-Type", response.kind),
                ("Content-Length", str(len(response.body))),
            ]
            head = h11.Response(status_code=response.status, headers=headers)
            data = connection.send(head) or b""
            data += connection.send(h11.Data(data=response.body)) or b""
            data += connection.send(h11.EndOfMessage()) or b""
            writer.write(data)
            await writer.drain()
            connection.start_next_cycle()


async def _read(connection: h11.Connection, reader: asyncio.StreamReader) -> Request | None:
    request: Request | None = None
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65_536))
        elif isinstance(event, h11.Request):
            headers = {name.decode(): value.decode() for name, value in event.headers}
            path = event.target.decode().partition("?")[0]
            request = Request(event.method.decode(), path, headers)
        elif isinstance(event, h11.Data) and request is not None:
            request.body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:
            return None


def form_of(request: Request) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    """The fields of a form, and the files in it."""
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/x-www-form-urlencoded"):
        found = parse_qs(request.body.decode(), keep_blank_values=True)
        return {name: values[-1] for name, values in found.items()}, {}
    fields: dict[str, Any] = {}
    files: dict[str, tuple[str, bytes]] = {}
    if not kind.startswith("multipart/form-data"):
        return fields, files
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
    for part in message.iter_parts():  # type: ignore[attr-defined]
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True) or b""
        if part.get_filename() is not None:
            files[name] = (part.get_filename(), data)
        else:
            fields[name] = data.decode()
    return fields, files
