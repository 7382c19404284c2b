"""Between one replica and the database: a way that can be cut, held up, or made slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

CHUNK = 1 << 16


class Proxy:
    """Passes on what one replica and the server say to each other.

    `cut` closes every connection and refuses new ones, as a network without a route does. `hold`
    says nothing to either side and passes nothing on: what was on its way arrives when that ends,
    late, or never. `delay` makes everything take longer.
    """

    def __init__(self, url: str) -> None:
        """`url` is the database's, which is reached over a socket in a folder."""
        self._socket = str(Path(unquote(url.partition("host=")[2]), ".s.PGSQL.5432"))
        self._database = url.partition("@/")[2].partition("?")[0]
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._is_cut = False
        self.delay = 0.0
        self.url = ""

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = (
            f"postgresql://hermes@127.0.0.1:{port}/{self._database}"
            "?sslmode=disable&gssencmode=disable"
        )

    def close(self) -> None:
        """End."""
        assert self._server is not None
        self._server.close()
        self._drop()

    def cut(self) -> None:
        """Let nobody through."""
        self._is_cut = True
        self._drop()

    def hold(self) -> None:
        """Keep everything that comes from now on."""
        self._open.clear()

    def heal(self, *, drop: bool) -> None:
        """Let everybody through; what was held back is lost, with its connection, or arrives."""
        self._is_cut, self.delay = False, 0.0
        if drop:
            self._drop()
        self._open.set()

    def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._open.wait()
            if self._is_cut:
                return
            there, out = await asyncio.open_unix_connection(self._socket)
        except OSError:  # the server is not there
            return
        finally:
            if self._is_cut:
                writer.transport.abort()
        self._writers |= {writer, out}
        try:
            await asyncio.gather(
                self._pass_on(reader, out), self._pass_on(there, writer), return_exceptions=True
            )
        finally:
            self._writers -= {writer, out}
            for end in (writer, out):
                end.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # either side may go at any moment
        finally:
            writer.close()


class Balancer:
    """Gives each connection to the next replica that takes it, in turn."""

    def __init__(self, ports: Callable[[], list[int]]) -> None:
        """`ports` are those that are said to be served at the moment."""
        self._ports = ports
        self._next = 0
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """End."""
        assert self._server is not None
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = await self._choose()
        if found is None:
            writer.close()
            return
        there, out = found
        try:
            await asyncio.gather(_copy(reader, out), _copy(there, writer))
        except asyncio.CancelledError:
            pass  # the run is over; asyncio would report a handler that is cancelled
        finally:
            for end in (writer, out):
                end.close()

    async def _choose(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        ports = self._ports()
        for _ in ports:
            self._next += 1
            try:
                return await asyncio.open_connection("127.0.0.1", ports[self._next % len(ports)])
            except OSError:
                continue  # this one is down
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # either side may go at any moment
    finally:
        writer.close()
