"""Connections without a token: they hold up nobody, whatever they do and however many they are."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_provider import ScriptedProvider, say, script
from serving import SECONDS, WsServer, configure, turn_ends, ws_server

from tui_gateway.ws import Listener

DESCRIPTORS = 128


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> Path:
    return configure(tmp_path / "home", provider)


@contextlib.asynccontextmanager
async def strangers(
    server: WsServer, count: int, saying: bytes = b""
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many connections that say no token."""
    port = int(server.url.removeprefix("ws://").partition("/")[0].partition(":")[2])
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        for _, writer in made:
            with contextlib.suppress(OSError):  # dropped already
                writer.write(saying)
        yield [reader for reader, _ in made]
    finally:
        for _, writer in made:
            writer.close()


@pytest.mark.parametrize("saying", [b"", b"GET /api/ws HTTP/1.1\r\nHost: 127"])
async def test_who_knows_the_token_is_served_while_strangers_hold_on(
    home: Path, saying: bytes
) -> None:
    async with (
        ws_server(home, descriptors=DESCRIPTORS) as server,
        strangers(server, DESCRIPTORS + 32, saying),
        asyncio.timeout(SECONDS),
    ):
        async with server.client(reconnect=False) as client:
            opened = await client.create()
            await client.submit(opened["session_id"], script("a", say("here")))
            assert (await turn_ends(client, opened["session_id"])).payload["text"] == "here"
        async with strangers(server, 40), server.client(reconnect=False) as another:
            assert await another.sessions() is not None


async def test_the_oldest_stranger_is_dropped_first_and_clients_are_not(home: Path) -> None:
    async with (
        ws_server(home, descriptors=DESCRIPTORS) as server,
        server.client(reconnect=False) as client,
        strangers(server, 1) as [first],
        asyncio.timeout(SECONDS),
    ):
        async with strangers(server, 40) as others:
            assert await first.read() == b""
            assert not others[-1].at_eof()
        assert await client.sessions() == []


async def test_a_stranger_has_a_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_gateway.ws.STRANGER_SECONDS", 0.2)
    listener = Listener("token")
    serving = threading.Thread(target=listener.run)
    serving.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET /api/ws HTTP/1.1\r\n")
        async with asyncio.timeout(SECONDS):
            assert await reader.read() == b""
        writer.close()
    finally:
        listener.stop()
        serving.join()
