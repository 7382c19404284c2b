"""One conversation from every door at once: the terminal, Telegram and an API client, live in each.

A real session server in a process of its own, a gateway with a scripted Telegram and its API, one
store, one person.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_provider import ScriptedProvider, say, script
from serving import configure, stdio_client, turn_ends

from agent.config import load_config
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.api.adapter import ApiServerAdapter
from gateway.run import GatewayRunner
from hermes_state import OPERATOR, AsyncSessionDB, SessionDB
from tests.gateway.bot_api import TOKEN, BotApi
from tests.gateway.serving import KEY, OTHER_KEY

ME, OTHER = 42, 77


@asynccontextmanager
async def doors(home: Path, bot: BotApi) -> AsyncIterator[tuple[SessionDB, str]]:
    """A gateway with Telegram and an API; the store, and where the API is."""
    keys = {"port": 0, "keys": {"alice": KEY, "bob": OTHER_KEY}}
    config = GatewayConfig(
        platforms={
            Platform.TELEGRAM: PlatformConfig(
                enabled=True, token=TOKEN, allow_all=True, extra={"base_url": bot.url}
            ),
            Platform.API_SERVER: PlatformConfig(enabled=True, extra=keys),
        },
        drain_timeout=5.0,
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    await runner.start()
    try:
        adapter = runner.adapters[Platform.API_SERVER]
        assert isinstance(adapter, ApiServerAdapter)
        yield db.sync, f"http://127.0.0.1:{adapter.port}"
    finally:
        await runner.stop()
        await db.close()


def client(url: str, key: str = KEY) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(
        base_url=url, timeout=60, trust_env=False, verify=False, headers=headers
    )


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.long
async def test_a_conversation_goes_on_at_every_door_and_is_live_in_each(tmp_path: Path) -> None:
    async with ScriptedProvider() as provider, BotApi() as bot:
        home = configure(tmp_path / "home", provider)
        async with (
            doors(home, bot) as (db, url),
            client(url) as api,
            client(url, OTHER_KEY) as stranger,
            stdio_client(home) as terminal,
        ):
            for door in (f"telegram:{ME}", "api_server:alice"):
                db.merge_persons(db.ensure_person(door).id, OPERATOR)
            # Begun in the terminal,
            sid = (await terminal.create())["session_id"]
            await terminal.submit(sid, script("t", say("of the terminal")))
            await turn_ends(terminal, sid)
            key = (await terminal.activate(sid))["stored_session_id"]
            # gone on with in Telegram,
            await bot.say(f"/resume {key}", chat_id=ME)
            assert "Going on with" in (await bot.wait_for(1, ME))[-1]
            await bot.say("/follow on", chat_id=ME)
            assert "is shown here" in (await bot.wait_for(2, ME))[-1]
            # and with the API: while its turn runs, the others see what is asked and said.
            asked = asyncio.ensure_future(
                api.post(
                    f"/api/sessions/{key}/chat",
                    json={
                        "message": script("a", say("of the api, all of it", pieces=4, gate="half"))
                    },
                )
            )
            await provider.reached("half")
            shown = await bot.wait_for(3, ME)
            assert shown[-1].startswith("💬 ") and '"name": "a"' in shown[-1]
            async with asyncio.timeout(60):
                while "of the" not in _said(opened := await terminal.activate(sid)):
                    await asyncio.sleep(0.02)
            assert opened["status"] == "elsewhere"
            provider.open_gate("half")
            answer = await asked
            assert answer.json()["message"]["content"] == "of the api, all of it"
            assert (await bot.wait_for(4, ME))[-1] == "🤖 of the api, all of it"
            # Each question is answered where it was asked, and only there.
            await bot.say(script("b", say("of telegram")), chat_id=ME)
            assert (await bot.wait_for(5, ME))[-1] == "of telegram"
            await terminal.submit(sid, script("d", say("of the terminal again")))
            await until(lambda: "🤖 of the terminal again" in bot.texts(ME))
            texts = [
                row["content"]
                for row in (await api.get(f"/api/sessions/{key}/messages")).json()["data"]
                if row["role"] == "assistant"
            ]
            assert texts == [
                "of the terminal", "of the api, all of it", "of telegram", "of the terminal again",
            ]  # fmt: skip
            await until_shown(terminal, sid, texts)
            assert [text for text in bot.texts(ME) if "of telegram" in text] == ["of telegram"]
            # Nobody else has seen any of it, nor gets in.
            await bot.say(f"/resume {key}", chat_id=OTHER, user_id=OTHER)
            assert "You have no conversation" in (await bot.wait_for(1, OTHER))[-1]
            assert (await stranger.get(f"/api/sessions/{key}/messages")).status_code == 404
            assert len(bot.texts(OTHER)) == 1
            # Who does not want to see it is not shown it, and is in the conversation all the same.
            await bot.say("/follow off", chat_id=ME)
            await until(lambda: "is not shown here" in bot.texts(ME)[-1])
            await api.post(
                f"/api/sessions/{key}/chat", json={"message": script("e", say("unseen"))}
            )
            await bot.say(script("f", say("the end")), chat_id=ME)
            await until(lambda: bot.texts(ME)[-1] == "the end")
            assert not [text for text in bot.texts(ME) if "unseen" in text]


async def until_shown(terminal: Any, sid: str, texts: list[str]) -> None:
    """Wait until the terminal shows what was answered, wherever that was."""
    async with asyncio.timeout(60):
        while True:
            opened = await terminal.activate(sid)
            said = [
                message["content"]
                for message in opened["messages"]
                if message["role"] == "assistant"
            ]
            if said == texts:
                return
            await asyncio.sleep(0.02)


def _said(opened: dict[str, Any]) -> str:
    """What a window shows of the answer that is being given."""
    return str((opened["inflight"] or {}).get("assistant") or "")
