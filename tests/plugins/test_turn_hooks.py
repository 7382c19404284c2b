"""The hooks of a turn: fired at their moment, with exactly their arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agent.errors import AuthenticationError, ServerFailedError
from agent.model import Restarted
from agent.retry import RetryingModel
from agent.scripted import Call, ScriptedModel, call, calls, fail, say
from hermes_base import plugins
from hermes_state import SessionDB
from tools.delegate import delegate_task
from tools.registry import Registry

from .conftest import MakeAgent, shouting

TOOL = "tool_name args task_id session_id tool_call_id turn_id api_request_id"
RESULT = f"{TOOL} result duration_ms status error_type error_message"
API = (
    "task_id turn_id api_request_id session_id platform model provider base_url api_mode"
    " api_call_count started_at"
)
ARGUMENTS = {
    "on_session_start": "session_id model platform",
    "on_session_end": "session_id task_id turn_id completed interrupted model platform",
    "pre_llm_call": "session_id task_id turn_id user_message conversation_history is_first_turn"
    " model platform sender_id",
    "post_llm_call": "session_id task_id turn_id user_message assistant_response"
    " conversation_history model platform",
    "transform_llm_output": "response_text session_id model platform",
    "pre_api_request": f"{API} user_message conversation_history request_messages message_count"
    " tool_count approx_input_tokens request_char_count max_tokens middleware_trace request",
    "post_api_request": f"{API} api_duration ended_at finish_reason message_count response_model"
    " response usage assistant_message assistant_content_chars assistant_tool_call_count",
    "api_request_error": f"{API} api_duration ended_at status_code retry_count max_retries"
    " retryable reason error request",
    "pre_tool_call": f"{TOOL} middleware_trace",
    "post_tool_call": f"{RESULT} middleware_trace",
    "transform_tool_result": RESULT,
    "pre_verify": "session_id platform model coding attempt final_response changed_paths",
    "subagent_start": "parent_session_id parent_turn_id parent_subagent_id child_session_id"
    " child_subagent_id child_role child_goal",
    "subagent_stop": "parent_session_id parent_turn_id child_session_id child_role child_summary"
    " child_status duration_ms",
}

Seen = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def seen() -> Seen:
    """Every hook that was fired, with what it was told."""
    found: Seen = []

    def listener(name: str) -> Callable[..., None]:
        def listen(**kwargs: Any) -> None:
            kwargs.pop("telemetry_schema_version")
            found.append((name, kwargs))

        return listen

    for name in ARGUMENTS:
        plugins.add_hook(name, listener(name))
    return found


def of(seen: Seen, name: str) -> list[dict[str, Any]]:
    return [kwargs for fired, kwargs in seen if fired == name]


def check_arguments(seen: Seen) -> None:
    for name, kwargs in seen:
        assert set(kwargs) == set(ARGUMENTS[name].split()), name


def test_a_turn_from_end_to_end(make_agent: MakeAgent, seen: Seen) -> None:
    agent, _ = make_agent(
        call("shout", text="a"), call("break_down"), say("Done."), user_id="ada", platform="cli"
    )
    result = agent.run_conversation("go")
    assert [name for name, _ in seen] == [
        "on_session_start",
        "pre_llm_call",
        *("pre_api_request", "post_api_request"),
        *("pre_tool_call", "transform_tool_result", "post_tool_call"),
        *("pre_api_request", "post_api_request"),
        *("pre_tool_call", "transform_tool_result", "post_tool_call"),
        *("pre_api_request", "post_api_request"),
        "transform_llm_output",
        "post_llm_call",
        "on_session_end",
    ]
    check_arguments(seen)
    first = of(seen, "pre_llm_call")[0]
    assert first["user_message"] == "go" and first["conversation_history"] == []
    assert (first["is_first_turn"], first["sender_id"]) == (True, "ada")
    shout, broken = of(seen, "post_tool_call")
    assert (shout["tool_name"], shout["args"], shout["result"]) == ("shout", {"text": "a"}, "A")
    assert (shout["status"], shout["error_type"]) == ("ok", None)
    assert (broken["status"], broken["error_type"]) == ("error", "RuntimeError")
    assert "out of order" in broken["error_message"]
    request = of(seen, "pre_api_request")[1]
    assert request["message_count"] == 3 and request["tool_count"] == 3
    assert request["request"]["messages"][0]["content"] == "go"
    answered = of(seen, "post_api_request")
    assert [one["finish_reason"] for one in answered] == ["tool_calls", "tool_calls", "stop"]
    assert answered[2]["assistant_message"]["content"] == "Done."
    # A tool call says which request asked for it.
    assert shout["api_request_id"] == answered[0]["api_request_id"]
    end = of(seen, "on_session_end")[0]
    assert (end["session_id"], end["completed"], end["interrupted"]) == (
        result["session_id"],
        True,
        False,
    )
    assert len({one["turn_id"] for _, one in seen if "turn_id" in one}) == 1


def test_a_session_starts_once(make_agent: MakeAgent, seen: Seen, db: SessionDB) -> None:
    agent, _ = make_agent(say("one"), say("two"), system_prompt="You are Hermes.")
    agent.run_conversation("a")
    agent.run_conversation("b")
    resumed, _ = make_agent(say("three"), session_id=agent.session_id, system_prompt="Other.")
    resumed.run_conversation("c")
    assert len(of(seen, "on_session_start")) == 1
    assert len(of(seen, "on_session_end")) == 3
    second = of(seen, "pre_llm_call")[1]
    assert not second["is_first_turn"]
    assert [one["content"] for one in second["conversation_history"]] == ["a", "one"]


def test_a_turn_that_fails(make_agent: MakeAgent, seen: Seen) -> None:
    agent, _ = make_agent(fail(AuthenticationError("no key", status=401)))
    result = agent.run_conversation("go")
    assert result["failed"]
    check_arguments(seen)
    error = of(seen, "api_request_error")[0]
    assert error["error"] == {"type": "AuthenticationError", "message": "no key"}
    assert (error["status_code"], error["retryable"]) == (401, False)
    assert not of(seen, "post_llm_call") and not of(seen, "post_api_request")
    assert of(seen, "on_session_end")[0]["completed"] is False


def test_every_failure_of_a_provider_is_told(make_agent: MakeAgent, seen: Seen) -> None:
    agent, _ = make_agent()

    async def no_wait(seconds: float) -> None:
        return None

    scripted = ScriptedModel([fail(ServerFailedError("busy")), fail(ServerFailedError), say("Ok")])
    agent.llm = RetryingModel([scripted], sleep=no_wait)
    assert agent.run_conversation("go")["final_response"] == "Ok"
    errors = of(seen, "api_request_error")
    assert [one["retry_count"] for one in errors] == [1, 2]
    assert errors[0]["retryable"] and "busy" in errors[0]["reason"]


def test_an_interrupted_turn(make_agent: MakeAgent, seen: Seen) -> None:
    agent, _ = make_agent(say("Hel", lambda: agent.interrupt(), 30.0))
    assert agent.run_conversation("go")["interrupted"]
    end = of(seen, "on_session_end")[0]
    assert (end["completed"], end["interrupted"]) == (False, True)
    assert not of(seen, "post_llm_call")


def test_the_end_is_told_through_the_module(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(say("Hi"))
    with patch("hermes_base.plugins.invoke_hook") as invoke:
        agent.run_conversation("go")
    names = [one.args[0] for one in invoke.call_args_list]
    assert names == ["on_session_start", "on_session_end"]
    assert invoke.call_args.kwargs["completed"] is True


def test_a_module_that_raises_breaks_nothing(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(say("Hi"))
    with patch("hermes_base.plugins.invoke_hook", side_effect=RuntimeError("boom")):
        assert agent.run_conversation("go")["final_response"] == "Hi"


# What answers are used for


def test_context_is_sent_and_never_stored(make_agent: MakeAgent, db: SessionDB) -> None:
    plugins.add_hook("pre_llm_call", lambda **kwargs: "It rains.")
    plugins.add_hook("pre_llm_call", lambda **kwargs: {"context": "It is Monday."})
    for nonsense in (7, {"context": 3}, "", {"other": "x"}, ["a"]):
        plugins.add_hook("pre_llm_call", lambda answer=nonsense, **kwargs: answer)
    agent, model = make_agent(call("shout", text="a"), say("Done."), say("Again."))
    agent.run_conversation("go")
    sent = [request.messages[0]["content"] for request in model.requests]
    assert sent == ["go\n\nIt rains.\n\nIt is Monday."] * 2
    messages = db.get_messages_as_conversation(agent.session_id)
    assert messages[0]["content"] == "go"
    agent.run_conversation("next")
    contents = [one["content"] for one in model.requests[2].messages if one["role"] == "user"]
    assert contents == ["go", "next\n\nIt rains.\n\nIt is Monday."]


def test_endless_context_is_cut(make_agent: MakeAgent) -> None:
    plugins.add_hook("pre_llm_call", lambda **kwargs: "x" * 10_000_000)
    agent, model = make_agent(say("Done."))
    assert agent.run_conversation("go")["completed"]
    assert len(model.requests[0].messages[0]["content"]) < 50_000


def test_the_final_text_can_be_replaced(make_agent: MakeAgent, db: SessionDB) -> None:
    for answer in (None, 3, "", "Ahoy.", "Too late."):
        plugins.add_hook("transform_llm_output", lambda answer=answer, **kwargs: answer)
    agent, _ = make_agent(say("Hello."))
    assert agent.run_conversation("go")["final_response"] == "Ahoy."
    assert db.get_messages_as_conversation(agent.session_id)[-1]["content"] == "Hello."


@pytest.mark.parametrize(
    "answer",
    [{"action": "continue", "message": "Run the tests."}, {"decision": "block", "reason": "Run!"}],
)
def test_files_were_changed_and_somebody_wants_more(
    answer: dict[str, str], make_agent: MakeAgent, db: SessionDB
) -> None:
    told: list[Any] = []

    def verify(**kwargs: Any) -> dict[str, str]:
        told.append(kwargs)
        return answer

    plugins.add_hook("pre_verify", lambda **kwargs: "nonsense")
    plugins.add_hook("pre_verify", verify)
    write = call("write_file", path="a.py", content="x")
    agent, model = make_agent(write, say("Done."), say("Tested."), say("Nothing to do."))
    assert agent.run_conversation("go")["final_response"] == "Tested."
    assert [one["changed_paths"] for one in told] == [["a.py"]]
    assert told[0]["final_response"] == "Done."
    wanted = answer.get("message") or answer.get("reason")
    assert model.requests[2].messages[-1]["content"] == wanted
    agent.run_conversation("and now nothing is changed")
    assert len(told) == 1


def test_subagents(make_agent: MakeAgent, seen: Seen) -> None:
    tools = Registry([*shouting(), delegate_task])
    agent, _ = make_agent(
        calls([Call("delegate_task", {"goal": "count", "role": "clerk"})]),
        say("Three."),
        say("It is three."),
        tools=tools,
    )
    agent.run_conversation("go")
    check_arguments([one for one in seen if one[0].startswith("subagent")])
    start, stop = of(seen, "subagent_start")[0], of(seen, "subagent_stop")[0]
    assert start["parent_session_id"] == agent.session_id != start["child_session_id"]
    assert (start["child_goal"], start["child_role"]) == ("count", "clerk")
    assert (stop["child_summary"], stop["child_status"]) == ("Three.", "completed")
    assert stop["child_session_id"] == start["child_session_id"]


def test_a_restart_is_not_mistaken_for_text(make_agent: MakeAgent, seen: Seen) -> None:
    agent, _ = make_agent(say("half", Restarted("again", 0.0, 2), "whole"))
    assert agent.run_conversation("go")["final_response"] == "whole"
    assert of(seen, "api_request_error")[0]["reason"] == "again"


def test_every_hook_of_a_turn_is_known(tmp_path: Path) -> None:
    from hermes_base.plugins.hooks import KNOWN_HOOKS

    assert set(ARGUMENTS) <= KNOWN_HOOKS
