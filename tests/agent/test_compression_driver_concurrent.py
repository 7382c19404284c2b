"""Compression on request and while others are at it: interrupted, overtaken, overheard."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import TurnRunningError
from agent.request import Question
from agent.scripted import say
from hermes_base.process import machine, name_process, this_process
from hermes_state import SessionDB

from .compressing import GOOD, Summariser, agent_on, check_conversation, in_place, store_talk


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


# On request


@pytest.mark.parametrize("mode", ["rotation", "in place"])
def test_on_request(db: SessionDB, mode: str) -> None:
    marks = store_talk(db, "s", 20)
    settings = in_place() if mode == "in place" else None
    summariser = Summariser(GOOD)
    agent, model = agent_on(
        db, window=100_000, session_id="s", auxiliary=summariser, compression=settings
    )
    result = agent.compress("the harbour")
    assert result.compressed and result.method == "summary" and result.error is None
    assert result.old_session_id == "s" and result.session_id == agent.session_id
    assert result.in_place is (mode == "in place") is (agent.session_id == "s")
    assert result.before_messages == 40
    assert result.after_messages == len(db.get_messages(agent.session_id)) < 40
    assert result.after_tokens <= result.before_tokens * 0.9
    assert "Marta" in result.summary
    assert "the harbour" in str(summariser.prompts + summariser.systems)
    check_conversation(db, "s", marks)
    assert agent.run_conversation("And now?")["final_response"] == "ok"
    assert "Marta" in str(model.requests[0].messages)


def test_a_preview_changes_nothing(db: SessionDB) -> None:
    store_talk(db, "s", 20)
    before = db.get_messages("s")
    summariser = Summariser(GOOD)
    agent, _ = agent_on(db, session_id="s", auxiliary=summariser)
    result = agent.compress(dry_run=True)
    assert not result.compressed and result.preview is not None
    assert result.preview.summarised > 0 and result.preview.worthwhile
    assert result.after_tokens < result.before_tokens
    assert summariser.prompts == [] and db.get_messages("s") == before
    assert db.get_compression_lineage("s") == ["s"]


def test_nothing_to_compress_is_said(db: SessionDB) -> None:
    agent, _ = agent_on(db)
    assert agent.compress().reason == "There are no messages yet."
    assert db.get_session(agent.session_id) is None, "no ghost"
    agent.run_conversation("Hello")
    result = agent.compress()
    assert not result.compressed and result.reason
    assert len(db.get_messages(agent.session_id)) == 2


def test_on_request_it_tries_again_during_a_cooldown(db: SessionDB) -> None:
    store_talk(db, "s", 20)
    db.record_compression_failure_cooldown("s", 2**40, "down")
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD))
    assert agent.compress().method == "summary"
    assert db.get_compression_failure_cooldown(agent.session_id) is None


async def test_not_during_a_turn(db: SessionDB) -> None:
    gate = asyncio.Event()
    begun = asyncio.Event()

    async def hold() -> None:
        begun.set()
        await gate.wait()

    agent, _ = agent_on(db, say("a", hold, "b"))
    turn = asyncio.create_task(agent.run(Question("Hello")))
    await begun.wait()
    with pytest.raises(TurnRunningError, match="Compress it when that has ended"):
        await agent.acompress()
    gate.set()
    assert (await turn).text == "ab"


async def test_no_turn_during_it_and_it_can_be_interrupted(db: SessionDB) -> None:
    store_talk(db, "s", 20)
    before = db.get_messages("s")
    gate = asyncio.Event()
    summariser = Summariser(GOOD, pause=gate)
    agent, _ = agent_on(db, session_id="s", auxiliary=summariser)
    work = asyncio.create_task(agent.acompress())
    await summariser.asked.wait()
    with pytest.raises(TurnRunningError):
        await agent.run(Question("Hello"))
    assert not agent.steer("faster"), "nobody would read it"
    assert agent.interrupt()
    result = await work
    assert not result.compressed and result.reason == "It was interrupted."
    assert db.get_messages("s") == before and db.get_compression_lineage("s") == ["s"]
    assert db.get_compression_lock_holder("s") is None
    gate.set()
    assert (await agent.run(Question("Hello"))).text == "ok"


# While a turn runs


async def test_interrupted_while_the_summary_is_written(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    summariser = Summariser(GOOD, pause=asyncio.Event())
    agent, model = agent_on(db, session_id="s", auxiliary=summariser)
    turn = asyncio.create_task(agent.run(Question("And now?")))
    await summariser.asked.wait()
    agent.interrupt()
    result = await turn
    assert result.interrupted and model.calls == 0
    assert db.get_compression_lineage("s") == ["s"]
    assert db.get_compression_lock_holder("s") is None
    assert [m["content"] for m in db.get_messages("s")[-2:]] == [
        "And now?",
        "[Interrupted before an answer.]",
    ]


async def test_steered_while_the_summary_is_written(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    gate = asyncio.Event()
    summariser = Summariser(GOOD, pause=gate)
    agent, model = agent_on(db, session_id="s", auxiliary=summariser)
    turn = asyncio.create_task(agent.run(Question("And now?")))
    await summariser.asked.wait()
    assert agent.steer("Make it blue.")
    gate.set()
    result = await turn
    assert result.text == "ok" and agent.session_id != "s"
    assert "Make it blue." in str(model.requests[-1].messages[-1]["content"])


async def test_a_summariser_that_hangs_is_given_up(db: SessionDB) -> None:
    marks = store_talk(db, "s", 60)
    summariser = Summariser(GOOD, pause=asyncio.Event())
    agent, _ = agent_on(db, session_id="s", auxiliary=summariser, compression_timeout=0.05)
    result = await agent.run(Question("And now?"))
    assert result.text == "ok" and agent.session_id != "s"
    assert db.get_compression_failure_cooldown(agent.session_id) is not None
    check_conversation(db, "s", marks)


# Others


@pytest.mark.parametrize("mode", ["rotation", "in place"])
async def test_what_others_say_meanwhile_is_kept(db: SessionDB, mode: str) -> None:
    marks = store_talk(db, "s", 60)
    gate = asyncio.Event()
    summariser = Summariser(GOOD, pause=gate)
    settings = in_place() if mode == "in place" else None
    agent, _ = agent_on(db, session_id="s", auxiliary=summariser, compression=settings)
    work = asyncio.create_task(agent.acompress())
    await summariser.asked.wait()
    db.append_message("s", "user", "zebra meanwhile")
    gate.set()
    assert (await work).compressed
    live = [m["content"] for m in db.get_messages(agent.session_id)]
    assert live[-1] == "zebra meanwhile" and live.count("zebra meanwhile") == 1
    check_conversation(db, "s", [*marks, "zebra"])


@pytest.mark.parametrize("mode", ["rotation", "in place"])
async def test_messages_taken_back_meanwhile_do_not_return(db: SessionDB, mode: str) -> None:
    store_talk(db, "s", 20)
    gate = asyncio.Event()
    summariser = Summariser(GOOD, pause=gate)
    settings = in_place() if mode == "in place" else None
    agent, _ = agent_on(db, session_id="s", auxiliary=summariser, compression=settings)
    work = asyncio.create_task(agent.acompress())
    await summariser.asked.wait()
    target = db.get_messages("s")[-2]["id"]
    db.rewind_to_message("s", target)
    gate.set()
    result = await work
    assert not result.compressed and result.reason
    assert len(db.get_messages("s")) == 38 and agent.session_id == "s"


@pytest.mark.parametrize("mode", ["rotation", "in place"])
def test_two_at_once_get_one_result(tmp_path: Path, mode: str) -> None:
    """Two processes' worth of agents: own stores, own threads, the same conversation."""
    path = tmp_path / "state.db"
    with SessionDB(path) as first, SessionDB(path) as second:
        marks = store_talk(first, "s", 60)
        settings = in_place() if mode == "in place" else None
        start = threading.Barrier(2)
        agents = [
            agent_on(db, session_id="s", auxiliary=Summariser(GOOD), compression=settings)[0]
            for db in (first, second)
        ]
        results: list[object] = []

        def work(number: int) -> None:
            start.wait()
            results.append(agents[number].run_conversation(f"question {number}"))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 2
        assert all(result["final_response"] == "ok" for result in results)  # type: ignore[index]
        lineage = first.get_compression_lineage("s")
        assert len(lineage) == (1 if mode == "in place" else 2)
        # Two questions at once stand side by side until the next request is made of them.
        check_conversation(first, "s", marks, valid=False)
        for agent in agents:
            agent._journal.refresh_blocking()
        assert {agent.session_id for agent in agents} == {lineage[-1]}
        live = [m["content"] for m in first.get_messages(lineage[-1])]
        records = [text for text in live if "Record of earlier" in str(text)]
        assert len(records) == 1
        assert {"question 0", "question 1"} <= set(live)


