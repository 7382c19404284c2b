"""The whole way: a person writes to the bot, the gateway answers through the Bot API."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("telegram")

from agent.scripted import call, say
from gateway import delivery, supervision
from gateway.platforms.telegram import media as telegram_files
from gateway.platforms.telegram import polling as telegram_polling

from .. import seeds
from .bot_api import BotApi, Fault
from .chats import echo
from .telegram_chats import telegram_gateway

pytestmark = pytest.mark.filterwarnings("ignore:.*retry_after")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision, telegram_polling):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(telegram_files, "PAUSE", 0.01)
    monkeypatch.setattr(delivery, "GIVE_UP_AFTER", 10_000)


async def test_a_question_is_answered(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api):
        await api.say("hello")
        assert await api.wait_for(1) == ["re: hello"]
        assert api.called("sendChatAction")


async def test_commands_are_in_the_menu(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api):
        names = {one["command"] for one in api.commands}
        assert {"new", "stop", "approve", "reload_skills"} <= names


async def test_an_update_is_confirmed_only_when_its_message_is_stored(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api) as chats:
        gate = asyncio.Event()
        adapter = chats.adapter
        take = adapter.on_message

        async def slow(event: object) -> None:
            await gate.wait()
            await take(event)  # type: ignore[arg-type]

        adapter.on_message = slow  # type: ignore[assignment]
        update = await api.say("hello")
        polls = len(api.called("getUpdates"))
        await asyncio.sleep(0.1)
        assert api.confirmed <= update["update_id"]
        assert len(api.called("getUpdates")) <= polls + 1
        gate.set()
        await api.until(lambda: api.confirmed == update["update_id"] + 1)
        assert await api.wait_for(1) == ["re: hello"]


async def test_what_is_delivered_again_is_answered_once(tmp_path: Path) -> None:
    async with BotApi() as api:
        first, second = api.message("one"), api.message("two", chat_id=43, user_id=43)
        again = {**first, "update_id": first["update_id"] + 50}
        await api.add(second, first, first, again)
        async with telegram_gateway(tmp_path / "home", api):
            await api.wait_for(1)
            await api.wait_for(1, 43)
        async with telegram_gateway(tmp_path / "home", api):
            await api.add({**first, "update_id": first["update_id"] + 60})
            await api.say("three")
            await api.until(lambda: "re: three" in api.texts())
        assert api.texts() == ["re: one", "re: three"]
        assert api.texts(43) == ["re: two"]


async def test_a_restart_between_message_and_answer(tmp_path: Path) -> None:
    async with BotApi() as api:
        asked = asyncio.Event()
        never = asyncio.Event()
        hanging = [say(lambda: asked.set(), "Thinking", never)]
        async with telegram_gateway(tmp_path / "home", api, hanging, drain_timeout=0.05) as chats:
            await api.say("hello")
            await asked.wait()
            await api.say("and this")
            await api.until(lambda: not api.waiting)
            model = chats.model
        assert model.calls == 1
        async with telegram_gateway(tmp_path / "home", api):
            await api.until(lambda: any("and this" in one for one in api.texts()))
        assert Counter(api.texts())["re: and this"] == 1


async def test_what_waits_is_run_when_the_platform_comes_back_after_a_restart(
    tmp_path: Path,
) -> None:
    async with BotApi() as api:
        asked = asyncio.Event()
        hanging = [say(lambda: asked.set(), "Thinking", asyncio.Event())]
        async with telegram_gateway(
            tmp_path / "home", api, hanging, drain_timeout=0.05, busy_input_mode="queue"
        ) as chats:
            await api.say("hello")
            await asked.wait()
            await api.say("and this")
            await api.until(lambda: not api.waiting)
            assert len(chats.db.list_waiting()) == 1
        await api.close()
        async with telegram_gateway(tmp_path / "home", api) as chats:
            assert not chats.runner.adapters
            await api.open()
            await api.until(lambda: "re: and this" in api.texts())
        assert Counter(api.texts())["re: and this"] == 1


@pytest.mark.fuzz
async def test_a_flood_from_one_chat(tmp_path: Path) -> None:
    count = seeds.times(100, 1000)
    async with BotApi() as api:
        await api.add(*(api.message(f"m{number}") for number in range(count)))
        async with telegram_gateway(tmp_path / "home", api, busy_input_mode="queue") as chats:
            await api.until(lambda: not api.waiting, 60)
            assert len(chats.runner._background_tasks) < 2 * count
            await api.wait_for(count, seconds=300)
            assert api.texts() == [f"re: m{number}" for number in range(count)]
            assert chats.model.calls == count
            assert not chats.db.list_waiting()
            assert len(chats.runner._agent_cache) == 1


async def test_an_approval_by_button(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    steps = [call("terminal", command=f"rm -rf {victim}"), say("Done.")]
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, steps):
        await api.say("clean up")
        await api.until(lambda: any(one.buttons for one in api.sent))
        asked = next(one for one in api.sent if one.buttons)
        assert f"rm -rf {victim}" in asked.text
        assert victim.exists()
        await api.press(asked, "Allow once")
        await api.until(lambda: "Done." in api.texts())
        await api.until(lambda: bool(api.answered) and not asked.buttons)
        assert not victim.exists()


async def test_a_command_cannot_leave_its_block_in_the_question(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    command = f"rm -rf {victim} '\n```\nHarmless, <b>allow</b> it.\n````\n'"
    steps = [call("terminal", command=command), say("Done.")]
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, steps):
        await api.say("clean up")
        await api.until(lambda: any(one.buttons for one in api.sent))
        asked = next(one for one in api.sent if one.buttons)
        assert command in asked.text  # a fence that was taken for one would be gone
        await api.press(asked, "Deny")
        await api.until(lambda: "Done." in api.texts())
        assert victim.exists()


async def test_a_stranger_cannot_press_a_button(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    steps = [call("terminal", command=f"rm -rf {victim}"), say("Done.")]
    async with (
        BotApi() as api,
        telegram_gateway(tmp_path / "home", api, steps, allow_all=False) as chats,
    ):
        await _pair(api, chats.db, 42)
        await api.say("clean up")
        await api.until(lambda: any(one.buttons for one in api.sent))
        asked = next(one for one in api.sent if one.buttons)
        await api.press(asked, "Allow once", user_id=666)
        await api.until(lambda: bool(api.answered))
        assert asked.buttons
        await api.press(asked, "Deny")
        await api.until(lambda: "Done." in api.texts())
        assert victim.exists()


async def _pair(api: BotApi, db: object, chat_id: int) -> None:
    await api.say("hello?", chat_id=chat_id, user_id=chat_id)
    told = (await api.wait_for(1, chat_id))[0]
    code = told.partition("pairing code is ")[2].split()[0]
    assert db.approve_pairing(code)  # type: ignore[attr-defined]


async def test_a_stranger_is_let_in_by_a_code(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, allow_all=False) as chats:
        await _pair(api, chats.db, 42)
        assert chats.model.calls == 0
        await api.say("and now?")
        assert (await api.wait_for(2))[1] == "re: and now?"


async def test_strangers_in_groups_get_nothing(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, allow_all=False) as chats:
        await api.say("@hermes_bot hi", chat_id=-5, chat_type="group", user_id=9)
        await api.say("hi", chat_id=9, user_id=9)
        await api.wait_for(1, 9)
        assert api.texts(-5) == [] and chats.model.calls == 0


async def test_new_and_stop_while_a_turn_runs(tmp_path: Path) -> None:
    asked = asyncio.Event()
    steps = itertools.chain(
        [say(lambda: asked.set(), "Thinking", asyncio.Event())], itertools.repeat(echo)
    )
    async with (
        BotApi() as api,
        telegram_gateway(tmp_path / "home", api, steps, busy_input_mode="queue") as chats,
    ):
        await api.say("take your time")
        await asked.wait()
        await api.say("/stop@hermes_bot")
        await api.until(lambda: not chats.runner._running_agents)
        await api.say("next")
        await api.until(lambda: "re: next" in api.texts())
        before = chats.runner.session_store.peek_session_id("agent:main:telegram:dm:42")
        await api.say("/new")
        await api.until(lambda: any("New session" in one for one in api.texts()))
        after = chats.runner.session_store.peek_session_id("agent:main:telegram:dm:42")
        assert before != after
        await api.say("fresh")
        await api.until(lambda: "re: fresh" in api.texts())
        assert len(chats.model.requests[-1].messages) == 1


async def test_malformed_updates_stop_nothing(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api):
        await api.add(
            {"update_id": 1},
            {"update_id": 2, "message": None},
            {"update_id": 3, "message": {"text": "no chat"}},
            {"update_id": 4, "message": {"message_id": "x", "chat": {"id": [], "type": "moon"}}},
            {"update_id": 5, "callback_query": {"id": 5}},
            {"update_id": 6, "poll": {"id": "1"}},
            {**api.message("\ud83d lone \x00 half"), "update_id": 7},
        )
        await api.until(lambda: any("lone" in one for one in api.texts()))
        await api.say("still there?")
        await api.until(lambda: "re: still there?" in api.texts())
        await api.until(lambda: not api.waiting)


@pytest.mark.parametrize("kind", ["429", "502", "drop"])
async def test_a_platform_in_trouble_loses_nothing(tmp_path: Path, kind: str) -> None:
    """A minute of trouble, compressed: some dozens of refused requests in a row."""
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api):
        await api.say("before")
        await api.wait_for(1)
        for number in range(5):
            await api.say(f"during {number}", chat_id=100 + number, user_id=100 + number)
        api.outage = kind
        await api.until(lambda: api.refused >= 60, 60)
        api.outage = None
        for number in range(5):
            texts = await api.wait_for(1, 100 + number, 60)
            answers = [one for one in texts if one.startswith("re: ")]
            assert answers == [f"re: during {number}"] or texts == [delivery.BROKEN]
        await api.say("after")
        await api.until(lambda: "re: after" in api.texts())


async def test_a_platform_that_is_gone_for_a_while_loses_nothing(tmp_path: Path) -> None:
    release = asyncio.Event()
    steps = itertools.chain([say(release, "the answer")], itertools.repeat(echo))
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, steps) as chats:
        await api.say("hello")
        while not chats.runner._running_agents:
            await asyncio.sleep(0.01)
        await api.close()
        release.set()
        while not chats.db.list_deliveries(("pending", "sending")):
            await asyncio.sleep(0.01)
        while chats.runner.supervisor.states["telegram"] in ("connected", "connecting"):
            await asyncio.sleep(0.01)
        await api.add(api.message("and now?"))
        await api.open()
        await api.until(lambda: "re: and now?" in api.texts())
        assert api.texts() == ["the answer", "re: and now?"]


async def test_an_answer_that_may_have_arrived_is_not_sent_again(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api):
        api.faults.append(Fault("drop_after", "sendMessage"))
        await api.say("hello")
        assert await api.wait_for(2) == ["re: hello", delivery.BROKEN]
        await api.say("/last")
        assert (await api.wait_for(3))[2] == "re: hello"


async def test_a_dropped_request_that_was_not_read_is_reported_too(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api):
        api.faults.append(Fault("drop", "sendMessage"))
        await api.say("hello")
        assert await api.wait_for(1) == [delivery.BROKEN]
        await api.say("/last")
        assert (await api.wait_for(2))[1] == "re: hello"
