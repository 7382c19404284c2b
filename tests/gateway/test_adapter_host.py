"""Adapters know their host, not the gateway's centre."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.config import Platform, PlatformConfig
from gateway.platforms.base import MessageEvent
from gateway.platforms.host import AdapterHost, AdapterLimits, StandaloneHost
from gateway.platforms.local.adapter import LocalAdapter
from gateway.session import SessionSource

from .chats import gateway

SOURCE = Path(__file__).parents[2] / "src"


def imported_by(path: Path) -> set[str]:
    """The modules that a file imports anywhere, for types only or late as well."""
    package = path.relative_to(SOURCE).with_suffix("").parts[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value.partition(":")[0])  # what is imported by its name
    return names


def test_no_platform_imports_the_runner() -> None:
    files = list((SOURCE / "gateway" / "platforms").rglob("*.py"))
    assert len(files) > 30
    for path in files:
        assert "gateway.run" not in imported_by(path), path


async def test_messages_reach_a_function_without_a_gateway(tmp_path: Path) -> None:
    events: list[MessageEvent] = []

    async def take(event: MessageEvent) -> None:
        events.append(event)

    adapter = LocalAdapter(PlatformConfig(allowed_users=("ada",)), take)
    await adapter.receive("hello")
    assert [event.text for event in events] == ["hello"]
    host: AdapterHost = adapter.host
    assert await host.is_allowed(SessionSource(Platform.LOCAL, user_id="ada"))
    assert not await host.is_allowed(SessionSource(Platform.LOCAL, user_id="eve"))
    assert not host.limits.gives_pairing_codes
    with pytest.raises(RuntimeError, match="no gateway"):
        await host.deliver(SessionSource(Platform.LOCAL, "1"), "hi", "key")
    with pytest.raises(RuntimeError, match="no gateway"):
        _ = host.requests


async def test_a_host_without_a_gateway_keeps_files(tmp_path: Path) -> None:
    async def take(event: MessageEvent) -> None:
        raise AssertionError

    async def data() -> AsyncIterator[bytes]:
        yield b"abc"

    host = StandaloneHost(PlatformConfig(), take, tmp_path, AdapterLimits(media_bytes=3))
    path = await host.keep_file("1", "../a.txt", data())
    assert path.read_bytes() == b"abc"
    assert path.is_relative_to(tmp_path)


async def test_a_text_for_another_chat_is_delivered_once(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        host = chats.runner.host_for(Platform.WEBHOOK)
        assert host.serves(Platform.LOCAL) and not host.serves(Platform.TELEGRAM)
        to = SessionSource(Platform.LOCAL, "7")
        for _ in range(2):
            await host.deliver(to, "news", "webhook:1")
        assert await chats.local.wait_for(1, chat_id="7") == ["news"]
        await chats.ask("hello", chat_id="7")
        assert chats.local.texts("7").count("news") == 1


async def test_what_fails_beside_the_adapter_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("a broken flag")

    async with gateway(tmp_path) as chats:
        with pytest.raises(ValueError, match="flag"):
            await chats.runner.host_for(Platform.LOCAL).spawn(fail())
        assert "A task of the gateway failed" in caplog.text