async def test_the_second_one_waits_and_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    loop, refused = asyncio.get_running_loop(), asyncio.Event()
    with SessionDB(path) as first, SessionDB(path) as second:
        store_talk(first, "s", 60)
        gate = asyncio.Event()
        slow, quick = Summariser(GOOD, pause=gate), Summariser(GOOD)
        one, _ = agent_on(first, session_id="s", auxiliary=slow)
        two, _ = agent_on(second, session_id="s", auxiliary=quick)
        acquire = second.try_acquire_compression_lock

        def acquire_noted(*args: Any) -> bool:
            is_acquired = bool(acquire(*args))
            if not is_acquired:
                loop.call_soon_threadsafe(refused.set)
            return is_acquired

        monkeypatch.setattr(second, "try_acquire_compression_lock", acquire_noted)
        winner = asyncio.create_task(one.acompress())
        await slow.asked.wait()
        loser = asyncio.create_task(two.acompress())
        await refused.wait()
        gate.set()
        won, lost = await asyncio.gather(winner, loser)
        assert won.compressed and not lost.compressed
        assert lost.session_id == won.session_id == two.session_id
        assert "first" in lost.reason and quick.prompts == []


async def test_the_lock_of_a_killed_process_is_taken_over(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = f"{name_process(child.pid)}|x"
    child.kill()
    child.communicate()
    db.try_acquire_compression_lock("s", holder, 3600)
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD))
    assert (await agent.acompress()).method == "summary"


