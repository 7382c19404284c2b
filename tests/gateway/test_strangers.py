"""Connections without a key: the API answers who has one, however many of them there are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.descriptors import Strangers
from gateway.config import Platform
from gateway.platforms.telegram.webhook import WebhookServer

from ..ports import free_port
from .serving import KEY, serving

SECONDS = 30.0
DESCRIPTORS = 128
HEAD = b"POST /v1/responses HTTP/1.1\r\nHost: x\r\n"


@contextlib.asynccontextmanager
async def gateway(home: Path) -> AsyncIterator[int]:
    """A gateway of its own process with few descriptors; yields the API's port."""
    port = free_port()
    home.mkdir()
    (home / "config.yaml").write_text(
        "model: {default: m, provider: custom, base_url: 'http://127.0.0.1:9/v1'}\n"
        f"platforms: {{api_server: {{enabled: true, port: {port}, key: {KEY}}}}}\n"
    )
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh"),
        *(sys.executable, "-m", "hermes_cli.main", "gateway", "run"),
        env={**os.environ, "HERMES_HOME": str(home)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                assert process.returncode is None
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.02)
        yield port
    finally:
        process.terminate()
        async with asyncio.timeout(SECONDS):
            await process.wait()


@contextlib.asynccontextmanager
async def strangers(
    port: int, count: int, saying: bytes = b""
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many connections that show no key."""
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        for _, writer in made:
            writer.write(saying)
        yield [reader for reader, _ in made]
    finally:
        for _, writer in made:
            writer.close()


async def models(port: int) -> int:
    """The status of a request with the key."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(trust_env=False, timeout=SECONDS) as client:
        answer = await client.get(f"http://127.0.0.1:{port}/v1/models", headers=headers)
    return answer.status_code


async def test_who_has_the_key_is_answered_while_strangers_hold_on(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as port:
        for saying in (b"", HEAD, HEAD + b"Content-Length: 9\r\n\r\n"):
            async with strangers(port, 2 * DESCRIPTORS, saying):
                for _ in range(3):
                    assert await models(port) == 200


async def test_a_stranger_is_answered_once_and_who_has_the_key_stays(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        adapter: Any = served.runner.adapters[Platform.API_SERVER]
        async with strangers(adapter.port, 1, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as [one]:
            async with asyncio.timeout(SECONDS):
                answer = await one.read()
            assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" in answer
        answers = [await served.http.get("/v1/models") for _ in range(2)]
        assert all("connection" not in answer.headers for answer in answers)
        streams = {answer.extensions["network_stream"] for answer in answers}
        assert len(streams) == 1


async def test_the_oldest_stranger_is_dropped_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.platforms.acceptor.MOST_STRANGERS", 8)
    async with serving(tmp_path) as served, asyncio.timeout(SECONDS):
        adapter: Any = served.runner.adapters[Platform.API_SERVER]
        assert (await served.http.get("/v1/models")).status_code == 200
        async with strangers(adapter.port, 1) as [first], strangers(adapter.port, 8) as others:
            assert await first.read() == b""
            assert not others[-1].at_eof()
        answer = await served.http.get("/v1/models")  # over the connection from before
        assert answer.status_code == 200


async def test_a_stranger_has_a_few_seconds_for_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.platforms.http_server.HEAD_SECONDS", 0.1)
    async with serving(tmp_path) as served, asyncio.timeout(SECONDS):
        adapter: Any = served.runner.adapters[Platform.API_SERVER]
        async with strangers(adapter.port, 1, HEAD) as [one]:
            assert await one.read() == b""


async def test_many_who_come_at_once_and_show_the_key_late_are_all_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.platforms.acceptor.MOST_STRANGERS", 8)
    monkeypatch.setattr("agent.descriptors.GRACE_SECONDS", SECONDS)
    request = f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n"
    async with serving(tmp_path) as served, asyncio.timeout(SECONDS):
        adapter: Any = served.runner.adapters[Platform.API_SERVER]
        async with strangers(adapter.port, 40, request.encode()) as readers:
            for reader in readers:
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")


def test_who_was_dropped_counts_until_it_ended() -> None:
    dropped: list[str] = []
    strangers = Strangers(4)
    for name in "abcd":
        assert strangers.make_room()
        strangers.add(name, lambda name=name: dropped.append(name))  # type: ignore[misc]
    assert not strangers.make_room() and dropped == ["a", "b"]
    assert not strangers.make_room() and dropped == ["a", "b"]
    strangers.discard("a")
    assert strangers.make_room() and dropped == ["a", "b"]


def test_nobody_is_dropped_who_has_only_just_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("agent.descriptors.time.monotonic", lambda: now)
    dropped: list[str] = []
    strangers = Strangers(4, grace=0.5)
    for name in "abcd":
        now += 0.2
        strangers.add(name, lambda name=name: dropped.append(name))  # type: ignore[misc]
    assert not strangers.make_room() and dropped == ["a"]
    now += 10.0
    assert not strangers.make_room() and dropped == ["a", "b"]
    now -= 10.0
    strangers.drop()  # where descriptors have run out, it cannot wait
    assert dropped == ["a", "b"]


async def test_who_calls_for_telegram_without_the_secret_is_answered_once() -> None:
    updates: list[Any] = []

    async def accept(update: Any) -> None:
        updates.append(update)

    server = WebhookServer("/hook", "secret", accept)
    port = await server.start("127.0.0.1", 0)
    request = (
        "POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
        "X-Telegram-Bot-Api-Secret-Token: {}\r\n\r\n{{}}"
    )
    try:
        async with asyncio.timeout(SECONDS):
            async with strangers(port, 1, 2 * request.format("wrong").encode()) as [stranger]:
                answer = await stranger.read()
                assert answer.count(b"HTTP/1.1 401") == 1 and updates == []
            async with strangers(port, 1, 2 * request.format("secret").encode()) as [telegram]:
                for _ in range(2):
                    assert b"200" in await telegram.readuntil(b"}")
                assert updates == [{}, {}]
    finally:
        await server.stop()
