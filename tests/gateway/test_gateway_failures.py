"""Store, platform and model fail in turn: nothing is lost, nobody is left without a word."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent.errors import RateLimitedError
from agent.model import ModelRequest
from agent.retry import RetryingModel
from agent.scripted import ScriptedModel, Step, fail, say
from gateway.config import Platform
from gateway.delivery import BROKEN
from gateway.platforms.local.adapter import LocalAdapter
from hermes_state import SessionDB, StoreFullError

from .chats import Chats, echo, gateway
from .serving import serving

pytestmark = pytest.mark.sqlite


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("conversation.patience", "gateway.delivery", "gateway.supervision"):
        monkeypatch.setattr(f"{name}.FIRST_PAUSE", 0.01)
        monkeypatch.setattr(f"{name}.LONGEST_PAUSE", 0.02)


class Disk:
    """A store's writing connection on a disk that may be full."""

    def __init__(self, db: SessionDB) -> None:
        self._real = db._database._writer
        self.full = False
        db._database._writer = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *values: Any) -> Any:
        if self.full and sql == "COMMIT":
            raise apsw.FullError("injected")
        return self._real.execute(sql, *values)


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Another program writes, and does not come to an end."""
    other = apsw.Connection(str(home / "state.db"))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def settled(chats: Chats) -> None:
    """Wait until nothing waits and nothing is owed."""
    async with asyncio.timeout(60):
        while chats.db.list_waiting() or chats.db.list_deliveries(("pending", "sending")):
            await asyncio.sleep(0.01)


# The store


async def test_a_store_that_is_locked_for_a_while_delays_and_loses_nothing(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        other = apsw.Connection(str(tmp_path / "state.db"))
        other.execute("BEGIN IMMEDIATE")
        free = threading.Timer(0.5, lambda: other.execute("ROLLBACK"))
        free.start()
        asked = (chats.ask(f"m{n}", chat_id=str(n)) for n in range(20))
        assert await asyncio.gather(*asked) == [f"re: m{n}" for n in range(20)]
        free.join()
        other.close()


async def test_a_store_that_is_locked_too_long_is_told_and_the_chat_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = functools.partial(SessionDB, busy_timeout=0.05)
    monkeypatch.setattr(f"{Chats.__module__}.SessionDB", quick)
    begun, release = asyncio.Event(), asyncio.Event()
    steps = [say(begun.set, release, "an answer that cannot be kept"), echo]
    async with gateway(tmp_path, steps) as chats:
        await chats.say("one")
        await begun.wait()
        with locked(tmp_path):
            release.set()
            (told,) = await chats.local.wait_for(1)
            assert "No answer" in told
            assert "locked by another process" in told
        assert await chats.ask("two") == "re: two"
        await settled(chats)
        assert len(chats.local.texts()) == 2
        assert chats.runner.facts()["turns_failed"] == 1


async def test_a_message_that_cannot_be_stored_is_not_acknowledged(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        disk = Disk(chats.db)
        disk.full = True
        with pytest.raises(StoreFullError):
            await chats.say("hello", message_id="7")
        assert chats.model.calls == 0
        disk.full = False
        assert await chats.ask("hello", message_id="7") == "re: hello"
        await chats.say("hello", message_id="7")
        assert await chats.ask("more") == "re: more"
        assert chats.local.texts() == ["re: hello", "re: more"]


async def test_a_turn_that_a_full_store_keeps_from_beginning_is_told_and_not_run_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        disk = Disk(chats.db)
        hooked = chats.runner.pipeline._run_hooks

        async def fill(inbound: Any) -> bool:
            disk.full = True
            return await hooked(inbound)

        monkeypatch.setattr(chats.runner.pipeline, "_run_hooks", fill)
        assert "No room left" in await chats.ask("one")
        assert len(chats.db.list_waiting()) == 1, "it cannot be taken from the inbox now"
        monkeypatch.setattr(chats.runner.pipeline, "_run_hooks", hooked)
        disk.full = False
        await settled(chats)
        assert chats.model.calls == 0
    async with gateway(tmp_path) as chats:
        assert await chats.ask("two") == "re: two"
        assert chats.local.texts() == ["re: two"]


async def test_a_store_that_fills_up_during_a_turn_is_told(tmp_path: Path) -> None:
    async with gateway(tmp_path, []) as chats:
        disk = Disk(chats.db)

        def fill() -> None:
            disk.full = True

        chats.model._steps = iter([say(fill, "an answer"), echo])
        assert "No room left" in await chats.ask("one")
        disk.full = False
        assert await chats.ask("two") == "re: two"
        await settled(chats)
        assert len(chats.local.texts()) == 2


async def test_an_answer_that_is_stored_goes_out_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        disk = Disk(chats.db)
        refresh = chats.runner._refresh_agent_cache_message_count

        async def fill(key: str, session_id: str) -> None:
            await refresh(key, session_id)
            disk.full = True

        monkeypatch.setattr(chats.runner, "_refresh_agent_cache_message_count", fill)
        await chats.say("one")
        while not disk.full:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(chats.runner, "_refresh_agent_cache_message_count", refresh)
        assert chats.local.texts() == []
        disk.full = False
        assert await chats.local.wait_for(1) == ["re: one"]
        await settled(chats)
        assert chats.local.texts() == ["re: one"]


async def test_an_answer_that_was_shown_is_not_shown_again_because_that_was_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        disk = Disk(chats.db)
        send = chats.local.send

        async def fill(*args: Any, **more: Any) -> str | None:
            shown = await send(*args, **more)
            disk.full = True
            return shown

        monkeypatch.setattr(chats.local, "send", fill)
        assert await chats.ask("one") == "re: one"
        assert len(chats.db.list_deliveries(("sending",))) == 1
        disk.full = False
        monkeypatch.setattr(chats.local, "send", send)
        await settled(chats)
        assert chats.local.texts() == ["re: one"]
        while not chats.runner.facts()["delivered"]:  # counted once it is stored
            await asyncio.sleep(0)
        assert chats.runner.facts()["delivered"] == 1


async def test_a_command_is_answered_although_the_store_is_full(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        disk = Disk(chats.db)
        emit = chats.runner.emit_event

        async def fill(*args: Any) -> None:
            disk.full = True
            await emit(*args)

        chats.runner.emit_event = fill  # type: ignore[method-assign]
        told = await chats.ask("/whoami")
        assert "local" in told
        disk.full = False
        await settled(chats)
        assert len(chats.local.texts()) == 2


async def test_a_client_of_the_api_is_told_that_the_store_is_full(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        disk = Disk(served.db)
        disk.full = True
        refused = await served.chat("one")
        assert refused.status_code >= 500
        assert "No room left" in refused.text
        stored = await served.chat("one", **{"Idempotency-Key": "k"})
        assert stored.status_code == 503
        disk.full = False
        assert (await served.chat("one", **{"Idempotency-Key": "k"})).status_code == 200


# The platform


async def test_a_platform_that_is_away_for_a_minute_gets_everything_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks = asyncio.Event()

    async def run(self: LocalAdapter) -> None:
        await breaks.wait()
        breaks.clear()
        raise ConnectionResetError("gone")

    monkeypatch.setattr(LocalAdapter, "run", run)
    begun, release = asyncio.Semaphore(0), asyncio.Event()

    def slowly(request: ModelRequest) -> Step:
        return say(begun.release, release, *echo(request).moves)

    async with gateway(tmp_path, itertools.repeat(slowly)) as chats:
        local = chats.local
        for number in range(10):
            await chats.say("hello", chat_id=str(number))
            await begun.acquire()
        local.failures = [ConnectionRefusedError("still gone") for _ in range(20)]
        breaks.set()
        while chats.runner.supervisor.states["local"] in ("connected", "connecting"):
            await asyncio.sleep(0.001)
        assert Platform.LOCAL not in chats.runner.adapters
        release.set()
        for number in range(10):
            assert await local.wait_for(1, str(number)) == ["re: hello"]
        assert not local.failures, "it was away while the answers were made"
        await settled(chats)
        assert chats.runner.facts()["platforms"] == {"local": "connected"}
        assert await chats.ask("again", chat_id="3") == "re: again"


async def test_a_platforms_library_that_breaks_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        send = chats.local.send

        async def broken(*args: Any, **more: Any) -> str | None:
            monkeypatch.setattr(chats.local, "send", send)
            raise RuntimeError("the client has been closed")

        monkeypatch.setattr(chats.local, "send", broken)
        assert await chats.ask("one") == BROKEN
        assert await chats.ask("/last") == "re: one"


# The model


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


async def test_a_model_that_is_overrun_for_a_minute_answers_everybody(tmp_path: Path) -> None:
    clock = Clock()

    def limited(request: ModelRequest) -> Step:
        if clock.now < 60:
            return fail(RateLimitedError("429: slow down", retry_after=30.0))
        return echo(request)

    async with gateway(tmp_path) as chats:
        model = ScriptedModel(itertools.repeat(limited))
        chats.runner._model = RetryingModel([model], sleep=clock.sleep, clock=lambda: clock.now)
        asked = (chats.ask(f"m{n}", chat_id=str(n)) for n in range(10))
        assert await asyncio.gather(*asked) == [f"re: m{n}" for n in range(10)]
        assert model.calls > 10, "it was overrun"


async def test_a_model_that_stays_overrun_is_told_and_the_next_message_works(
    tmp_path: Path,
) -> None:
    clock = Clock()
    refusals = itertools.repeat(fail(RateLimitedError("429: slow down", retry_after=20.0)), 4)
    async with gateway(tmp_path) as chats:
        model = ScriptedModel(itertools.chain(refusals, itertools.repeat(echo)))
        chats.runner._model = RetryingModel([model], sleep=clock.sleep, clock=lambda: clock.now)
        told = await chats.ask("one")
        assert "No answer" in told
        assert "429" in told
        assert await chats.ask("two") == "re: two"
        assert chats.runner.facts()["turns_failed"] == 1


# All of them


async def test_one_failure_after_the_other(tmp_path: Path) -> None:
    clock = Clock()
    overrun = False

    def model(request: ModelRequest) -> Step:
        return fail(RateLimitedError("429: slow down")) if overrun else echo(request)

    async with gateway(tmp_path) as chats:
        chats.runner._model = RetryingModel(
            [ScriptedModel(itertools.repeat(model))], sleep=clock.sleep, clock=lambda: clock.now
        )
        disk = Disk(chats.db)
        told: list[str] = []

        async def everybody(text: str) -> None:
            asked = (chats.ask(text, chat_id=str(n)) for n in range(10))
            told.extend(await asyncio.gather(*asked))

        await everybody("fine")
        overrun = True
        await everybody("overrun")
        overrun = False
        accepted = [chats.say("full", chat_id=str(n), message_id="f") for n in range(10)]
        disk.full = True
        refused = await asyncio.gather(*accepted, return_exceptions=True)
        assert all(isinstance(one, StoreFullError) for one in refused)
        disk.full = False
        for n in range(10):
            told.append(await chats.ask("full", chat_id=str(n), message_id="f"))
        await settled(chats)
        expected = ["re: fine"] * 10 + ["re: full"] * 10
        assert sorted(one for one in told if one.startswith("re:")) == sorted(expected)
        assert sum("429" in one for one in told) == 10
        assert all(len(chats.local.texts(str(n))) == 3 for n in range(10))
