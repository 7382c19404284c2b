"""A turn without a sign of life: the chat is told once, then the turn is stopped."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path

import pytest

from agent.events import ToolFinished, ToolStarted
from agent.model import ModelRequest
from agent.scripted import Step, call, say
from conversation.silence import _Watch, watched
from gateway.asking import Question

from .chats import Chats, asked, echo, gateway


async def test_the_chat_is_told_once_and_then_answered(tmp_path: Path) -> None:
    release = asyncio.Event()
    yaml = "agent: {gateway_timeout_warning: 0.05, gateway_timeout: 0}\n"
    async with gateway(tmp_path, [say(release, "at last"), echo], yaml=yaml) as chats:
        told = await chats.ask("slow")
        assert "waiting for the model" in told
        assert "/stop" in told
        release.set()
        assert (await chats.local.wait_for(2))[1] == "at last"
        assert len(chats.local.texts()) == 2


async def test_a_silent_turn_is_stopped_and_the_chat_told(tmp_path: Path) -> None:
    never = asyncio.Event()
    # Long enough for the second turn to get its answer, wherever the store is.
    yaml = "agent: {gateway_timeout_warning: 0, gateway_timeout: 2}\n"

    def answer(request: ModelRequest) -> Step:
        return say("Half", never, "whole") if asked(request) == "slow" else echo(request)

    async with gateway(tmp_path, itertools.repeat(answer), yaml=yaml) as chats:
        told = await chats.ask("slow")
        assert told.startswith("⚠️ I stopped")
        assert "waiting for the model" in told
        assert await chats.ask("and now?") == "re: and now?"
        stored = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        assert stored[0] == "slow"


async def test_first_the_word_then_the_end(tmp_path: Path) -> None:
    never = asyncio.Event()
    yaml = "agent: {gateway_timeout_warning: 0.05, gateway_timeout: 0.3}\n"
    async with gateway(tmp_path, [say(never, "x"), echo], yaml=yaml) as chats:
        await chats.say("slow")
        first, second = await chats.local.wait_for(2)
        assert first.startswith("⏳")
        assert second.startswith("⚠️ I stopped")


async def test_with_zero_nobody_watches(tmp_path: Path) -> None:
    release = asyncio.Event()
    yaml = "agent: {gateway_timeout_warning: 0, gateway_timeout: 0}\n"
    async with gateway(tmp_path, [say(release, "done")], yaml=yaml) as chats:
        await chats.say("slow")
        while not chats.runner._running_agents:
            await asyncio.sleep(0)
        agent = chats.runner._running_agents[chats.key()]
        async with watched(
            chats.runner.settings.agent, chats.key(), agent, spawn=chats.runner.spawn,
            say=lambda text: asyncio.sleep(0), is_asking=lambda: False,
        ) as watch:  # fmt: skip
            assert watch is None
        release.set()
        assert await chats.local.wait_for(1) == ["done"]


async def test_a_turn_that_shows_something_is_left_alone(tmp_path: Path) -> None:
    yaml = "agent: {gateway_timeout_warning: 0, gateway_timeout: 1}\n"
    pieces = [part for number in range(20) for part in (f"{number} ", 0.1)]  # longer than that
    async with gateway(tmp_path, [say(*pieces), echo], yaml=yaml) as chats:
        answer = await chats.ask("count")
        assert answer.split() == [str(number) for number in range(20)]


def count_looks(chats: Chats, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often it was looked whether the person is asked something, from now on."""
    looks: list[str] = []
    waiting = chats.runner.questions.waiting

    def look(key: str, kind: str) -> Question | None:
        if kind == "clarify":
            looks.append(key)
        return waiting(key, kind)

    monkeypatch.setattr(chats.runner.questions, "waiting", look)
    return looks


async def test_waiting_for_the_person_is_not_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = "agent: {gateway_timeout_warning: 0, gateway_timeout: 0.2}\n"
    steps = [call("clarify", question="Which one?", choices=["a", "b"]), say("b it is")]
    async with gateway(tmp_path, steps, yaml=yaml) as chats:
        assert "Which one?" in await chats.ask("choose")
        looks = count_looks(chats, monkeypatch)
        async with asyncio.timeout(60):
            while len(looks) < 3:  # each after as long as a turn may be silent
                await asyncio.sleep(0.01)
        assert await chats.ask("2") == "b it is"
        assert len(chats.local.texts()) == 2


def test_what_it_is_at_is_named() -> None:
    watch = _Watch(1, 1, "/stop")
    started = [ToolStarted(f"c{n}", name, {}) for n, name in enumerate(["terminal", "patch"])]
    threads = [threading.Thread(target=watch.hear, args=(one,)) for one in started]
    for thread in threads:
        thread.start()
        thread.join()
    assert watch._doing() == "running terminal, patch"
    watch.hear(ToolFinished("c0", "terminal", "", 0.1, False))
    assert watch._doing() == "running patch"
    watch.hear(ToolFinished("c1", "patch", "", 0.1, False))
    assert watch._doing() == "waiting for the model"
