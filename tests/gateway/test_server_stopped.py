"""A server of the store that says nothing for a while: turns that need it wait, and nothing else.

That the store is not called on the event loop is held by `server_store.watch_loops`.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import signal
import sys
from pathlib import Path

import pytest

from agent.config import load_config
from agent.scripted import ScriptedModel
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.process import exempt_loaded
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .. import postgres, seeds, server_store
from .chats import CONFIG, echo, gateway
from .serving import serving

SECONDS = seeds.times(2, 8)
"""How long the server is stopped: less than after which a gateway gives its platforms up."""
CHATS = [str(number) for number in range(5)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_turns_wait_for_the_server_and_the_loop_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        postgres.own_server() as server,
        postgres.stores_of(server),
        server_store.stores_on_server(monkeypatch),
    ):
        async with gateway(tmp_path / "chats") as chats, serving(tmp_path / "api") as served:
            for chat in CHATS:
                assert await chats.ask("before", chat_id=chat) == "re: before"
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.001)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            server.signal_all(signal.SIGSTOP)
            try:
                asked = [asyncio.create_task(chats.ask("during", chat_id=chat)) for chat in CHATS]
                answer = asyncio.create_task(served.chat("during", "s1"))
                await asyncio.sleep(SECONDS)
                assert not any(task.done() for task in (*asked, answer))
            finally:
                server.signal_all(signal.SIGCONT)
            assert ticks > 100 * SECONDS, "the loop went on"
            assert await asyncio.gather(*asked) == ["re: during"] * len(CHATS)
            assert (await answer).status_code == 200
            assert await chats.ask("after") == "re: after"
            ticking.cancel()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("moment", ["start", "stop"])
async def test_nothing_calls_the_store_on_the_loop_while_a_gateway_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Opening, starting, stopping and closing it with a server that says nothing for a moment."""
    with (
        postgres.own_server() as server,
        postgres.stores_of(server),
        server_store.stores_on_server(monkeypatch),
    ):
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        async def stop_for_a_moment() -> int:
            server.signal_all(signal.SIGSTOP)
            try:
                before = ticks
                await asyncio.sleep(1)
                return ticks - before
            finally:
                server.signal_all(signal.SIGCONT)

        ticking = asyncio.create_task(tick())
        db = AsyncSessionDB(await asyncio.to_thread(SessionDB, tmp_path / "state.db"))
        config = GatewayConfig(
            platforms={Platform.LOCAL: PlatformConfig(enabled=True, allow_all=True)},
            drain_timeout=5.0,
        )
        (tmp_path / "config.yaml").write_text(CONFIG)
        runner = GatewayRunner(config, load_config(tmp_path, {}), db, tmp_path)
        runner._model = ScriptedModel(itertools.repeat(echo))
        stopping = asyncio.create_task(stop_for_a_moment()) if moment == "start" else None
        await asyncio.sleep(0)
        await runner.start()
        stopping = stopping or asyncio.create_task(stop_for_a_moment())
        await asyncio.sleep(0)
        await runner.stop()
        await db.close()
        assert await stopping > 100, "the loop went on"
        ticking.cancel()


async def test_what_is_loaded_is_kept_out_of_collections() -> None:
    """Walking all modules for garbage holds the loop for longer than any of our calls."""
    worked = asyncio.Event()
    before = gc.get_freeze_count()
    try:
        exempting = asyncio.create_task(exempt_loaded(worked.is_set, 0.001))
        await asyncio.sleep(0.01)
        after = gc.get_freeze_count()
        assert after > before and not exempting.done()
        kept = [[object()] for _ in range(5000)]
        worked.set()
        await exempting
        assert gc.get_freeze_count() > after + len(kept) - 100
    finally:
        gc.unfreeze()
