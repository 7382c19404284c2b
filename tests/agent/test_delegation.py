"""Sub-agents: own sessions, at once, results in order, stopped with their caller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent import AIAgent
from agent.errors import RequestRefusedError
from agent.events import Event, ToolProgressed
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, call, fail, say
from hermes_state import SessionDB
from tools.base import ToolContext, tool
from tools.delegate import delegate_task
from tools.planning import clarify, todo
from tools.registry import Registry


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


@tool(toolset="test", effect="none")
def echo(context: ToolContext, text: str) -> str:
    """Say it back."""
    return text


TOOLS = Registry([delegate_task, echo, clarify, todo])


def is_child(request: ModelRequest) -> bool:
    return "sub-agent" in request.system


def test_parts_run_at_once_and_come_back_in_order(db: SessionDB) -> None:
    second_done = asyncio.Event()
    events: list[Event] = []

    def answer(request: ModelRequest) -> Step:
        if not is_child(request):
            if len(request.messages) == 1:
                return call("delegate_task", tasks=[{"goal": "one"}, {"goal": "two"}])
            return say("Both are done.")
        if request.messages[-1]["role"] == "user" and request.messages[0]["content"] == "one":
            return say(second_done, "first report")  # cannot finish before the second one
        if request.messages[-1]["role"] == "user":
            return call("echo", text="x")
        return say("second report", second_done.set)

    model = ScriptedModel([answer] * 10)
    agent = AIAgent(model, db=db, tools=TOOLS, user_id="ada", on_event=events.append)
    result = agent.run_conversation("Split it")
    assert result["final_response"] == "Both are done."
    report = result["messages"][2]["content"]
    assert report.index("first report") < report.index("second report")
    assert any(isinstance(e, ToolProgressed) and "[2] echo" in e.text for e in events)
    assert [session["id"] for session in db.list_sessions_rich()] == [agent.session_id]
    children = [s for s in db.list_sessions_rich(include_children=True) if s["source"] == "tool"]
    assert len(children) == 2
    for child in children:
        assert (child["parent_session_id"], child["user_id"]) == (agent.session_id, "ada")
        assert child["ended_at"] is not None
        assert db.get_conversation_root(child["id"]) == agent.session_id
    tools_of_children = {
        str([one["function"]["name"] for one in request.tools])
        for request in model.requests
        if is_child(request)
    }
    assert tools_of_children == {"['echo']"}


def test_a_part_that_fails_does_not_take_the_others_along(db: SessionDB) -> None:
    def answer(request: ModelRequest) -> Step:
        if not is_child(request):
            last = request.messages[-1]
            if last["role"] == "user":
                return call("delegate_task", tasks=[{"goal": "bad"}, {"goal": "good"}])
            return say("I saw.")
        if request.messages[0]["content"] == "bad":
            return fail(RequestRefusedError("no such model"))
        return say("fine")

    agent = AIAgent(ScriptedModel([answer] * 10), db=db, tools=TOOLS)
    result = agent.run_conversation("go")
    report = result["messages"][2]["content"]
    assert "Failed: The sub-agent did not finish: no such model" in report
    assert "fine" in report


def test_interrupting_the_caller_stops_them(db: SessionDB) -> None:
    def answer(request: ModelRequest) -> Step:
        if is_child(request):
            return say("half", agent.interrupt, asyncio.Event(), "never")
        return call("delegate_task", goal="a long one")

    agent = AIAgent(ScriptedModel([answer] * 10), db=db, tools=TOOLS)
    assert agent.run_conversation("go")["interrupted"]
    children = [s for s in db.list_sessions_rich(include_children=True) if s["source"] == "tool"]
    assert [m["content"] for m in db.get_messages(children[0]["id"])] == ["a long one", "half"]


@pytest.mark.parametrize(
    "arguments", [{}, {"goal": " "}, {"tasks": [{}]}, {"tasks": [{"goal": "x"}] * 9}]
)
def test_what_cannot_be_delegated_is_told(db: SessionDB, arguments: dict[str, object]) -> None:
    model = ScriptedModel([call("delegate_task", **arguments), say("I see.")])
    result = AIAgent(model, db=db, tools=TOOLS).run_conversation("go")
    model.assert_done()
    assert result["messages"][2]["content"].startswith("Error:")