async def test_the_lock_of_a_process_whose_id_was_used_again_is_taken_over(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    *place, pid, start = this_process().split("|")
    db.try_acquire_compression_lock("s", "|".join((*place, pid, str(int(start) - 1), "x")), 3600)
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD))
    assert (await agent.acompress()).method == "summary"


async def test_the_lock_of_another_container_is_left_to_it(db: SessionDB) -> None:
    """Its process ids mean nothing here, even if both containers have the same host name."""
    store_talk(db, "s", 60)
    holder = "|".join((*machine()[:2], "pid:[1]", "4000000", "1", "x"))
    db.try_acquire_compression_lock("s", holder, 3600)
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD), compression_timeout=0.05)
    assert "Another process" in (await agent.acompress()).reason


async def test_whoever_does_not_come_back_is_not_waited_for(db: SessionDB) -> None:
    """A holder that hangs: what must fit is shortened without the lock, the rest is left."""
    store_talk(db, "s", 60)
    assert db.try_acquire_compression_lock("s", "somebody", 3600)
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD), compression_timeout=0.05)
    refused = await agent.acompress()
    assert not refused.compressed and "Another process" in refused.reason
    assert (await agent.run(Question("And now?"))).text == "ok"
    assert agent.session_id != "s"
    assert db.get_compression_lock_holder("s") == "somebody"
