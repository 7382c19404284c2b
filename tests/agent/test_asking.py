"""Questions of a turn, told to whoever watches it while they are open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent import AIAgent
from agent.asking import described
from agent.events import Event, QuestionAsked, QuestionClosed
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, call, say
from hermes_state import SessionDB
from tools.base import ApprovalRequest, Choice, NobodyToAsk
from tools.delegate import delegate_task
from tools.planning import clarify
from tools.registry import Registry
from tools.terminal.tool import terminal

SECRET = "sk-ant-api03-" + "A1b2C3d4" * 12


class Person:
    """Answers at once, and says what watchers knew by then."""

    def __init__(self, events: list[Event], *, is_there: bool = True) -> None:
        self._events, self._is_there = events, is_there
        self.open: list[QuestionAsked] = []

    def can_ask(self, kind: str) -> bool:
        return self._is_there

    def approve(self, request: ApprovalRequest) -> Choice:
        self._look()
        return "deny"

    def clarify(self, question: str, choices: list[str]) -> str:
        self._look()
        return "red"

    def _look(self) -> None:
        self.open += [event for event in self._events if isinstance(event, QuestionAsked)][-1:]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def questions(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, QuestionAsked | QuestionClosed)]


def watched(db: SessionDB, *steps: Step, is_there: bool = True) -> tuple[Person, list[Event]]:
    events: list[Event] = []
    person = Person(events, is_there=is_there)
    agent = AIAgent(
        ScriptedModel([*steps, say("Done.")]),
        db=db,
        tools=Registry([clarify, terminal, delegate_task]),
        asker=person,
        platform="telegram",
        on_event=events.append,
    )
    assert agent.run_conversation("Go")["final_response"] == "Done."
    return person, questions(events)


def test_watchers_know_before_the_person_is_asked_and_when_it_is_over(db: SessionDB) -> None:
    person, told = watched(db, call("clarify", question="Which one?", choices=["red"]))
    asked = told[0]
    assert isinstance(asked, QuestionAsked)
    assert person.open == [asked]
    assert asked[1:] == ("clarify", "Which one?", ["red"], 0.0, "telegram", "", False)
    assert told[1:] == [QuestionClosed(asked.request_id)]


def test_an_approval_is_told_without_secrets(db: SessionDB) -> None:
    command = f"rm -rf /srv/x; echo {SECRET}"
    person, told = watched(db, call("terminal", command=command))
    asked = told[0]
    assert isinstance(asked, QuestionAsked)
    assert (asked.kind, asked.choices[-1]) == ("approval", "deny")
    assert "rm -rf /srv/x" in asked.subject and SECRET not in str(asked)
    assert person.open == [asked]
    assert "rm -rf /srv/x" in described(asked) and SECRET not in described(asked)


def test_where_nobody_is_reached_nothing_is_told(db: SessionDB) -> None:
    steps = (call("clarify", question="Which one?"), call("terminal", command="rm -rf /srv/x"))
    assert watched(db, *steps, is_there=False)[1] == []
    events: list[Event] = []
    agent = AIAgent(
        ScriptedModel([*steps, say("Done.")]),
        db=db,
        tools=Registry([clarify, terminal]),
        asker=NobodyToAsk(),
        on_event=events.append,
    )
    agent.run_conversation("Go")
    assert questions(events) == []


def test_questions_of_sub_agents_are_those_of_the_turn(db: SessionDB) -> None:
    def answer(request: ModelRequest) -> Step:
        if "sub-agent" in request.system and request.messages[-1]["role"] == "user":
            return call("terminal", command="rm -rf /srv/x")
        return say("Done.")

    steps = (call("delegate_task", tasks=[{"goal": "delete it"}]), answer, answer)
    person, told = watched(db, *steps)  # type: ignore[arg-type]
    assert [type(event) for event in told] == [QuestionAsked, QuestionClosed]
    assert person.open == [told[0]]
