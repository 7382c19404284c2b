"""A turn outlives its process: another one brings it to its end, once, and the first says nothing.

Real processes, killed or stopped at named places of a turn.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from durable_child import PLACES, new_agent

import hermes_state.turns
from agent.agent import AIAgent
from agent.config.schema import AgentSettings
from agent.events import Event, Noticed, Steered
from agent.heartbeat import Heart, heart
from agent.model import ModelRequest
from agent.outcome import Failed, NotStarted, Superseded
from agent.request import Question, TakenOver
from agent.scripted import Call, ScriptedModel, Step, calls, say
from conversation.abandoned import (
    CUT_OFF,
    MAX_ATTEMPTS,
    MAX_ATTEMPTS_WITHOUT_PROGRESS,
    take_over_turn,
)
from hermes_state import SessionDB, StoreFullError
from hermes_state.history import OUTCOME_UNKNOWN
from hermes_state.take_over import TakenTurn
from hermes_state.turns import Lease
from tools.base import ToolContext, tool
from tools.registry import Registry

from .histories import problems

CHILD = Path(__file__).with_name("durable_child.py")
ALL = ["Mark twice.", "", "marked a", "seen", "marked b", "2 of 2 marks are certain."]
EXPECTED = {
    # (history after the take-over, marks made, tools of unknown outcome)
    "before the model": (ALL, ["a", "b"], []),
    "first tool": (
        ["Mark twice.", "", OUTCOME_UNKNOWN, "seen", "marked b", "1 of 2 marks are certain."],
        ["a", "b"],
        ["mark"],
    ),
    "second tool": (
        ["Mark twice.", "", "marked a", "seen", OUTCOME_UNKNOWN, "1 of 2 marks are certain."],
        ["a", "b"],
        ["mark"],
    ),
    "last request": (ALL, ["a", "b"], []),
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def begin_in_child(folder: Path, place: str, way: str = "die") -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), place, way], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "there\n"
    if way == "die":
        assert child.wait() == -signal.SIGKILL
    else:  # it stands still only after it has said so
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    return child


def take(db: SessionDB, **settings: Any) -> TakenTurn | None:
    (found,) = db.list_abandoned_turns()
    return take_over_turn(db, found, AgentSettings(**settings))


def history(db: SessionDB) -> list[str]:
    messages = db.get_messages("s")
    assert problems(messages) == []
    return [str(one["content"] or "") for one in messages]


def marks(folder: Path) -> list[str]:
    path = folder / "marks"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("place", [place for place in PLACES if place in EXPECTED])
def test_a_turn_is_brought_to_its_end(tmp_path: Path, place: str) -> None:
    begin_in_child(tmp_path, place)
    told, made, unknown = EXPECTED[place]
    with SessionDB(tmp_path / "state.db") as db:
        taken = take(db)
        assert taken is not None and taken.unknown == unknown
        agent = new_agent(db, tmp_path)
        seen: list[Event] = []
        outcome = asyncio.run(agent.run(TakenOver(taken), watch=seen.append))
        assert outcome.completed and outcome.text == told[-1]
        assert history(db) == told
        assert marks(tmp_path) == made, "an effect twice, or not at all"
        notices = [event.text for event in seen if isinstance(event, Noticed)]
        assert len(notices) == len(unknown) and all("mark" in text for text in notices)
        assert db.list_abandoned_turns() == []
        assert agent.run_conversation("And now?")["completed"]


def test_a_turn_that_was_answered_is_over(tmp_path: Path) -> None:
    begin_in_child(tmp_path, "after the answer")
    with SessionDB(tmp_path / "state.db") as db:
        assert db.list_abandoned_turns() == []
        assert history(db) == ALL


def test_a_process_that_wakes_up_late_can_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = begin_in_child(tmp_path, "second tool", "stop")
    monkeypatch.setattr(hermes_state.turns, "LEASE_SECONDS", -1.0)  # as if it had slept for long
    with SessionDB(tmp_path / "state.db") as db:
        taken = take(db)
        assert taken is not None
        monkeypatch.undo()
        outcome = asyncio.run(new_agent(db, tmp_path).run(TakenOver(taken)))
        assert outcome.completed
        before = history(db)
        os.kill(child.pid, signal.SIGCONT)
        said, _ = child.communicate()
        assert said == "superseded True None\n"
        assert history(db) == before == EXPECTED["second tool"][0]
        assert marks(tmp_path) == ["a", "b"]


def test_too_old_or_asked_first_is_closed_and_said(tmp_path: Path) -> None:
    begin_in_child(tmp_path, "second tool")
    with SessionDB(tmp_path / "state.db") as db:
        assert take(db, gateway_auto_continue_freshness=0) is None
        assert history(db)[-2:] == [OUTCOME_UNKNOWN, "[The answer to this was cut off.]"]
        assert db.list_abandoned_turns() == []
        begin_again = new_agent(db, tmp_path).run_conversation("continue")
        assert begin_again["final_response"] == "1 of 2 marks are certain."


def test_ask_first(tmp_path: Path) -> None:
    begin_in_child(tmp_path, "before the model")
    with SessionDB(tmp_path / "state.db") as db:
        assert take(db, cut_off_turns="ask") is None
        assert history(db) == ["Mark twice.", "[The answer to this was cut off.]"]


def test_a_turn_that_ends_every_process_is_given_up(tmp_path: Path) -> None:
    begin_in_child(tmp_path, "before the model")
    with SessionDB(tmp_path / "state.db") as db:
        attempts = 1
        while (taken := take(db)) is not None:
            attempts += 1
            db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
        assert attempts == MAX_ATTEMPTS_WITHOUT_PROGRESS
        assert taken is None and history(db)[-1] == "[The answer to this was cut off.]"


def test_a_turn_that_goes_round_in_circles_is_given_up(tmp_path: Path) -> None:
    begin_in_child(tmp_path, "before the model")
    with SessionDB(tmp_path / "state.db") as db:
        db._execute_write(
            lambda conn: conn.execute("UPDATE turns SET attempts = ?", (MAX_ATTEMPTS - 1,))
        )
        assert take(db) is not None
        db._execute_write(
            lambda conn: conn.execute(
                "UPDATE turns SET attempts_without_progress = 0, heartbeat_at = 0"
            )
        )
        assert take(db) is None


def test_a_chat_is_told_that_its_turn_was_closed(db: SessionDB) -> None:
    to = {"session_key": "k", "platform": "local", "chat_id": "1"}
    message = {"role": "user", "content": "Go"}
    db.begin_turn(
        "s", message, source="local", facts={}, leased=True, deliver_to={"id": "in1", "to": to}
    )
    db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
    assert take(db, cut_off_turns="ask") is None
    assert [row["content"] for row in db.list_deliveries()] == [CUT_OFF]


# Two turns, one conversation


async def test_a_second_turn_waits_for_the_first(db: SessionDB) -> None:
    gate = asyncio.Event()
    first = AIAgent(ScriptedModel([say(gate, "one")]), db=db, session_id="s")
    second = AIAgent(ScriptedModel([say("two")]), db=db, session_id="s")
    noticed = asyncio.Event()

    def watch(event: Event) -> None:
        if isinstance(event, Noticed):
            noticed.set()

    running = asyncio.create_task(first.run(Question("First?")))
    while db.get_turn("s") is None:
        await asyncio.sleep(0)
    waiting = asyncio.create_task(second.run(Question("Second?"), watch=watch))
    await noticed.wait()
    assert [m["content"] for m in db.get_messages("s")] == ["First?"]
    gate.set()
    assert (await running).text == "one"
    assert (await waiting).text == "two"
    assert [m["content"] for m in db.get_messages("s")] == ["First?", "one", "Second?", "two"]


async def test_waiting_can_be_interrupted(db: SessionDB) -> None:
    gate = asyncio.Event()
    first = AIAgent(ScriptedModel([say(gate, "one")]), db=db, session_id="s")
    second = AIAgent(ScriptedModel([]), db=db, session_id="s")
    noticed = asyncio.Event()

    def watch(event: Event) -> None:
        if isinstance(event, Noticed):
            noticed.set()

    running = asyncio.create_task(first.run(Question("First?")))
    while db.get_turn("s") is None:
        await asyncio.sleep(0)
    waiting = asyncio.create_task(second.run(Question("Second?"), watch=watch))
    await noticed.wait()
    assert second.interrupt()
    outcome = await waiting
    assert isinstance(outcome, NotStarted) and outcome.reason == "stopped"
    assert outcome.interrupted and not outcome.failed and outcome.api_calls == 0
    gate.set()
    await running
    assert [m["content"] for m in db.get_messages("s")] == ["First?", "one"]


async def test_a_turn_that_is_taken_over_stops_where_it_is(db: SessionDB) -> None:
    stuck = asyncio.Event()
    agent = AIAgent(ScriptedModel([say(stuck, "never")]), db=db, session_id="s")
    running = asyncio.create_task(agent.run(Question("Go")))
    while db.get_turn("s") is None:
        await asyncio.sleep(0)
    db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
    (found,) = db.list_abandoned_turns()
    taken = db.take_over_turn("s", found["fence"])
    assert taken is not None
    await asyncio.to_thread(heart.beat)
    outcome = await running
    assert isinstance(outcome, Superseded) and outcome.is_silent
    assert outcome.failed and outcome.error and "taken over" in outcome.error
    assert [m["content"] for m in db.get_messages("s")] == ["Go"]
    other = AIAgent(ScriptedModel([say("Here.")]), db=db, session_id="s")
    assert (await other.run(TakenOver(taken))).text == "Here."


async def test_a_failing_turn_gives_its_lease_back(db: SessionDB) -> None:
    agent = AIAgent(ScriptedModel([RuntimeError("broken")]), db=db, session_id="s")
    assert (await agent.run(Question("Go"))).failed
    turn = db.get_turn("s")
    assert turn is not None and turn["state"] == "ended"


async def test_a_turn_that_could_not_be_ended_is_not_waited_for(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = AIAgent(ScriptedModel([say("one"), say("two")]), db=db, session_id="s")
    real = db._execute_write
    works = itertools.count()

    def only_the_question(work: Any, *about: Any, **how: Any) -> Any:
        if next(works):
            raise StoreFullError("No room left.")
        return real(work, *about, **how)

    monkeypatch.setattr(db, "_execute_write", only_the_question)
    refused = await agent.run(Question("First?"))
    assert isinstance(refused, Failed) and refused.error and "No room" in refused.error
    monkeypatch.undo()
    turn = db.get_turn("s")
    assert turn is not None and turn["state"] == "running" and db.list_abandoned_turns() == []
    seen: list[Event] = []
    assert (await agent.run(Question("Second?"), watch=seen.append)).text == "two"
    assert not any(isinstance(event, Noticed) for event in seen), "it waited for itself"
    told = [m["content"] for m in db.get_messages("s")]
    assert told == ["First?", "[The answer to this was cut off.]", "Second?", "two"]


# The heartbeat


def test_the_heart_beats_while_a_turn_runs(db: SessionDB) -> None:
    lease = db.begin_turn(
        "s", {"role": "user", "content": "Go"}, source="cli", facts={}, leased=True
    ).lease
    assert lease is not None
    db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
    beating = Heart(seconds=0.01)
    lost = threading.Event()
    beating.begin(db, lease, lost.set)
    while db.list_abandoned_turns():
        threading.Event().wait(0.005)
    beating.begin(db, Lease("another", 7, "somebody"), lost.set)
    assert lost.wait(30), "nobody said that the lease is not ours"
    beating.end(db, lease)
    db.end_turn(lease)


def test_tools_are_written_down_before_they_run(db: SessionDB) -> None:
    known: list[list[tuple[str, str]]] = []

    def peek(context: ToolContext) -> str:
        runs = db.list_tool_runs("s")
        known.append([(run["effect"], run["state"]) for run in runs])
        return "ok"

    registry = Registry([tool(toolset="test", effect="effectful")(peek)])
    script = ScriptedModel([calls([Call("peek"), Call("peek")]), say("Done.")])
    AIAgent(script, db=db, session_id="s", tools=registry).run_conversation("Go")
    assert known == [
        [("effectful", "started")],
        [("effectful", "finished"), ("effectful", "started")],
    ]
    assert db.list_tool_runs("s") == [], "they go with the turn"


async def test_a_message_that_was_taken_back_before_it_was_read_does_not_hold_up_the_turn(
    db: SessionDB,
) -> None:
    db.accept_message("m", "s", "Look left.")

    def steered(request: ModelRequest) -> Step:
        assert agent.steer("Look left.", "m")
        assert db.drop_message("m")
        return say("I look.")

    seen: list[Event] = []
    agent = AIAgent(ScriptedModel([steered]), db=db, session_id="s")
    outcome = await agent.run(Question("Look."), watch=seen.append)
    assert (outcome.status, outcome.text) == ("complete", "I look.")
    assert [one["content"] for one in db.get_messages("s")] == ["Look.", "I look."]
    assert not [event for event in seen if isinstance(event, Steered)]
    turn = db.get_turn("s")
    assert turn is not None and turn["state"] == "ended"


async def test_a_turn_is_named_by_the_number_of_its_lease(db: SessionDB) -> None:
    tried: list[bool] = []

    def answer(request: ModelRequest) -> Step:
        fence = len(tried) // 3 + 1
        tried.extend((
            agent.runs_turn(fence),
            agent.interrupt(fence - 1) or agent.interrupt(fence + 1),
            agent.steer("Not for this one", "m", fence - 1),
        ))  # fmt: skip
        return say("Done.")

    agent = AIAgent(ScriptedModel([answer, answer]), db=db, session_id="s")
    for _ in range(2):
        assert (await agent.run(Question("Go."))).status == "complete"
    assert tried == [True, False, False] * 2
    assert not agent.runs_turn(2)
    assert not agent.interrupt(2)
