"""The messages of a chat take their way in the order they came, however they are handed in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway import commands
from gateway.pipeline import Inbound, Pipeline
from hermes_state import StoreError

from .chats import Chats, gateway

ALL = [str(number) for number in range(12)]


def questions(chats: Chats, chat_id: str = "1") -> list[str]:
    """What a chat's session was asked, in order."""
    messages = chats.db.get_messages(chats.session_id(chat_id))
    return [one["content"] for one in messages if one["role"] == "user"]


async def at_once(chats: Chats, texts: list[str]) -> None:
    """Hand in messages of one chat as a platform does that has a task for each."""
    await asyncio.gather(*(chats.say(text) for text in texts))


async def test_many_at_once_are_stored_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Pipeline._store_once
    reached = 0

    async def slower_for_the_first(self: Pipeline, inbound: Inbound) -> bool:
        nonlocal reached
        reached += 1
        for _ in range(len(ALL) - reached):
            await asyncio.sleep(0)
        return await stored(self, inbound)

    monkeypatch.setattr(Pipeline, "_store_once", slower_for_the_first)
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        await at_once(chats, ALL)
        assert await chats.local.wait_for(len(ALL)) == [f"re: {one}" for one in ALL]
        assert questions(chats) == ALL


async def test_nobody_overtakes_one_that_is_being_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    authorised = Pipeline._authorise

    async def slowly(self: Pipeline, inbound: Inbound) -> bool:
        if inbound.event.text == "0":
            await gate.wait()
        return await authorised(self, inbound)

    monkeypatch.setattr(Pipeline, "_authorise", slowly)
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        await at_once(chats, ALL)
        assert await chats.ask("hello", chat_id="2") == "re: hello", "other chats do not wait"
        assert chats.local.texts("1") == []
        gate.set()
        assert await chats.local.wait_for(len(ALL)) == [f"re: {one}" for one in ALL]


async def test_one_that_fails_lets_the_next_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorised = Pipeline._authorise

    async def not_the_first(self: Pipeline, inbound: Inbound) -> bool:
        if inbound.event.text == "0":
            raise RuntimeError("no list of people")
        return await authorised(self, inbound)

    monkeypatch.setattr(Pipeline, "_authorise", not_the_first)
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        await at_once(chats, ["0", "1"])
        assert sorted(await chats.local.wait_for(2)) == [
            "re: 1",
            "⚠️ That failed: no list of people",
        ]
        assert chats.db.list_waiting() == []


async def test_one_that_cannot_be_stored_lets_the_next_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Pipeline._store_once

    async def not_the_first(self: Pipeline, inbound: Inbound) -> bool:
        if inbound.event.text == "0":
            raise StoreError("no room")
        return await stored(self, inbound)

    monkeypatch.setattr(Pipeline, "_store_once", not_the_first)
    async with gateway(tmp_path) as chats:
        refused, taken = await asyncio.gather(
            chats.say("0"), chats.say("1"), return_exceptions=True
        )
        assert isinstance(refused, StoreError) and taken is None
        assert await chats.local.wait_for(1) == ["re: 1"]


async def test_a_question_behind_new_is_in_the_new_conversation(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("before")
        old = chats.session_id()
        await at_once(chats, ["/new", "after"])
        assert "re: after" in await chats.local.wait_for(3)
        assert chats.session_id() != old
        assert questions(chats) == ["after"]


async def test_a_command_that_takes_long_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    told = commands._last_answer

    async def slowly(*facts: Any) -> str:
        await gate.wait()
        return await told(*facts)

    monkeypatch.setattr(commands, "_last_answer", slowly)
    monkeypatch.setattr("gateway.pipeline.COMMAND_SECONDS", 0.01)
    async with gateway(tmp_path) as chats:
        assert await chats.ask("one") == "re: one"
        await at_once(chats, ["/last", "two"])
        assert await chats.local.wait_for(2) == ["re: one", "re: two"]
        gate.set()
        assert await chats.local.wait_for(3) == ["re: one", "re: two", "re: two"]


async def test_nothing_is_kept_of_chats_where_nobody_waits(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        for chat_id in ("1", "2"):
            await chats.ask("hello", chat_id=chat_id)
        pipeline = chats.runner.pipeline
        assert pipeline._stored._places == {} and pipeline._taken._places == {}
