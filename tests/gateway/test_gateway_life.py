"""Sessions of chats: begun, reset, expired, restarted, compressed, and nobody else's."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agent.config import load_config
from agent.scripted import ScriptedModel, call, say
from gateway.config import Platform, ResetPolicy
from gateway.config_load import load_gateway_config
from gateway.delivery import UNSURE
from gateway.platforms.base import MessageEvent
from gateway.platforms.local.adapter import LocalAdapter
from gateway.run import GatewayRunner
from gateway.session import SessionSource
from hermes_state import AsyncSessionDB, SessionDB

from .chats import CONFIG, Chats, echo, gateway


@pytest.fixture
def hooks() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Every hook that is fired, in order."""
    fired: list[tuple[str, dict[str, Any]]] = []

    def invoke(name: str, **facts: Any) -> list[Any]:
        fired.append((name, facts))
        return []

    with patch("hermes_base.plugins.invoke_hook", invoke):
        yield fired


def boundaries(fired: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    names = ("on_session_finalize", "on_session_reset")
    return [(name, facts["session_id"]) for name, facts in fired if name in names]


async def test_a_message_on_its_way_when_the_gateway_stops_waits_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        pipeline = chats.runner.pipeline
        passes, goes_on = asyncio.Event(), asyncio.Event()
        authorised = pipeline._authorise

        async def slowly(inbound: Any) -> bool:
            passes.set()
            await goes_on.wait()
            return await authorised(inbound)

        monkeypatch.setattr(pipeline, "_authorise", slowly)
        await chats.local.receive("hello")
        await passes.wait()
        stop_receiving = chats.runner.supervisor.stop_receiving

        async def then_it_goes_on() -> None:
            await stop_receiving()
            goes_on.set()

        monkeypatch.setattr(chats.runner.supervisor, "stop_receiving", then_it_goes_on)
        await chats.runner.stop()
        assert chats.model.requests == []
    async with gateway(tmp_path) as chats:
        assert await chats.local.wait_for(1) == ["re: hello"]


async def test_a_turn_that_begins_while_the_gateway_stops_has_its_time_too(
    tmp_path: Path,
) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    steps = [say("one: ", first, "done"), say("two: ", second, "done")]
    async with gateway(tmp_path, steps, drain_timeout=30.0) as chats:
        conversations = chats.runner.conversations
        await _asked(chats, "1", 1)
        draining = asyncio.ensure_future(conversations.drain(30.0))
        await asyncio.sleep(0)  # it has looked who runs
        await _asked(chats, "2", 2)
        first.set()
        await chats.local.wait_for(1, chat_id="1")
        second.set()
        assert await draining == []
        assert chats.local.texts("1") + chats.local.texts("2") == ["one: done", "two: done"]


async def _asked(chats: Chats, chat_id: str, count: int) -> None:
    """A message comes to a chat, and the model is asked for the `count`-th time."""
    await chats.local.receive("hello", chat_id=chat_id)
    async with asyncio.timeout(30):
        while len(chats.model.requests) < count:
            await asyncio.sleep(0.01)


async def test_new_begins_anew_and_tells_it_once_in_order(tmp_path: Path, hooks: Any) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        old = chats.session_id()
        assert "New session" in await chats.ask("/new")
        new = chats.session_id()
        assert boundaries(hooks) == [("on_session_finalize", old), ("on_session_reset", new)]
        await chats.ask("two")
        assert chats.session_id() == new != old
        row = chats.db.get_session(old)
        assert row is not None and row["end_reason"] == "session_reset"
        assert len(chats.model.requests[-1].messages) == 1, "nothing of the old one is sent"


async def test_a_hook_that_hangs_or_fails_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.boundaries.HOOK_SECONDS", 0.05)
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(name: str, **facts: Any) -> list[Any]:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(5)
        raise RuntimeError("broken")

    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        with patch("hermes_base.plugins.invoke_hook", hang):
            assert "New session" in await chats.ask("/new")
            release.set()
        assert await chats.ask("two") == "re: two"


async def test_a_chat_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        before = chats.session_id()
    async with gateway(tmp_path) as chats:
        assert await chats.ask("two") == "re: two"
        assert chats.session_id() == before
        assert [m["content"] for m in chats.model.requests[0].messages] == ["one", "re: one", "two"]


async def test_what_was_accepted_and_not_begun_is_answered_after_a_restart(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        key, session_id = chats.key(), chats.session_id()
        source = SessionSource(Platform.LOCAL, "1", user_id="u1").to_dict()
        chats.db.accept_message(
            "local:1:99", session_id, "left behind", source="local", session_key=key,
            user_id="local:u1", platform_message_id="99", facts={"source": source},
        )  # fmt: skip
    async with gateway(tmp_path) as chats:
        assert await chats.local.wait_for(1) == ["re: left behind"]
        await chats.say("left behind", message_id="99")
        assert await chats.ask("next") == "re: next"
        assert chats.local.texts() == ["re: left behind", "re: next"]


async def test_an_answer_that_was_stored_is_delivered_after_a_restart(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        to = {"session_key": chats.key(), "platform": "local", "chat_id": "1"}
    with SessionDB(tmp_path / "state.db") as db:
        db.add_delivery("owed", "the answer", **to)
        db.add_delivery("unsure", "perhaps sent", **to)
        db.begin_delivery("unsure")
    async with gateway(tmp_path) as chats:
        assert sorted(await chats.local.wait_for(2)) == sorted(["the answer", UNSURE])
    async with gateway(tmp_path) as chats:
        assert await chats.ask("more") == "re: more", "it is told once"


@pytest.mark.parametrize("streaming", [False, True])
async def test_what_may_have_been_sent_is_sent_again_where_that_shows_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streaming: bool
) -> None:
    monkeypatch.setattr(
        LocalAdapter, "capabilities", replace(LocalAdapter.capabilities, repeatable=True)
    )
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        to = {"session_key": chats.key(), "platform": "local", "chat_id": "1"}
    with SessionDB(tmp_path / "state.db") as db:
        db.add_delivery("unsure", "perhaps sent", **to)
        db.begin_delivery("unsure")
        db.add_delivery("elsewhere", "of no platform here", **{**to, "platform": "telegram"})
        db.begin_delivery("elsewhere")
    # A preview may have become the answer: then it has no key of its own.
    async with gateway(tmp_path, streaming={"enabled": streaming}) as chats:
        told = await chats.local.wait_for(1)
        assert told == [UNSURE if streaming else "perhaps sent"]
        while len(chats.db.list_deliveries(("sending", "pending"))) > 1:
            await asyncio.sleep(0.01)
        (left,) = chats.db.list_deliveries(("sending",))
        assert left["obligation_id"] == "elsewhere", "its platform settles it"


async def test_stop_lets_a_turn_finish(tmp_path: Path) -> None:
    begun = asyncio.Event()
    async with gateway(tmp_path, [say(begun.set, 0.1, "whole answer")]) as chats:
        local = chats.local
        await chats.say("one")
        await begun.wait()
        await chats.runner.stop()
        assert local.texts() == ["whole answer"]


async def test_stop_ends_a_turn_that_takes_too_long(tmp_path: Path, hooks: Any) -> None:
    begun = asyncio.Event()
    steps = [say("a part", begun.set, asyncio.Event())]
    async with gateway(tmp_path, steps, drain_timeout=0.05) as chats:
        await chats.say("one")
        await begun.wait()
        session_id = chats.session_id()
        db = chats.db
        await chats.runner.stop()
        assert [one["content"] for one in db.get_messages(session_id)] == ["one", "a part"]


async def test_a_session_that_nobody_uses_ends_once(tmp_path: Path, hooks: Any) -> None:
    policy = ResetPolicy("idle", idle_minutes=60)
    async with gateway(tmp_path, reset=policy) as chats:
        await chats.ask("one")
        old = chats.session_id()
        entry = chats.runner.session_store._entries[chats.key()]
        assert await chats.runner.expiry().end_expired() == 0
        entry.updated_at -= timedelta(hours=2)
        assert await chats.runner.expiry().end_expired() == 1
        assert await chats.runner.expiry().end_expired() == 0
        assert boundaries(hooks) == [("on_session_finalize", old)]
        assert entry.expiry_finalized
        assert chats.key() not in chats.runner._agent_cache
        assert "has ended" in (await chats.local.wait_for(2))[1]
        await chats.ask("two")
        assert chats.session_id() != old


async def test_the_chat_follows_a_compression_before_it_is_answered(tmp_path: Path) -> None:
    long = "word " * 400
    yaml = "compression: {threshold: 0.5, target_ratio: 0.2}\n"
    async with gateway(
        tmp_path, itertools.repeat(say(long)), context_length=6000, yaml=yaml
    ) as chats:
        first = None
        for number in range(12):
            await chats.ask(f"m{number} {long}")
            first = first or chats.session_id()
        last = chats.session_id()
        assert last != first, "it was compressed"
        assert chats.db.get_compression_tip(first) == last
        kept = chats.db.load_gateway_routing_entries()[chats.key()]
        assert json.loads(kept)["session_id"] == last
        row = chats.db.get_session(last)
        assert row is not None
        assert (row["user_id"], row["session_key"]) == ("local:u1", chats.key())


async def test_a_key_that_points_at_a_compressed_session_heals(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        old = chats.session_id()
        chats.db.rotate_session(old, "elsewhere", [{"role": "user", "content": "a summary"}])
        assert await chats.ask("two") == "re: two"
        assert chats.session_id() == "elsewhere"


async def test_a_stranger_gets_a_code_and_nothing_else(tmp_path: Path) -> None:
    async with gateway(tmp_path, allow_all=False) as chats:
        told = await chats.ask("let me in", user_id="stranger")
        code = told.split("pairing code is ")[1].split()[0]
        assert chats.model.calls == 0
        assert chats.db.session_count() == 0
        await chats.say("hello?", chat_id="g", user_id="stranger", chat_type="group")
        while chats.db.list_waiting():
            await asyncio.sleep(0.01)
        assert chats.db.approve_pairing(code) is not None
        assert await chats.ask("thanks", user_id="stranger") == "re: thanks"
        assert chats.local.texts("g") == []


async def test_nobody_sees_another_persons_conversations(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("my secret plan", chat_id="a", user_id="ann")
        mine = chats.session_id("a")
        await chats.ask("hello", chat_id="b", user_id="bob")
        for command in ("/sessions", f"/resume {mine}", "/search secret", "/resume 1"):
            told = await chats.ask(command, chat_id="b", user_id="bob")
            assert "secret" not in told.replace("/search secret", "").replace("'secret'", "")
        assert chats.session_id("b") != mine
        assert "secret plan" in await chats.ask("/sessions", chat_id="a", user_id="ann")


async def test_a_person_goes_back_to_an_earlier_conversation(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("the first talk")
        first = chats.session_id()
        await chats.ask("/new")
        await chats.ask("the second talk")
        await chats.ask(f"/resume {first}")
        assert chats.session_id() == first
        await chats.ask("and on")
        sent = [one["content"] for one in chats.model.requests[-1].messages]
        assert sent == ["the first talk", "re: the first talk", "and on"]


async def test_people_in_a_group_have_their_own_sessions(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        for person in ("ann", "bob"):
            await chats.ask("hi", chat_id="g", user_id=person, chat_type="group")
        keys = set(chats.runner.session_store._entries)
        assert keys == {"agent:main:local:group:g:ann", "agent:main:local:group:g:bob"}
    async with gateway(tmp_path / "shared", group_sessions_per_user=False) as chats:
        for person in ("ann", "bob"):
            await chats.ask("hi", chat_id="g", user_id=person, chat_type="group")
        assert set(chats.runner.session_store._entries) == {"agent:main:local:group:g"}


async def test_routing_of_an_older_version_is_taken_over(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        chats.db.create_session("old", "local", user_id="local:u1")
        chats.db.append_message("old", "user", "long ago")
        chats.db.append_message("old", "assistant", "yes")
        key = chats.key()
    (tmp_path / "sessions").mkdir()
    entry = {
        "session_id": "old", "created_at": "2026-01-01T00:00:00", "memory_flushed": False,
        "updated_at": "2026-01-01T00:00:00", "platform": "local", "chat_type": "dm",
    }  # fmt: skip
    kept = {"_README": "mine", key: entry, "bad": {"session_id": "../../etc"}}
    (tmp_path / "sessions" / "sessions.json").write_text(json.dumps(kept))
    async with gateway(tmp_path) as chats:
        await chats.ask("go on")
        assert chats.session_id() == "old"
        assert len(chats.model.requests[0].messages) == 3


async def test_agents_are_let_go_when_there_are_many(tmp_path: Path) -> None:
    async with gateway(tmp_path, cache_size=3) as chats:
        for number in range(8):
            await chats.ask("hi", chat_id=str(number))
        assert len(chats.runner._agent_cache) <= 4
        assert await chats.ask("again", chat_id="0") == "re: again"
        assert next(one["content"] for one in chats.model.requests[-1].messages) == "hi"


async def many_at_once(chats: Chats, count: int) -> None:
    await asyncio.gather(*(chats.ask(f"m{n}", chat_id=str(n)) for n in range(count)))


async def test_hundreds_of_chats_at_once(tmp_path: Path) -> None:
    steps = itertools.repeat(echo)
    async with gateway(tmp_path, steps) as chats:
        await many_at_once(chats, 200)
        for number in range(200):
            assert chats.local.texts(str(number)) == [f"re: m{number}"]


async def test_turns_at_once_are_limited_where_that_is_wanted(tmp_path: Path) -> None:
    running, most, full = 0, 0, asyncio.Event()

    async def enter() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0.01)  # in which a fourth could enter
        running -= 1

    steps = itertools.repeat(say(enter, "ok"))
    async with gateway(tmp_path, steps, max_concurrent_sessions=3) as chats:
        await many_at_once(chats, 12)
    assert most == 3


async def test_event_hooks_see_a_turn(tmp_path: Path) -> None:
    folder = tmp_path / "hooks" / "watch"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text(
        "name: watch\nevents: ['gateway:*', 'session:*', 'agent:*', 'command:*']\n"
    )
    (folder / "handler.py").write_text(
        "import json, pathlib\n"
        f"FILE = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        "def handle(event, context):\n"
        "    with FILE.open('a') as file:\n"
        "        file.write(json.dumps([event, sorted(context)]) + '\\n')\n"
    )
    steps = [call("todo", todos=[]), say("done"), say("again")]
    async with gateway(tmp_path, steps) as chats:
        await chats.ask("hello")
        await chats.ask("/status")
        await chats.ask("once more")
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    names = [name for name, _ in seen]
    assert [name for name in names if name != "agent:step"] == [
        "gateway:startup", "session:start", "agent:start", "agent:end", "command:status",
        "agent:start", "agent:end",
    ]  # fmt: skip
    assert "agent:step" in names
    assert seen[2][1] == [
        "chat_id", "chat_type", "message", "platform", "session_id", "thread_id", "user_id",
    ]  # fmt: skip


async def test_event_hooks_hear_of_a_compression_between_turns(tmp_path: Path) -> None:
    folder = tmp_path / "hooks" / "watch"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text("name: watch\nevents: ['session:compress']\n")
    (folder / "handler.py").write_text(
        "import json, pathlib\n"
        f"FILE = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        "def handle(event, context):\n"
        "    FILE.with_suffix('.new').write_text(json.dumps(context))\n"
        "    FILE.with_suffix('.new').rename(FILE)\n"
    )
    async with gateway(tmp_path, itertools.repeat(say("word " * 400))) as chats:
        for number in range(8):
            await chats.ask(f"m{number} " + "word " * 400)
        first = chats.session_id()
        await chats.ask("/compact")
        async with asyncio.timeout(60):
            while not (tmp_path / "seen").exists() or chats.session_id() == first:
                await asyncio.sleep(0.01)
        last = chats.session_id()
    told = json.loads((tmp_path / "seen").read_text())
    assert first != last
    assert told == {
        "platform": "local", "user_id": "u1", "session_id": last, "old_session_id": first,
        "in_place": False, "compression_count": 1,
    }  # fmt: skip


async def test_a_turn_that_used_up_its_budget_says_so(tmp_path: Path) -> None:
    steps = itertools.repeat(call("todo", todos=[]))
    yaml = "agent: {max_turns: 3, max_iterations: 3}\n"
    async with gateway(tmp_path, steps, yaml=yaml) as chats:
        assert "Stopped after 3 model calls" in await chats.ask("count")


async def test_agents_are_let_go_when_they_hold_much(tmp_path: Path) -> None:
    steps = itertools.repeat(say("word " * 2000))
    async with gateway(tmp_path, steps, cache_bytes=50_000) as chats:
        for number in range(12):
            await chats.ask("hi", chat_id=str(number))
        assert 1 <= len(chats.runner._agent_cache) <= 5
        assert sum(chats.runner.agents.weights.values()) <= 60_000


PIGEON = """
from gateway.platforms.local.adapter import LocalAdapter

class Pigeons(LocalAdapter):
    async def send(self, chat_id, text, **more):
        return await super().send(chat_id, f"coo: {text}", **more)

def register(ctx):
    ctx.register_platform("heliograph", "Mirrors", Pigeons, lambda: True)
"""


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("lambda: False, install_hint='Fetch pigeons.'", "Fetch pigeons."),
        ("lambda: 1 / 0", "its check failed"),
        ("lambda: True, required_env=['PIGEON_KEY', 'HOME']", "PIGEON_KEY must be set"),
        ("lambda: True, validate_config=lambda config: False", "platforms.heliograph"),
        ("lambda: True, validate_config=lambda config: ['no seed']", "no seed"),
    ],
)
async def test_a_platform_of_a_plugin_that_lacks_something_says_so(
    tmp_path: Path, more: str, problem: str
) -> None:
    folder = tmp_path / "plugins" / "pigeons"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: pigeons\nversion: '1'\nkind: platform\n")
    (folder / "__init__.py").write_text(PIGEON.replace("lambda: True", more))
    yaml = (
        "plugins: {enabled: [pigeons]}\n"
        "platforms: {heliograph: {enabled: true}, local: {enabled: true}}\n"
    )
    (tmp_path / "config.yaml").write_text(CONFIG + yaml)
    settings = load_config(tmp_path, {"HOME": str(tmp_path)})
    db = AsyncSessionDB(SessionDB(tmp_path / "state.db"))
    runner = GatewayRunner(load_gateway_config(settings), settings, db, tmp_path)
    await runner.start()
    assert problem in runner.supervisor.states["heliograph"]
    assert [platform.value for platform in runner.adapters] == ["local"], "others are served"
    await runner.stop()
    await db.close()


async def test_a_plugin_brings_a_platform(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "pigeons"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: pigeons\nversion: '1'\nkind: platform\n")
    (folder / "__init__.py").write_text(PIGEON)
    yaml = (
        "plugins: {enabled: [pigeons]}\nplatforms: {heliograph: {enabled: true, allow_all: true}}\n"
    )
    (tmp_path / "config.yaml").write_text(CONFIG + yaml)
    settings = load_config(tmp_path, {})
    config = load_gateway_config(settings)
    db = AsyncSessionDB(SessionDB(tmp_path / "state.db"))
    runner = GatewayRunner(config, settings, db, tmp_path)
    runner._model = ScriptedModel(itertools.repeat(echo))
    await runner.start()
    (platform,) = runner.adapters
    assert platform == "heliograph"
    local = runner.adapters[platform]
    assert isinstance(local, LocalAdapter)
    source = SessionSource(platform, "1", user_id="u1")
    await runner.handle_message(MessageEvent("hello", source, "m1"))
    assert await local.wait_for(1) == ["coo: re: hello"]
    assert [entry.platform for entry in runner.session_store.list_sessions()] == ["heliograph"]
    await runner.stop()
    await db.close()
