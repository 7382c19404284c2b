"""What a request carries reaches its turn, and only that turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent import AIAgent
from agent.events import (
    Event,
    TextStreamed,
    TitleSet,
    TurnFinished,
    TurnStarted,
    watch_all,
    watch_text,
)
from agent.request import DeliverTo, Question, TakenOver, WaitingNotes
from agent.scripted import ScriptedModel, call, say
from hermes_state import SessionDB
from tools.base import Tool, ToolContext, Workspace
from tools.registry import Registry

TO = {"session_key": "k", "platform": "local", "chat_id": "1", "thread_id": None}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as opened:
        yield opened


def contents(db: SessionDB, session_id: str) -> list[str]:
    return [message["content"] for message in db.get_messages(session_id)]


def test_a_note_is_sent_with_its_question_and_never_stored(db: SessionDB) -> None:
    model = ScriptedModel([say("one"), say("two")])
    agent = AIAgent(model, db=db, session_id="s")
    agent.run_blocking(Question("first", note="be brief"))
    agent.run_blocking(Question("second"))
    assert model.requests[0].messages[-1]["content"] == "first\n\nbe brief"
    assert [message["content"] for message in model.requests[1].messages] == [
        "first", "one", "second",
    ]  # fmt: skip
    assert contents(db, "s") == ["first", "one", "second", "two"]


def test_instructions_stand_in_the_prompt_of_a_session_that_begins_with_them(
    db: SessionDB,
) -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    agent = AIAgent(model, db=db, session_id="s", system_prompt="You are here.")
    agent.run_blocking(Question("a", instructions="Speak French."))
    agent.run_blocking(Question("b", instructions="Speak French."))
    agent.run_blocking(Question("c", instructions="Speak Latin."))
    prompt = "You are here.\n\nSpeak French."
    assert [request.system for request in model.requests] == [prompt] * 3
    assert model.requests[1].messages[-1]["content"] == "b"
    assert model.requests[2].messages[-1]["content"] == "c\n\nSpeak Latin."
    assert contents(db, "s")[4] == "c"


def test_further_parts_of_a_message_are_taken_with_it(db: SessionDB) -> None:
    for name in ("m1", "m2"):
        db.accept_message(name, "s", name, source="cli")
    agent = AIAgent(ScriptedModel([say("Hi.")]), db=db, session_id="s")
    agent.run_blocking(Question("m1 m2", ("m1", "m2")))
    assert db.list_waiting("s") == []


def test_answers_go_where_the_request_says_and_only_those(db: SessionDB) -> None:
    agent = AIAgent(ScriptedModel([say("one"), say("two"), say("three")]), db=db, session_id="s")
    agent.run_blocking(Question("a", deliver_to=DeliverTo("in1", TO)))
    agent.run_blocking(Question("b"))
    db.add_note("n", "s", "it has ended")
    agent.run_blocking(WaitingNotes(DeliverTo("in3", TO)))
    rows = [(row["obligation_id"], row["content"]) for row in db.list_deliveries()]
    assert rows == [("in1:1", "one"), ("in3:1", "three")]


def test_a_turn_that_is_taken_over_is_delivered_under_a_name_of_its_own(db: SessionDB) -> None:
    target = DeliverTo("in1", TO)
    db.begin_turn(
        "s", {"role": "user", "content": "go"}, source="local", facts={}, leased=True,
        deliver_to={"id": target.id, "to": dict(target.to)},
    )  # fmt: skip
    db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
    (turn,) = db.list_abandoned_turns()
    taken = db.take_over_turn("s", turn["fence"])
    assert taken is not None
    request = TakenOver(taken)
    assert request.deliver_to == DeliverTo("in1~2", TO)
    agent = AIAgent(ScriptedModel([say("done")]), db=db, session_id="s")
    assert agent.run_blocking(request).text == "done"
    assert [row["obligation_id"] for row in db.list_deliveries()] == ["in1~2:1"]


def test_a_mode_holds_from_its_question_on(db: SessionDB, tmp_path: Path) -> None:
    agent = AIAgent(
        ScriptedModel([say("one"), say("two"), say("three")]),
        db=db,
        session_id="s",
        workspace=Workspace(tmp_path, tmp_path),
    )
    agent.run_blocking(Question("a"))
    assert agent.workspace.mode == "guarded"
    agent.run_blocking(Question("b", mode="plan"))
    assert agent.workspace.mode == "plan" and db.get_wall_settings("s")["mode"] == "plan"
    agent.run_blocking(Question("c"))
    assert agent.workspace.mode == "plan"


def test_a_mode_without_a_store(tmp_path: Path) -> None:
    agent = AIAgent(ScriptedModel([say("one")]), workspace=Workspace(tmp_path, tmp_path))
    agent.run_blocking(Question("a", mode="plan"))
    assert agent.workspace.mode == "plan"


def test_a_watcher_hears_its_turn_and_the_listener_hears_all(db: SessionDB) -> None:
    all_events: list[Event] = []
    first: list[Event] = []
    agent = AIAgent(ScriptedModel([say("one"), say("two")]), db=db, on_event=all_events.append)
    agent.run_blocking(Question("a"), watch=first.append)
    heard = list(first)
    agent.run_blocking(Question("b"))
    agent.announce(TitleSet(agent.session_id, "A title"))
    assert first == heard and isinstance(heard[-1], TurnFinished)
    assert sum(isinstance(event, TurnFinished) for event in all_events) == 2
    assert all_events[: len(heard)] == heard and isinstance(all_events[-1], TitleSet)


def test_a_tool_knows_the_turn_it_runs_in(db: SessionDB) -> None:
    turns: list[str] = []
    events: list[Event] = []

    def look(context: ToolContext) -> str:
        turns.append(context.turn.id)
        return "nothing"

    steps = [call("look"), say("one"), call("look"), say("two")]
    agent = AIAgent(ScriptedModel(steps), db=db, tools=Registry([Tool("look", "", look)]))
    for question in ("a", "b"):
        agent.run_blocking(Question(question), watch=events.append)
    assert turns == [event.turn_id for event in events if isinstance(event, TurnStarted)]
    assert len(set(turns)) == 2


def test_a_watcher_that_fails_keeps_nobody_else_from_hearing() -> None:
    heard: list[str] = []

    def broken(event: Event) -> None:
        raise RuntimeError("no screen")

    watch_all(broken, None, watch_text(heard.append))(TextStreamed("a"))
    assert heard == ["a"]
