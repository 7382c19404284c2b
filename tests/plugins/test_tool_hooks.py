"""Hooks around tools: blocking, asking, changing results, and being stopped in between."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agent.code_calls import CodeCalls
from agent.outcome import as_dict
from agent.request import Question
from agent.scripted import Call, call, calls, say
from hermes_base import plugins
from hermes_state import SessionDB
from tools import approval
from tools.base import ApprovalRequest, Choice, ToolContext, ToolError, Workspace
from tools.danger.analyse import Finding
from tools.registry import Registry
from tools.terminal.tool import terminal

from .conftest import MakeAgent, shouting


class Person:
    """Somebody who answers every question alike."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.asked: list[ApprovalRequest] = []

    def approve(self, request: ApprovalRequest) -> Choice:
        self.asked.append(request)
        return self.choice

    def clarify(self, question: str, choices: list[str]) -> str:
        return ""


def results(result: dict[str, Any]) -> list[str]:
    return [one["content"] for one in result["messages"] if one["role"] == "tool"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"action": "block", "message": "Not on Sundays."}, "Not on Sundays."),
        ({"action": "block"}, "a plugin does not allow this"),
        ({"action": "block", "message": 7}, "a plugin does not allow this"),
    ],
)
def test_a_call_is_blocked(answer: Any, expected: str, make_agent: MakeAgent) -> None:
    told: list[Any] = []
    plugins.add_hook("pre_tool_call", lambda **kwargs: {"action": "dance"})
    plugins.add_hook("pre_tool_call", lambda **kwargs: answer)
    plugins.add_hook("pre_tool_call", lambda **kwargs: {"action": "approve"})
    plugins.add_hook("post_tool_call", lambda **kwargs: told.append(kwargs))
    ran: list[str] = []
    tools = shouting()
    agent, _ = make_agent(call("shout", text="a"), say("Well."), tools=tools)
    outcome = agent.run_blocking(
        Question("go"), watch=lambda event: ran.append(type(event).__name__)
    )
    result = as_dict(outcome)
    assert expected in results(result)[0]
    assert "ToolStarted" not in ran
    assert told[0]["status"] == "blocked" and result["completed"]


@pytest.mark.parametrize(("choice", "runs"), [("once", True), ("deny", False)])
def test_a_call_is_asked_about(choice: Choice, runs: bool, make_agent: MakeAgent) -> None:
    person = Person(choice)
    answer = {"action": "approve", "message": "It is loud.", "rule_key": "loud"}
    plugins.add_hook("pre_tool_call", lambda **kwargs: answer)
    agent, _ = make_agent(call("shout", text="a"), say("Well."), asker=person)
    result = agent.run_conversation("go")
    assert person.asked[0].description == "It is loud."
    assert person.asked[0].pattern_keys == ["plugin:loud"]
    assert '"a"' in person.asked[0].command
    assert (results(result)[0] == "A") is runs


def test_a_yes_for_the_session_is_remembered(make_agent: MakeAgent) -> None:
    person = Person("session")
    plugins.add_hook("pre_tool_call", lambda **kwargs: {"action": "approve"})
    agent, _ = make_agent(call("shout", text="a"), call("shout", text="b"), say("."), asker=person)
    assert results(agent.run_conversation("go")) == ["A", "B"]
    assert len(person.asked) == 1


def test_results_can_be_changed(make_agent: MakeAgent, db: SessionDB) -> None:
    for answer in (None, 3, ["x"], "changed", "too late"):
        plugins.add_hook("transform_tool_result", lambda answer=answer, **kwargs: answer)
    told: list[Any] = []
    plugins.add_hook("post_tool_call", lambda **kwargs: told.append(kwargs["result"]))
    agent, model = make_agent(call("shout", text="a"), say("Well."))
    assert results(agent.run_conversation("go")) == ["changed"]
    assert model.requests[1].messages[-1]["content"] == "changed"
    assert told == ["changed"]


def test_a_result_does_not_grow_beyond_bounds(make_agent: MakeAgent) -> None:
    plugins.add_hook("transform_tool_result", lambda **kwargs: "x" * 5_000_000)
    agent, _ = make_agent(call("shout", text="a"), say("Well."))
    assert len(results(agent.run_conversation("go"))[0]) < 100_000


