"""What is told to a conversation that nobody asked for: stored first, read once, answered."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.errors import RequestRefusedError
from agent.events import Event, NoteStored, Steered
from agent.model import ModelRequest
from agent.outcome import Answered, Interrupted, NotStarted, TurnOutcome
from agent.request import WaitingNotes
from agent.scripted import ScriptedModel, Step, StepLike, call, fail, say
from hermes_state import SessionDB
from hermes_state.history import repair_message_sequence
from tools.base import ToolContext, Workspace, tool
from tools.processes.background import table_of
from tools.registry import Registry
from tools.terminal.tool import terminal

from .. import seeds
from .histories import problems

CHILD = Path(__file__).with_name("noting_child.py")
KILLS = 10


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def said(db: SessionDB) -> list[str]:
    return [message["content"] or "" for message in db.get_messages("s")]


def steering(steer: str, agents: list[AIAgent]) -> Registry:
    """A tool during which somebody steers the turn."""

    @tool(toolset="test", effect="none")
    def work(context: ToolContext) -> str:
        """Work, and be told something meanwhile."""
        assert agents[0].steer(steer)
        return "worked"

    return Registry([work])


def new_agent(
    db: SessionDB, steps: list[StepLike], steer: str = "Look left.", **options: Any
) -> AIAgent:
    agents: list[AIAgent] = []
    agents.append(
        AIAgent(
            ScriptedModel(steps), db=db, session_id="s", tools=steering(steer, agents), **options
        )
    )
    return agents[0]


def test_it_is_stored_before_it_is_confirmed_and_read_at_the_next_step(db: SessionDB) -> None:
    waiting: list[bool] = []
    told: list[Event] = []

    def on_event(event: Event) -> None:
        if isinstance(event, NoteStored):
            waiting.append(db.has_notes("s"))
        else:
            told.append(event)

    agent = new_agent(db, [call("work"), say("I look left.")], on_event=on_event)
    assert agent.run_conversation("go")["final_response"] == "I look left."
    assert waiting == [True]
    assert Steered("Look left.") in told
    assert said(db)[-3:] == ["worked", "Look left.", "I look left."]
    assert not db.has_notes("s")


def test_what_comes_with_the_last_words_is_answered_in_the_same_turn(db: SessionDB) -> None:
    agent: AIAgent

    def last_words(request: ModelRequest) -> Step:
        agent.steer("And this?")
        return say("done")

    agent = AIAgent(ScriptedModel([last_words, say("that too")]), db=db, session_id="s")
    result = agent.run_conversation("go")
    assert result["final_response"] == "that too"
    assert result["pending_steering"] == []
    assert said(db) == ["go", "done", "And this?", "that too"]
    assert db.list_abandoned_turns() == [] and db.get_turn("s")["state"] == "ended"  # type: ignore[index]


def interrupted(agent: AIAgent) -> Step:
    return say("half", agent.interrupt, 3600.0)


def failed(agent: AIAgent) -> Step:
    return fail(RequestRefusedError("no such model"))


@pytest.mark.parametrize("end", [interrupted, failed])
def test_a_turn_that_ends_first_leaves_it_for_one_of_its_own(db: SessionDB, end: object) -> None:
    agent: AIAgent

    def steered(request: ModelRequest) -> Step:
        assert agent.steer("Look left.")
        return end(agent)  # type: ignore[operator, no-any-return]

    agent = AIAgent(ScriptedModel([steered, say("I look left.")]), db=db, session_id="s")
    result = agent.run_conversation("go")
    assert result["interrupted"] or result["failed"]
    assert db.has_notes("s") and db.list_noted() == ["s"]
    assert agent.run_blocking(WaitingNotes()).text == "I look left."
    assert said(db)[-2:] == ["Look left.", "I look left."]
    assert isinstance(agent.run_blocking(WaitingNotes()), NotStarted)
    assert problems(repair_message_sequence(db.get_messages("s"))) == []


def test_nothing_is_confirmed_that_cannot_be_stored(db: SessionDB, tmp_path: Path) -> None:
    errors: list[Exception] = []
    agent: AIAgent

    def steered(request: ModelRequest) -> Step:
        other = SessionDB(tmp_path / "other.db")
        other.close()
        agent.db, kept = other, agent.db
        try:
            agent.steer("Look left.")
        except Exception as error:  # noqa: BLE001 - whichever: it was not confirmed
            errors.append(error)
        agent.db = kept
        return say("done")

    agent = AIAgent(ScriptedModel([steered]), db=db, session_id="s")
    agent.run_conversation("go")
    assert len(errors) == 1
    assert not agent.steer("nobody listens")


def test_of_two_processes_that_tell_it_one_does(db: SessionDB, tmp_path: Path) -> None:
    db.begin_turn("s", {"role": "user", "content": "hello"}, source="cli", facts={})
    db.add_note("n", "s", "it has ended")
    with SessionDB(tmp_path / "state.db") as other:
        agents = [
            AIAgent(ScriptedModel([say("I see.")]), db=one, session_id="s") for one in (db, other)
        ]
        outcomes: list[TurnOutcome] = []
        threads = [
            threading.Thread(target=lambda a=a: outcomes.append(a.run_blocking(WaitingNotes())))
            for a in agents
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {type(outcome) for outcome in outcomes} == {Answered, NotStarted}
    assert said(db)[-2:] == ["it has ended", "I see."]


def test_the_end_of_a_process_is_a_turn_of_its_own(db: SessionDB, tmp_path: Path) -> None:
    stored = threading.Event()
    model = ScriptedModel(
        [
            call("terminal", command="read x; exit 3", background=True, notify_on_complete=True),
            say("It runs."),
            say("It failed."),
        ]
    )
    agent = AIAgent(
        model,
        db=db,
        session_id="s",
        tools=Registry([terminal]),
        workspace=Workspace(tmp_path, tmp_path),
        on_event=lambda event: stored.set() if isinstance(event, NoteStored) else None,
    )
    assert agent.run_conversation("start it")["final_response"] == "It runs."
    assert isinstance(agent.run_blocking(WaitingNotes()), NotStarted)
    (process,) = table_of(agent.workspace).all()
    process.run.child.close_input()
    assert stored.wait(60)
    assert agent.run_blocking(WaitingNotes()).text == "It failed."
    (note,) = [text for text in said(db) if text.startswith(f"[{process.id} ended")]
    assert "exit code 3" in note
    agent.close()


async def test_a_long_note_turn_is_interrupted_like_any_other(db: SessionDB) -> None:
    db.begin_turn("s", {"role": "user", "content": "hello"}, source="cli", facts={})
    db.add_note("n", "s", "it has ended")
    agent: AIAgent
    agent = AIAgent(
        ScriptedModel([lambda request: say("half", agent.interrupt, 3600.0)]), db=db, session_id="s"
    )
    outcome = await asyncio.wait_for(agent.run(WaitingNotes()), 20)
    assert isinstance(outcome, Interrupted)
    assert said(db)[-2:] == ["it has ended", "half"]


def test_killed_at_random_moments_what_was_confirmed_is_read_once(tmp_path: Path) -> None:
    chance = random.Random(seeds.seed())
    first = 0
    confirmed: set[int] = set()
    for _ in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(chance.randint(2, 5))]
        time.sleep(chance.uniform(0, 0.01))  # a moment that is random within a step
        child.kill()
        lines += child.stdout.read().splitlines()
        child.wait()
        for line in lines:
            what, _, number = line.strip().partition(" ")
            if number:
                first = max(first, int(number) + 1)
            if what == "confirmed":
                confirmed.add(int(number))
    with SessionDB(tmp_path / "state.db") as db:
        agent = AIAgent(ScriptedModel([say("I am back.")] * 3), db=db, session_id="s")
        agent.run_conversation("Are you there?")
        texts = said(db)
        assert confirmed
        for number in range(first):
            assert texts.count(f"steered {number}") <= 1
        assert all(f"steered {number}" in texts for number in confirmed)
        assert not db.has_notes("s")
        assert problems(repair_message_sequence(db.get_messages("s"))) == []
