"""Connections to a provider: one per request at once, used again, and none that is dead."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fake_provider import FakeProvider, Reply

from agent.errors import ModelError
from agent.model import ModelRequest, TextDelta
from agent.providers import build_model, http
from agent.providers import connections as pool

from .. import skips

REQUEST = ModelRequest(messages=[{"role": "user", "content": "hi"}], system="", tools=[])


def event(**choice: object) -> bytes:
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, **choice}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


BODY = b"".join(
    [event(delta={"content": "Hello"}), event(delta={}, finish_reason="stop"), b"data: [DONE]\n\n"]
)


class Crowd:
    """A provider that answers when all who are expected have asked."""

    def __init__(self) -> None:
        self.connections = 0
        self.at_once = 0
        self.most = 0
        self.expected = 1
        self.all_here = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length:")[1].split()[0]))
                self.at_once += 1
                self.most = max(self.most, self.at_once)
                if self.at_once >= self.expected:
                    self.all_here.set()
                await self.all_here.wait()
                self.at_once -= 1
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    + f"Content-Length: {len(BODY)}\r\n\r\n".encode()
                    + BODY
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()


@asynccontextmanager
async def crowd() -> AsyncIterator[tuple[Crowd, str]]:
    provider = Crowd()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, backlog=1024)
    try:
        yield provider, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def ask(model: object) -> str:
    found = [chunk async for chunk in model.stream(REQUEST)]  # type: ignore[attr-defined]
    return "".join(one.text for one in found if isinstance(one, TextDelta))


def model_at(url: str) -> object:
    return build_model(
        {"provider": "custom", "default": "m", "base_url": f"{url}/v1", "api_key": "k"}
    )


async def test_as_many_requests_are_in_flight_as_there_are() -> None:
    async with crowd() as (provider, url):
        model = model_at(url)
        provider.expected = 300
        answers = await asyncio.gather(*(ask(model) for _ in range(300)))
        assert set(answers) == {"Hello"} and provider.most == 300
        await model.aclose()  # type: ignore[attr-defined]


async def test_connections_are_used_again() -> None:
    async with crowd() as (provider, url):
        model = model_at(url)
        for _ in range(20):
            assert await ask(model) == "Hello"
        assert provider.connections == 1
        await asyncio.gather(*(ask(model) for _ in range(5)))
        assert provider.connections <= 6
        await model.aclose()  # type: ignore[attr-defined]


async def test_certificates_are_read_for_https_alone_and_asked_for_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    skips.need("openssl")
    read: list[bool] = []
    whole = http.certificates
    monkeypatch.setattr(http, "certificates", lambda: read.append(True) or whole())
    async with crowd() as (_, url):
        model = model_at(url)
        assert await ask(model) == "Hello"
        assert not read
        await model.aclose()  # type: ignore[attr-defined]
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    stranger = Crowd()
    server = await asyncio.start_server(stranger.serve, "127.0.0.1", 0, ssl=context)
    model = model_at(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    with pytest.raises(ModelError):
        await ask(model)
    assert read and not stranger.most
    await model.aclose()  # type: ignore[attr-defined]
    server.close()


async def test_only_so_many_idle_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "KEEP", 3)
    async with crowd() as (provider, url):
        model = model_at(url)
        provider.expected = 10
        await asyncio.gather(*(ask(model) for _ in range(10)))
        assert provider.connections == 10
        provider.expected = 1
        await asyncio.gather(*(ask(model) for _ in range(3)))
        assert provider.connections == 10
        [client] = model._http._clients.values()  # type: ignore[attr-defined]
        kept = client._transport._pool._idle
        assert [len(one) for one in kept.values()] == [3]
        await model.aclose()  # type: ignore[attr-defined]
        assert [len(one) for one in kept.values()] == [0]


async def test_a_connection_that_the_server_closed_is_not_used() -> None:
    whole = Reply([BODY])
    async with FakeProvider(whole, whole) as provider:
        model = model_at(provider.url)
        assert await ask(model) == "Hello"
        for task in list(provider._tasks):
            task.cancel()
        await asyncio.gather(*provider._tasks, return_exceptions=True)
        assert await ask(model) == "Hello"
        assert provider.connections == 2


async def test_leaving_a_reply_in_the_middle_closes_its_connection() -> None:
    hanging = Reply([event(delta={"content": "Half"})], ending="hang")
    async with FakeProvider(hanging, Reply([BODY])) as provider:
        model = model_at(provider.url)
        stream = model.stream(REQUEST)  # type: ignore[attr-defined]
        assert await anext(stream) is not None
        await stream.aclose()
        async with asyncio.timeout(60):
            await provider.client_left.wait()
        assert await ask(model) == "Hello"
        assert provider.connections == 2


async def test_a_request_that_is_cancelled_leaves_nothing_open() -> None:
    async with crowd() as (provider, url):
        model = model_at(url)
        provider.expected = 2
        waiting = asyncio.ensure_future(ask(model))
        while not provider.at_once:
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        provider.all_here.set()
        assert await ask(model) == "Hello"
        assert provider.connections == 2


async def test_nobody_listening_is_an_error() -> None:
    async with crowd() as (_, url):
        pass
    with pytest.raises(ModelError):
        await ask(model_at(url))
