"""A line to a server that breaks after so many bytes, within a frame or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

CHUNK = 4096


class Line:
    """Passes bytes on between a browser and a server."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._left: int | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.cuts = 0

    def cut_after(self, count: int) -> None:
        """Break every connection once the server has said so many bytes more."""
        self._left = count

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one connection."""
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self._open |= both
        try:
            await asyncio.gather(
                self._pass(reader, far_writer), self._pass(far_reader, writer, counted=True)
            )
        except OSError:
            pass  # it was cut, or one side has left
        finally:
            self._open -= both
            for end in both:
                end.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counted: bool = False
    ) -> None:
        while content := await reader.read(CHUNK):
            if counted and self._left is not None:
                content, self._left = content[: self._left], self._left - len(content)
            writer.write(content)
            await writer.drain()
            if counted and self._left is not None and self._left <= 0:
                self._cut()
        raise ConnectionResetError

    def _cut(self) -> None:
        self._left = None
        self.cuts += 1
        for end in self._open:
            end.transport.abort()


@contextlib.asynccontextmanager
async def line_to(port: int) -> AsyncIterator[tuple[Line, int]]:
    """A line to that port, and the port at which it begins."""
    line = Line(port)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    try:
        yield line, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for end in list(line._open):
            end.transport.abort()
