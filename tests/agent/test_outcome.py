"""A turn's outcome by kind, and the public dict that is made from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.errors import RequestRefusedError
from agent.events import Event, TextStreamed
from agent.model import Usage
from agent.outcome import (
    Answered,
    Failed,
    Interrupted,
    NotStarted,
    Superseded,
    TurnOutcome,
    as_dict,
    outcome_from_dict,
    usage_dict,
)
from agent.request import Question, WaitingNotes
from agent.scripted import ScriptedModel, call, fail, say
from hermes_state import SessionDB, StoreFullError
from tools.base import Tool
from tools.registry import Registry

KEYS = {
    "final_response", "messages", "api_calls", "session_id", "completed", "partial", "failed",
    "interrupted", "superseded", "error", "model", "usage", "last_prompt_tokens",
    "pending_steering",
}  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as opened:
        yield opened


def flags(outcome: TurnOutcome) -> set[str]:
    """What the public dict says of the end."""
    names = ("completed", "partial", "failed", "interrupted", "superseded")
    return {name for name in names if as_dict(outcome)[name]}


def test_an_answer(db: SessionDB) -> None:
    agent = AIAgent(ScriptedModel([say("Hi.")]), db=db, session_id="s")
    outcome = agent.run_blocking(Question("Hello"))
    assert isinstance(outcome, Answered) and outcome.completed and outcome.status == "complete"
    assert (outcome.text, outcome.session_id, outcome.api_calls) == ("Hi.", "s", 1)
    assert [message["content"] for message in outcome.messages] == ["Hello", "Hi."]
    assert flags(outcome) == {"completed"}


def test_an_outcome_names_the_conversation(db: SessionDB) -> None:
    agent = AIAgent(ScriptedModel([say("Hi."), say("Again.")]), db=db, session_id="s")
    assert agent.run_blocking(Question("Hello")).conversation_id == "s"
    db.rotate_session("s", "t", [{"role": "user", "content": "So far: hello."}])
    outcome = agent.run_blocking(Question("And now?"))
    assert (outcome.session_id, outcome.conversation_id) == ("t", "s")

    without_store = AIAgent(ScriptedModel([say("Hi.")])).run_blocking(Question("Hello"))
    assert without_store.conversation_id == ""


def test_the_public_door_returns_the_dict(db: SessionDB) -> None:
    pieces: list[str] = []
    agent = AIAgent(ScriptedModel([say("Hi", "."), say("Bye.")]), db=db, session_id="s")
    result = agent.run_conversation("Hello", stream_callback=pieces.append)
    assert result.keys() == KEYS
    assert result["final_response"] == "".join(pieces) == "Hi."
    assert result["usage"].keys() == {*Usage().as_dict(), "total_tokens"}
    assert result["pending_steering"] == [] and result["error"] is None
    assert isinstance(result["messages"], list)


def test_out_of_budget(db: SessionDB) -> None:
    tools = Registry([Tool("look", "", lambda context: "nothing")])
    agent = AIAgent(ScriptedModel([call("look")]), db=db, tools=tools, max_iterations=1)
    outcome = agent.run_blocking(Question("Look"))
    assert isinstance(outcome, Answered) and outcome.exhausted and not outcome.completed
    assert "continue" in outcome.text and "budget" in (outcome.error or "")
    assert flags(outcome) == {"partial"}


def test_a_failure(db: SessionDB) -> None:
    agent = AIAgent(ScriptedModel([fail(RequestRefusedError("no such model"))]), db=db)
    outcome = agent.run_blocking(Question("Hello"))
    assert isinstance(outcome, Failed) and outcome.status == "error"
    assert outcome.error == "no such model" and as_dict(outcome)["final_response"] is None
    assert flags(outcome) == {"failed"}


def test_an_interruption(db: SessionDB) -> None:
    agent = AIAgent(ScriptedModel([say("Once", asyncio.Event(), "upon")]), db=db)

    def watch(event: Event) -> None:
        if isinstance(event, TextStreamed):
            agent.interrupt()

    outcome = agent.run_blocking(Question("A story"), watch=watch)
    assert isinstance(outcome, Interrupted) and outcome.status == "interrupted"
    assert flags(outcome) == {"interrupted"}


def test_what_cannot_be_stored_is_not_started(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(work: Any, *about: Any, **how: Any) -> Any:
        raise StoreFullError("No room left.")

    monkeypatch.setattr(db, "_execute_write", full)
    outcome = AIAgent(ScriptedModel([]), db=db).run_blocking(Question("Hello"))
    assert isinstance(outcome, NotStarted) and outcome.reason == "refused"
    assert outcome.error == "No room left." and outcome.messages == []
    assert flags(outcome) == {"failed"}


def test_what_another_process_has_taken_is_superseded(db: SessionDB) -> None:
    db.accept_message("m1", "s", "Hello", source="cli")
    assert (
        AIAgent(ScriptedModel([say("Hi.")]), db=db, session_id="s")
        .run_blocking(Question("Hello", ("m1",)))
        .completed
    )
    late = AIAgent(ScriptedModel([]), db=db, session_id="s").run_blocking(
        Question("Hello", ("m1",))
    )
    assert isinstance(late, Superseded) and late.is_silent and not late.stopped
    assert flags(late) == {"failed", "superseded"}


def test_without_notes_nothing_is_started(db: SessionDB) -> None:
    outcome = AIAgent(ScriptedModel([]), db=db, session_id="s").run_blocking(WaitingNotes())
    assert isinstance(outcome, NotStarted) and outcome.reason == "no notes"
    assert outcome.is_silent and not outcome.failed and not outcome.interrupted


FACTS: dict[str, Any] = {
    "session_id": "s",
    "messages": [{"role": "user", "content": "a"}],
    "api_calls": 2,
    "usage": Usage(3, 4, 1, 1, 1),
    "model": "m",
    "last_prompt_tokens": 3,
}


@pytest.mark.parametrize(
    "outcome",
    [
        Answered(**FACTS, text="b"),
        Answered(**FACTS, text="b", partial=True),
        Answered(**FACTS, text="b", partial=True, exhausted=True, error="used up"),
        Interrupted(**FACTS),
        Interrupted(**FACTS, unstored=True, error="full"),
        Failed(**FACTS, error="no"),
        Superseded(**FACTS, error="taken over"),
        Superseded(**FACTS, error="taken over", stopped=True),
        Answered(**FACTS, text="b", unread=("too late",)),
    ],
)
def test_the_dict_says_all_of_it(outcome: TurnOutcome) -> None:
    assert outcome_from_dict(as_dict(outcome)) == outcome


@pytest.mark.parametrize(
    ("result", "kind", "text"),
    [
        ({"final_response": "ok"}, Answered, "ok"),
        ({"final_response": None, "completed": False, "api_calls": 3}, Answered, ""),
        ({"failed": True, "error": "no"}, Failed, ""),
        ({"interrupted": True, "messages": "odd", "usage": None}, Interrupted, ""),
        ({"superseded": True}, Superseded, ""),
    ],
)
def test_a_dict_may_be_incomplete(result: dict[str, Any], kind: type, text: str) -> None:
    outcome = outcome_from_dict(result, "s")
    assert type(outcome) is kind and (outcome.text, outcome.session_id) == (text, "s")
    assert usage_dict(outcome.usage) == {}