def test_stopped_while_a_hook_looks_at_a_result(make_agent: MakeAgent, db: SessionDB) -> None:
    go_on = threading.Event()

    def stop(**kwargs: Any) -> None:
        agent.interrupt()
        go_on.wait(30)

    plugins.add_hook("transform_tool_result", stop, limit=30)
    agent, _ = make_agent(call("write_file", path="a", content="b"), say("never"))
    result = agent.run_conversation("go")
    go_on.set()
    assert result["interrupted"]
    # The tool had finished; that is what is kept, not "it may or may not have taken effect".
    stored = db.get_messages_as_conversation(agent.session_id)
    assert [one["content"] for one in stored if one["role"] == "tool"] == ["written"]


def test_stopped_while_a_hook_thinks_about_a_call(make_agent: MakeAgent) -> None:
    go_on = threading.Event()

    def stop(**kwargs: Any) -> None:
        agent.interrupt()
        go_on.wait(30)

    plugins.add_hook("pre_tool_call", stop, limit=30)
    agent, _ = make_agent(call("write_file", path="a", content="b"), say("never"))
    result = agent.run_conversation("go")
    go_on.set()
    assert "[not run]" in results(result)[0]


def test_side_by_side_calls_each_have_one_result(make_agent: MakeAgent, db: SessionDB) -> None:
    plugins.add_hook("transform_tool_result", lambda result, **kwargs: f"<{result}>")
    many = [Call("shout", {"text": f"t{number}"}) for number in range(8)]
    agent, _ = make_agent(calls(many), say("Well."))
    result = agent.run_conversation("go")
    assert sorted(results(result)) == [f"<T{number}>" for number in range(8)]
    stored = db.get_messages_as_conversation(agent.session_id)
    ids = [one["tool_call_id"] for one in stored if one["role"] == "tool"]
    assert len(ids) == len(set(ids)) == 8


def test_programs_do_not_get_around_a_block(home: Path) -> None:
    def context(call_id: str, progress: Any) -> ToolContext:
        return ToolContext("s", call_id, workspace=Workspace(home, home))

    code_calls = CodeCalls(Registry(shouting()), context)
    told: list[Any] = []
    plugins.add_hook("post_tool_call", lambda **kwargs: told.append(kwargs["status"]))
    assert code_calls("shout", {"text": "a"}) == "A"
    plugins.add_hook("transform_tool_result", lambda result, **kwargs: result * 2)
    assert code_calls("shout", {"text": "a"}) == "AA"
    plugins.add_hook("pre_tool_call", lambda **kwargs: {"action": "block", "message": "No."})
    with pytest.raises(ToolError, match=r"No\."):
        code_calls("shout", {"text": "a"})
    with pytest.raises(ToolError):
        code_calls("break_down", {})
    assert told == ["ok", "ok", "blocked", "blocked"]


def test_terminal_output_can_be_changed(home: Path) -> None:
    told: list[Any] = []

    def change(**kwargs: Any) -> str:
        told.append(kwargs)
        return "only this"

    plugins.add_hook("transform_terminal_output", lambda **kwargs: 7)
    plugins.add_hook("transform_terminal_output", change)
    context = ToolContext("s", "c", workspace=Workspace(home, home))
    text = terminal.run(context, command="echo hello; exit 3")
    assert text.startswith("only this\n[exit code 3")
    assert set(told[0]) - {"telemetry_schema_version"} == {
        "command",
        "output",
        "returncode",
        "task_id",
        "env_type",
    }
    assert (told[0]["output"].strip(), told[0]["returncode"]) == ("hello", 3)
    assert (told[0]["task_id"], told[0]["env_type"]) == ("s", "local")


@pytest.mark.parametrize("choice", ["once", "session", "always", "deny"])
def test_approvals_are_told(choice: Choice, home: Path, db: SessionDB) -> None:
    told: list[Any] = []
    for name in ("pre_approval_request", "post_approval_response"):
        plugins.add_hook(name, lambda hook=name, **kwargs: told.append((hook, kwargs)))
    context = ToolContext("s", "c", workspace=Workspace(home, home), asker=Person(choice), db=db)
    try:
        approval.decide(context, "rm -rf x", [Finding("rm", "it deletes"), Finding("b", "bad")])
    except ToolError:
        assert choice == "deny"
    (first, before), (second, after) = told
    assert (first, second) == ("pre_approval_request", "post_approval_response")
    before.pop("telemetry_schema_version")
    assert before == {
        "command": "rm -rf x",
        "description": "it deletes; bad",
        "pattern_key": "b",
        "pattern_keys": ["b", "rm"],
        "session_key": "",
        "surface": "cli",
    }
    assert after["choice"] == choice
