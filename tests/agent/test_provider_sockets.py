"""The sockets under a provider's connections: bytes in order, bounded, and each failure by name."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.providers.light_httpx import httpcore
from agent.providers.sockets import MOST_UNREAD, Backend, Stream

from .. import skips

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[Stream]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        stream = await Backend().connect_tcp("127.0.0.1", port, timeout=30)
        assert isinstance(stream, Stream)
        yield stream
        await stream.aclose()


async def read_all(stream: httpcore.AsyncNetworkStream) -> bytes:
    pieces = []
    while piece := await stream.read(65_536, timeout=30):
        pieces.append(piece)
    return b"".join(pieces)


async def test_bytes_come_in_order_and_the_end_is_seen() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readexactly(5)).upper())
        writer.close()

    async with connected(serve) as stream:
        assert not stream.get_extra_info("is_readable")
        await stream.write(b"he", timeout=30)
        await stream.write(b"llo", timeout=30)
        assert await stream.read(3, timeout=30) == b"HEL"
        assert await read_all(stream) == b"LO"
        assert stream.get_extra_info("is_readable"), "its end is something to read"
        assert await stream.read(10, timeout=30) == b""


async def test_who_reads_slowly_keeps_little() -> None:
    body = bytes(range(256)) * 40_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(body)
        await writer.drain()
        writer.close()

    async with connected(serve) as stream:
        received = stream._received
        async with asyncio.timeout(30):
            while not received._is_full:
                await asyncio.sleep(0)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert len(received._unread) < 2 * MOST_UNREAD
        assert await read_all(stream) == body


async def test_who_sends_too_much_waits_for_room() -> None:
    body, may_read = b"x" * 30_000_000, asyncio.Event()
    got = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await may_read.wait()
        got.set_result(len(await reader.readexactly(len(body))))
        writer.close()

    async with connected(serve) as stream:
        with pytest.raises(httpcore.WriteTimeout):
            await stream.write(body[:-1], timeout=0.01)
        may_read.set()
        await stream.write(b"x", timeout=30)
        assert await asyncio.wait_for(got, 30) == len(body)


async def test_a_connection_that_breaks_says_so() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        linger = struct.pack("ii", 1, 0)  # closed with a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with connected(serve) as stream:
        await stream.write(b"x", timeout=30)
        with pytest.raises(httpcore.ReadError):
            await read_all(stream)
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"x", timeout=30)


async def test_silence_is_given_up() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with connected(serve) as stream:
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(10, timeout=0.01)


async def test_where_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(httpcore.ConnectError):
            await Backend().connect_tcp("127.0.0.1", taken.getsockname()[1], timeout=30)


async def test_encrypted(tmp_path: Path) -> None:
    skips.need("openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    body = b"secret " * 100_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(body)) == body
        writer.write(body[::-1])
        writer.close()

    async with connected(serve, server) as plain:
        stream = await plain.start_tls(trusting, "localhost", timeout=30)
        assert stream.get_extra_info("ssl_object") is not None
        await stream.write(body, timeout=30)
        assert await read_all(stream) == body[::-1]
        await stream.aclose()
    async with connected(serve, server) as plain:
        with pytest.raises(httpcore.ConnectError, match="certificate"):
            await plain.start_tls(trusting, "elsewhere.example", timeout=30)


async def test_encryption_with_somebody_who_does_not() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with connected(serve) as plain:
        with pytest.raises(httpcore.ConnectError):
            await plain.start_tls(ssl.create_default_context(), "localhost", timeout=30)
