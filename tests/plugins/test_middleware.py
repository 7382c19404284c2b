"""Middleware: changed requests, wrapped calls, and none of it able to run a tool twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.errors import AuthenticationError
from agent.scripted import call, fail, say
from hermes_base import plugins
from hermes_base.plugins.calls import Callback
from tools.base import ToolContext, tool
from tools.registry import Registry

from .conftest import MakeAgent


def add(kind: str, function: Callable[..., Any], limit: float | None = None) -> None:
    plugins.get_middleware().add(kind, Callback("test", kind, function, limit))


@pytest.fixture
def counted() -> tuple[Registry, list[int]]:
    runs: list[int] = []

    def add_up(context: ToolContext, number: int) -> str:
        runs.append(number)
        return f"sum {sum(runs)}"

    return Registry([tool(toolset="test", effect="effectful")(add_up)]), runs


def answers(result: dict[str, Any]) -> list[str]:
    return [one["content"] for one in result["messages"] if one["role"] == "tool"]


def test_arguments_are_changed_in_turn(
    make_agent: MakeAgent, counted: tuple[Registry, list[int]]
) -> None:
    tools, runs = counted
    seen: list[Any] = []

    def double(args: dict[str, Any], original_args: dict[str, Any], **kwargs: Any) -> Any:
        seen.append((args["number"], original_args["number"], kwargs["middleware_schema_version"]))
        args["number"] *= 2
        return {"args": args, "reason": "twice as good"}

    add("tool_request", double)
    add("tool_request", double)
    traced: list[Any] = []
    plugins.add_hook("pre_tool_call", lambda **kwargs: traced.append(kwargs))
    agent, _ = make_agent(call("add_up", number=3), say("."), tools=tools)
    agent.run_conversation("go")
    assert runs == [12]
    assert seen == [(3, 3, "hermes.middleware.v1"), (6, 3, "hermes.middleware.v1")]
    assert traced[0]["args"] == {"number": 12}
    assert [one["reason"] for one in traced[0]["middleware_trace"]] == ["twice as good"] * 2


@pytest.mark.parametrize(
    "answer", [None, 7, {"args": 3}, {"args": {"number": "x"}}, {"args": {"other": 1}}, {}]
)
def test_nonsense_changes_nothing(
    answer: Any, make_agent: MakeAgent, counted: tuple[Registry, list[int]]
) -> None:
    tools, runs = counted
    add("tool_request", lambda **kwargs: answer)
    agent, _ = make_agent(call("add_up", number=3), say("."), tools=tools)
    agent.run_conversation("go")
    assert runs == [3]


def through(args: Any, next_call: Any, **kwargs: Any) -> Any:
    return next_call(args)


def changing(args: Any, next_call: Any, **kwargs: Any) -> Any:
    return f"<{next_call({**args, 'number': 5})}>"


def instead(args: Any, next_call: Any, **kwargs: Any) -> Any:
    return "not today"


def raising_before(**kwargs: Any) -> Any:
    raise RuntimeError("before")


def raising_after(args: Any, next_call: Any, **kwargs: Any) -> Any:
    next_call(args)
    raise RuntimeError("after")


def twice(args: Any, next_call: Any, **kwargs: Any) -> Any:
    next_call(args)
    return next_call(args)


def silent(args: Any, next_call: Any, **kwargs: Any) -> Any:
    next_call(args)


def swallowing(args: Any, next_call: Any, **kwargs: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("function", "runs", "answer"),
    [
        (through, [3], "sum 3"),
        (changing, [5], "<sum 5>"),
        (instead, [], "not today"),
        (raising_before, [3], "sum 3"),
        (raising_after, [3], "sum 3"),
        (twice, [3], "sum 3"),
        (silent, [3], "sum 3"),
        (swallowing, [3], "sum 3"),
    ],
)
def test_wrapping_a_tool(
    function: Any,
    runs: list[int],
    answer: str,
    make_agent: MakeAgent,
    counted: tuple[Registry, list[int]],
) -> None:
    tools, ran = counted
    add("tool_execution", through)
    add("tool_execution", function)
    agent, _ = make_agent(call("add_up", number=3), say("."), tools=tools)
    result = agent.run_conversation("go")
    assert (ran, answers(result)) == (runs, [answer])


def test_one_that_hangs_before_it_calls_on(
    make_agent: MakeAgent, counted: tuple[Registry, list[int]]
) -> None:
    tools, ran = counted
    go_on, refused = threading.Event(), threading.Event()

    def hang(args: Any, next_call: Any, **kwargs: Any) -> Any:
        go_on.wait(30)
        try:
            return next_call(args)
        except RuntimeError:
            refused.set()

    add("tool_execution", hang, limit=0.1)
    agent, _ = make_agent(call("add_up", number=3), say("."), tools=tools)
    assert answers(agent.run_conversation("go")) == ["sum 3"]
    go_on.set()
    assert refused.wait(60)
    assert ran == [3]


def test_a_slow_tool_is_not_the_middlewares_fault(make_agent: MakeAgent) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait(context: ToolContext) -> str:
        inside.set()
        go_on.wait(30)
        return "slept"

    def release() -> None:
        inside.wait(60)
        threading.Event().wait(1.2)  # longer than the middleware's limit
        go_on.set()

    add("tool_execution", lambda args, next_call, **kwargs: f"<{next_call(args)}>", limit=1.0)
    threading.Thread(target=release).start()
    tools = Registry([tool(toolset="test", effect="effectful")(wait)])
    agent, _ = make_agent(call("wait"), say("."), tools=tools)
    assert answers(agent.run_conversation("go")) == ["<slept>"]


def test_a_failing_tool_fails_through_it(make_agent: MakeAgent) -> None:
    add("tool_execution", through)
    agent, _ = make_agent(call("break_down"), say("."))
    assert "out of order" in answers(agent.run_conversation("go"))[0]


def test_interrupting_a_wrapped_tool(make_agent: MakeAgent) -> None:
    stopped = threading.Event()

    async def wait(context: ToolContext) -> str:
        import asyncio

        agent.interrupt()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)  # it puts things in order
            stopped.set()
            raise
        return "never"

    add("tool_execution", through)
    tools = Registry([tool(toolset="test", effect="effectful")(wait)])
    agent, _ = make_agent(call("wait"), say("never"), tools=tools)
    result = agent.run_conversation("go")
    assert result["interrupted"] and "[interrupted]" in answers(result)[0]
    assert stopped.is_set()  # it does not wait for a turn that happens to have the same loop


def test_a_wrapped_tool_is_not_begun_after_an_interruption(
    make_agent: MakeAgent, counted: tuple[Registry, list[int]]
) -> None:
    interrupted, ended = threading.Event(), threading.Event()

    def late(args: Any, next_call: Any, **kwargs: Any) -> Any:
        agent.interrupt()
        assert interrupted.wait(60)
        try:
            return next_call(args)
        finally:
            ended.set()

    add("tool_execution", late)
    tools, runs = counted
    agent, _ = make_agent(call("add_up", number=3), say("never"), tools=tools)
    assert agent.run_conversation("go")["interrupted"]
    interrupted.set()
    agent.llm = make_agent(say("later"))[1]
    agent.run_conversation("the loop turns on")
    assert ended.wait(60)
    agent.run_conversation("and on")
    assert runs == []


def test_calls_of_a_program_go_through_it_too(make_agent: MakeAgent) -> None:
    seen: list[str] = []

    def watch(tool_name: str, args: Any, next_call: Any, **kwargs: Any) -> Any:
        seen.append(tool_name)
        return next_call(args)

    def program(context: ToolContext) -> str:
        return str(context.services.call_tool("inner", {}))

    def inner(context: ToolContext) -> str:
        return "from inside"

    add("tool_execution", watch)
    tools = [tool(toolset="test", effect="effectful")(one) for one in (program, inner)]
    agent, _ = make_agent(call("program"), say("."), tools=Registry(tools))
    assert answers(agent.run_conversation("go")) == ["from inside"]
    assert seen == ["program", "inner"]


def test_it_does_not_wrap_calls_of_its_own(make_agent: MakeAgent) -> None:
    seen: list[str] = []

    def own(tool_name: str, args: Any, next_call: Any, **kwargs: Any) -> Any:
        seen.append(tool_name)
        return agent.services.call_tool("shout", {"text": "own"}) + next_call(args)

    add("tool_execution", own)
    agent, _ = make_agent(call("shout", text="a"), say("."))
    assert answers(agent.run_conversation("go")) == ["OWNA"]
    assert seen == ["shout"]


# Models


def test_a_request_is_changed(make_agent: MakeAgent) -> None:
    def change(request: dict[str, Any], **kwargs: Any) -> Any:
        request["messages"][-1]["content"] += " please"
        request["max_tokens"] = 7
        return {"request": request}

    add("llm_request", change)
    agent, model = make_agent(say("Yes."), system_prompt="Be kind.")
    result = agent.run_conversation("go")
    assert model.requests[0].messages[-1]["content"] == "go please"
    assert (model.requests[0].max_tokens, model.requests[0].system) == (7, "Be kind.")
    assert result["messages"][0]["content"] == "go"


@pytest.mark.parametrize(
    "request_",
    [{"messages": []}, {"messages": "x"}, {"messages": [3]}, {"max_tokens": "many"}, {"x": 1}],
)
def test_a_nonsensical_request_is_not_sent(request_: Any, make_agent: MakeAgent) -> None:
    add("llm_request", lambda **kwargs: {"request": request_})
    agent, model = make_agent(say("Yes."))
    assert agent.run_conversation("go")["final_response"] == "Yes."
    assert [one["content"] for one in model.requests[0].messages] == ["go"]
    assert model.requests[0].max_tokens is None


def ask_on(request: Any, next_call: Any, **kwargs: Any) -> Any:
    return next_call(request)


def louder(request: Any, next_call: Any, **kwargs: Any) -> Any:
    response = next_call(request)
    return {**response, "content": response["content"].upper()}


def from_memory(request: Any, next_call: Any, **kwargs: Any) -> Any:
    return {"content": "I remember."}


def broken_model(**kwargs: Any) -> Any:
    raise RuntimeError("broken")


def pointless(**kwargs: Any) -> Any:
    return 42


@pytest.mark.parametrize(
    ("function", "text", "asked"),
    [
        (ask_on, "Hello.", 1),
        (louder, "HELLO.", 1),
        (from_memory, "I remember.", 0),
        (broken_model, "Hello.", 1),
        (pointless, "Hello.", 1),
    ],
)
def test_wrapping_a_model(function: Any, text: str, asked: int, make_agent: MakeAgent) -> None:
    add("llm_execution", function)
    agent, model = make_agent(say("Hel", "lo."))
    pieces: list[str] = []
    result = agent.run_conversation("go", stream_callback=pieces.append)
    assert result["final_response"] == text
    assert len(model.requests) == asked
    assert "".join(pieces).endswith(text)


def test_tool_calls_pass_through_a_wrapped_model(make_agent: MakeAgent) -> None:
    add("llm_execution", louder)
    agent, _ = make_agent(call("shout", text="a"), say("Done."))
    result = agent.run_conversation("go")
    assert (answers(result), result["final_response"]) == (["A"], "DONE.")


def test_a_failing_model_fails_through_it(make_agent: MakeAgent) -> None:
    add("llm_execution", ask_on)
    agent, _ = make_agent(fail(AuthenticationError("no key")))
    result = agent.run_conversation("go")
    assert result["failed"] and "no key" in result["error"]


def test_interrupting_a_wrapped_model(make_agent: MakeAgent) -> None:
    add("llm_execution", ask_on)
    agent, _ = make_agent(say("Hel", lambda: agent.interrupt(), 30.0, "lo."))
    result = agent.run_conversation("go")
    assert result["interrupted"]
    assert result["messages"][-1]["content"] == "Hel"
