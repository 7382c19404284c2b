"""A restart tells the chats, goes on where it stopped, and does not go round in circles."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.logs import setup_logging, stop_logging
from agent.scripted import call, say
from gateway import restart
from gateway.config import Platform
from gateway.config_load import load_gateway_config
from gateway.platforms.base import SendError
from gateway.restart import ASKED, BACK, GO_ON, RESTARTING, STOPPING

from .chats import Chats, asked, echo, gateway
from .serving import KEY, serving


def make_admin(chats: Chats, user_id: str = "u1") -> None:
    chats.runner.config.platforms[Platform.LOCAL].admins = (user_id,)


async def cut_off(home: Path, text: str | None = "work", *, restarting: bool = True) -> list[str]:
    """Let a turn be broken off by the end of a gateway; returns what the chat has read."""
    begun = asyncio.Event()
    steps = itertools.repeat(say("a part", begun.set, asyncio.Event()))
    async with gateway(home, steps, drain_timeout=0.05) as chats:
        local = chats.local
        if text is not None:
            await chats.say(text)
        await begun.wait()
        chats.runner.restart.wanted = restarting
        await chats.runner.stop()
        return local.texts()


async def test_only_administrators_restart(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        make_admin(chats, "somebody else")
        assert "administrators" in await chats.ask("/restart")
        assert not chats.runner.ending.is_set()
        assert not (tmp_path / restart.NOTIFY_FILE).exists()


async def test_whoever_asked_is_told_when_it_is_back_and_only_once(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        make_admin(chats)
        assert await chats.ask("/restart", message_id="5") == ASKED
        await chats.runner.ending.wait()
        assert chats.runner.restart.wanted
        assert chats.db.list_waiting() == [], "or it would be run again after the start"
        marker = tmp_path / restart.NOTIFY_FILE
        assert stat.S_IMODE(marker.stat().st_mode) == 0o600
    async with gateway(tmp_path) as chats:
        make_admin(chats)
        assert await chats.local.wait_for(1) == [BACK]
        assert not (tmp_path / restart.NOTIFY_FILE).exists()
        await chats.say("/restart", message_id="5")
        assert await chats.ask("hello") == "re: hello"
        assert not chats.runner.ending.is_set(), "a command that is delivered again does nothing"
    async with gateway(tmp_path) as chats:
        assert await chats.ask("again") == "re: again"


async def test_a_marker_that_says_nothing_is_put_away(tmp_path: Path) -> None:
    for text in ("", "[1]", '{"source": {"platform": "nowhere"}, "session_key": "x"}', "\0"):
        (tmp_path / restart.NOTIFY_FILE).write_text(text)
        async with gateway(tmp_path) as chats:
            assert await chats.ask("hello") == "re: hello"
        assert not (tmp_path / restart.NOTIFY_FILE).exists()


async def test_a_turn_that_is_broken_off_goes_on_after_the_restart(tmp_path: Path) -> None:
    assert await cut_off(tmp_path) == [RESTARTING]
    async with gateway(tmp_path, [say("the rest")]) as chats:
        assert await chats.local.wait_for(1) == ["the rest"]
        sent = [one["content"] for one in chats.model.requests[0].messages]
        assert sent == ["work", "a part", GO_ON]
        assert not chats.runner.session_store._entries[chats.key()].resume_pending
    async with gateway(tmp_path) as chats:
        assert await chats.ask("more") == "re: more", "it goes on once"
        assert chats.local.texts() == ["re: more"]


async def test_a_turn_that_ends_in_time_is_not_told_of_the_restart(tmp_path: Path) -> None:
    begun = asyncio.Event()
    async with gateway(tmp_path, [say(begun.set, 0.05, "whole")]) as chats:
        local = chats.local
        await chats.say("one")
        await begun.wait()
        chats.runner.restart.wanted = True
        await chats.runner.stop()
        assert local.texts() == ["whole"]
    async with gateway(tmp_path) as chats:
        assert await chats.ask("two") == "re: two"


async def test_a_stop_is_told_and_nothing_goes_on_unasked(tmp_path: Path) -> None:
    assert await cut_off(tmp_path, restarting=False) == [STOPPING]
    async with gateway(tmp_path) as chats:
        assert await chats.ask("two") == "re: two"
        assert chats.local.texts() == ["re: two"]


async def test_a_chat_that_every_restart_breaks_off_begins_anew(tmp_path: Path) -> None:
    assert (await cut_off(tmp_path))[-1] == RESTARTING
    assert (await cut_off(tmp_path, None))[-1] == RESTARTING
    assert (await cut_off(tmp_path, None))[-1] == STOPPING
    async with gateway(tmp_path, itertools.repeat(echo)) as chats:
        await chats.say("anew")
        while "re: anew" not in chats.local.texts():
            await asyncio.sleep(0.01)
        assert [asked(one) for one in chats.model.requests] == ["anew"]
        assert len(chats.model.requests[0].messages) == 1


async def test_restarts_in_a_row_are_refused(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        make_admin(chats)
        for _ in range(3):
            assert restart.refusal(tmp_path) is None
            restart.note(tmp_path, chats.runner.config)
        assert "3 times" in await chats.ask("/restart")
        chats.runner.restart.begin()
        assert not chats.runner.ending.is_set()
        past = [time.time() - 61] * 3
        (tmp_path / restart.LOOP_FILE).write_text(json.dumps({"restarts": past}))
        assert restart.refusal(tmp_path) is None
        for odd in ("{", "[]", '{"restarts": "x"}', '{"restarts": ["x", null]}'):
            (tmp_path / restart.LOOP_FILE).write_text(odd)
            assert restart.refusal(tmp_path) is None


async def test_a_restart_that_would_not_come_back_is_refused(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        make_admin(chats)
        (tmp_path / "config.yaml").write_text("model: {provider: nowhere}\n")
        assert "nowhere" in await chats.ask("/restart")
        assert not chats.runner.ending.is_set()


def test_the_guard_is_configured(tmp_path: Path) -> None:
    from agent.config import load_config

    (tmp_path / "config.yaml").write_text(
        "gateway: {restart_loop_guard: {max_restarts: 1, window: 5}}\n"
    )
    found = load_gateway_config(load_config(tmp_path, {}))
    assert (found.max_restarts, found.restart_window) == (1, 5)


# Numbers


def numbers(text: str) -> dict[str, float]:
    lines = [one for one in text.splitlines() if not one.startswith("#")]
    return {name: float(value) for name, value in (one.rsplit(" ", 1) for one in lines)}


async def test_metrics(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("one"), call("todo", todos=[]), say("two")]) as served:
        nobody = served.client("")
        assert (await nobody.get("/metrics")).status_code == 401
        await nobody.aclose()
        for text in ("one", "two", "three: the script is over"):
            await served.chat(text)
        answer = await served.http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert KEY not in answer.text
        found = numbers(answer.text)
        assert found["hermes_turns_running"] == found["hermes_messages_waiting"] == 0
        assert found["hermes_turns_finished_total"] == found["hermes_turn_seconds_count"] == 3
        assert found["hermes_turns_failed_total"] == 1
        assert found["hermes_turn_seconds_sum"] > 0
        assert found['hermes_platform_up{platform="api_server"}'] == 1
        assert found["hermes_memory_bytes"] > 1_000_000
        facts = served.runner.facts()
        assert found["hermes_agents_cached"] == facts["agents"] == 3
        typed = [one.split()[2] for one in answer.text.splitlines() if one.startswith("# TYPE")]
        assert len(typed) == len(set(typed))


async def test_what_waits_is_counted_and_what_was_read_no_longer(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    steps = [
        say(begun.set, release, "one"), say("steered"), *itertools.repeat(echo, 3)
    ]  # fmt: skip
    async with gateway(tmp_path, steps, busy_input_mode="steer") as chats:
        await chats.say("first")
        await begun.wait()
        await chats.say("meanwhile")
        while chats.runner.facts()["waiting"] != 1:
            await asyncio.sleep(0.01)
        release.set()
        await chats.local.wait_for(1)
        while chats.runner.facts()["waiting"] or chats.runner.facts()["turns_running"]:
            await asyncio.sleep(0.01)


# Logs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Path]:
    root = logging.getLogger()
    level = root.level
    yield setup_logging(tmp_path, gateway=True)
    stop_logging()
    root.setLevel(level)


async def test_lines_of_a_turn_carry_its_session(tmp_path: Path, logs: Path) -> None:
    async with gateway(tmp_path) as chats:
        chats.local.failures = [SendError("blocked", permanent=True)]
        await chats.say("one")
        while not chats.db.list_deliveries(("failed",)):
            await asyncio.sleep(0.01)
        assert await chats.ask("two") == "re: two"
        session_id = chats.session_id()
    (line,) = [
        one
        for one in (logs / "gateway.log").read_text().splitlines()
        if "could not be delivered: blocked" in one
    ]
    assert f"ERROR gateway.delivery [{session_id}]: " in line
