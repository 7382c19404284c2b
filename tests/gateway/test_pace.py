"""Turns of a dead gateway are begun a few at a time; a slow model holds up nobody for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.model import ModelRequest
from agent.scripted import Step, say
from conversation import pace
from conversation.pace import Pace
from hermes_state import SessionDB

from .chats import Chats, asked, gateway
from .test_take_over_chats import leave, target, until

MANY = 7


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "AT_ONCE", 2)
    monkeypatch.setattr(pace, "SECONDS", 600.0)


class Model:
    """Answers when it is let to; knows who has asked."""

    def __init__(self, *pieces: Any) -> None:
        self.asked: list[str] = []
        self.release = asyncio.Event()
        self._pieces = pieces

    def steps(self) -> Any:
        """The same for every question."""

        def step(request: ModelRequest) -> Step:
            self.asked.append(asked(request))
            return say(*self._pieces, self.release, f"re: {asked(request)}")

        while True:
            yield step


async def many_left(home: Path) -> None:
    """A home with many chats, each with a turn that nobody runs."""
    sessions: dict[str, str] = {}
    async with gateway(home) as chats:
        for chat in map(str, range(MANY)):
            await chats.ask("before", chat_id=chat)
            sessions[chat] = chats.session_id(chat)
    # Not while it runs: it would take them over itself.
    with SessionDB(home / "state.db") as db:
        for chat, session_id in sessions.items():
            leave(db, session_id, f"left {chat}", deliver_to=target(chat), age=60.0 - int(chat))


@asynccontextmanager
async def restarted(home: Path, model: Model) -> AsyncIterator[Chats]:
    await many_left(home)
    async with gateway(home, model.steps()) as chats:
        try:
            yield chats
        finally:
            model.release.set()


def counted(chats: Chats) -> list[int]:
    """How often each turn was taken over, in the order of the chats."""
    found = []
    for chat in map(str, range(MANY)):
        turn = chats.db.get_turn(chats.session_id(chat))
        assert turn is not None
        found.append(int(turn["attempts"]) - 1)
    return found


async def everybody_answered(chats: Chats, first: int = 0) -> None:
    for chat in map(str, range(first, MANY)):
        await until(lambda chat=chat: f"re: left {chat}" in chats.local.texts(chat))


async def test_one_that_waits_is_not_taken_over(tmp_path: Path) -> None:
    model = Model()
    async with restarted(tmp_path, model) as chats:
        await until(lambda: len(model.asked) == 2)
        assert sorted(model.asked) == ["left 0", "left 1"], "the oldest first"
        assert counted(chats) == [1, 1, 0, 0, 0, 0, 0]
        assert chats.runner.conversations.in_flight == 2
        model.release.set()
        await everybody_answered(chats)
        assert counted(chats) == [1] * MANY


async def test_a_word_of_the_model_lets_the_next_begin(tmp_path: Path) -> None:
    model = Model("thinking aloud, ")
    async with restarted(tmp_path, model) as chats:
        await until(lambda: len(model.asked) == MANY)
        model.release.set()
        for chat in map(str, range(MANY)):
            await until(lambda chat=chat: any("re:" in one for one in chats.local.texts(chat)))


async def test_so_does_a_while_of_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "SECONDS", 0.01)
    model = Model()
    async with restarted(tmp_path, model) as chats:
        await until(lambda: len(model.asked) == MANY)
        model.release.set()
        await everybody_answered(chats)


async def test_a_message_of_another_chat_does_not_wait(tmp_path: Path) -> None:
    model = Model()
    async with restarted(tmp_path, model) as chats:
        await until(lambda: len(model.asked) == 2)
        await chats.say("hello", chat_id="new")
        await until(lambda: "hello" in model.asked)


async def test_a_stop_lets_those_go_that_wait(tmp_path: Path) -> None:
    model = Model()
    async with restarted(tmp_path, model) as chats:
        await until(lambda: len(model.asked) == 2)
        stopping = asyncio.create_task(chats.runner.stop())
        await until(lambda: not chats.runner._running)
        model.release.set()
        await stopping
        assert sorted(model.asked) == ["left 0", "left 1"]
    async with gateway(tmp_path) as chats:
        await everybody_answered(chats, first=2)
        assert not any("re: left" in one for chat in "01" for one in chats.local.texts(chat))


@pytest.mark.parametrize("how", ["alive", "alive twice", "end", "fault", "thread"])
async def test_a_place_is_given_back_once(how: str) -> None:
    places = Pace()

    async def use(alive: Callable[[], None]) -> None:
        if how == "thread":
            await asyncio.to_thread(alive)
        elif how != "end":
            for _ in how.split():
                alive()
        if how == "fault":
            raise RuntimeError("broken")

    for _ in range(5):
        try:
            async with asyncio.timeout(60), places.place() as alive:
                await use(alive)
        except RuntimeError:
            assert how == "fault"
    assert places.free == 2


async def test_who_is_cancelled_while_waiting_keeps_nothing() -> None:
    places = Pace()
    async with places.place(), places.place():

        async def wait() -> None:
            async with places.place():
                raise AssertionError("there was no place")

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert places.free == 2
