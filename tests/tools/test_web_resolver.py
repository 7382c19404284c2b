"""Names are looked up by the system, beside everything else."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from tools.web.address import system_resolver


async def test_a_name_is_found() -> None:
    assert {"127.0.0.1", "::1"} & set(await system_resolver("localhost", 80))


async def test_a_name_that_cannot_be_one_is_an_error() -> None:
    with pytest.raises((OSError, UnicodeError)):
        await system_resolver("a" * 70 + ".test", 80)


async def test_a_name_server_that_is_silent_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    asked, answered = threading.Event(), threading.Event()

    def silent(*_: object, **__: object) -> list[object]:
        asked.set()
        answered.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    waiting = asyncio.create_task(system_resolver("example.test", 80))
    while not asked.is_set():
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    answered.set()
