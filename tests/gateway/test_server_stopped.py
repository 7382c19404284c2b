"""A server of the store that says nothing for a while: turns that need it wait, and nothing else.

That the store is not called on the event loop is held by `server_store.watch_loops`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from .. import postgres, seeds, server_store
from .chats import gateway
from .serving import serving

SECONDS = seeds.times(2, 10)
"""How long the server is stopped."""
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
