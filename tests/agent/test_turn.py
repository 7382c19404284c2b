"""A turn from end to end: what is stored, what is told, what comes back."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent, TurnRunningError
from agent.errors import AuthenticationError, ContextTooLongError
from agent.events import (
    Event,
    ReasoningStreamed,
    ReplyFinished,
    Steered,
    TextStreamed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Watcher,
)
from agent.model import Usage
from agent.outcome import as_dict
from agent.request import Question
from agent.scripted import Call, ScriptedModel, call, calls, cut, fail, say
from agent.tool_calls import LONGEST_ON_LOOP
from hermes_state import SessionDB
from tools.base import Tool, ToolContext, ToolError, tool
from tools.registry import Registry

from .histories import problems


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def tools_for_tests() -> Registry:
    def shout(context: ToolContext, text: str) -> str:
        context.progress("shouting")
        return text.upper()

    async def whisper(context: ToolContext, text: str) -> dict[str, str]:
        return {"said": text.lower()}

    def break_down(context: ToolContext) -> None:
        raise RuntimeError("out of order")

    def refuse(context: ToolContext) -> None:
        raise ToolError("Not like this. Try shout.")

    return Registry(
        [
            tool(toolset="test", effect="none")(shout),
            tool(toolset="test", effect="none")(whisper),
            tool(toolset="test", effect="effectful")(break_down),
            tool(toolset="test", effect="effectful")(refuse),
        ]
    )


def agent_with(db: SessionDB | None, *steps: Any, **options: Any) -> tuple[AIAgent, ScriptedModel]:
    model = ScriptedModel(steps)
    options.setdefault("tools", tools_for_tests())
    return AIAgent(model, db=db, **options), model


def stored(db: SessionDB, session_id: str) -> list[tuple[str, Any]]:
    return [(m["role"], m["content"]) for m in db.get_messages_as_conversation(session_id)]


def is_valid(db: SessionDB, session_id: str) -> bool:
    return not problems(db.get_messages_as_conversation(session_id))


def test_an_answer_is_streamed_stored_and_returned(db: SessionDB) -> None:
    agent, model = agent_with(
        db, say("Hel", "lo.", reasoning="greet", usage=Usage(10, 2, 4, 0, 1)), user_id="ada"
    )
    pieces: list[str] = []
    result = agent.run_conversation("Hi", stream_callback=pieces.append)
    model.assert_done()
    assert pieces == ["Hel", "lo."]
    assert result["final_response"] == "Hello."
    assert result["completed"]
    assert not (result["failed"] or result["partial"] or result["interrupted"] or result["error"])
    assert (result["api_calls"], result["session_id"]) == (1, agent.session_id)
    assert result["usage"]["total_tokens"] == 12
    assert stored(db, agent.session_id) == [("user", "Hi"), ("assistant", "Hello.")]
    session = db.get_session(agent.session_id)
    assert session is not None
    assert (session["model"], session["source"], session["user_id"]) == ("scripted", "cli", "ada")
    assert (session["input_tokens"], session["cache_read_tokens"]) == (10, 4)
    assert (session["api_call_count"], session["message_count"]) == (1, 2)
    assert db.get_messages(agent.session_id)[1]["reasoning"] == "greet"


def test_no_row_before_the_first_message(db: SessionDB) -> None:
    agent_with(db)
    assert db.session_count() == 0


def test_tools_run_and_their_results_come_back_to_the_model(db: SessionDB) -> None:
    events: list[Event] = []
    agent, model = agent_with(
        db,
        calls([Call("shout", {"text": "a"}), Call("whisper", {"text": "B"})], text="Wait."),
        call("shout", text="c"),
        say("Done."),
        on_event=events.append,
    )
    result = agent.run_conversation("go")
    model.assert_done()
    assert result["final_response"] == "Done."
    roles = [m["role"] for m in result["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert {m["content"] for m in result["messages"] if m["role"] == "tool"} == {
        "A", '{"said": "b"}', "C",
    }  # fmt: skip
    assert is_valid(db, agent.session_id)
    assert db.get_session(agent.session_id)["tool_call_count"] == 3  # type: ignore[index]
    sent = model.requests[1].messages
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool"]
    kinds = [type(event) for event in events]
    assert kinds[0] is TurnStarted and kinds[-1] is TurnFinished
    for kind in (TextStreamed, ToolStarted, ToolProgressed, ToolFinished, ReplyFinished):
        assert kind in kinds


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Call("shuot", {"text": "a"}), "Did you mean 'shout'"),
        (Call("shout", '{"text": '), "not valid JSON"),
        (Call("shout", "[1]"), "must be a JSON object"),
        (Call("shout", {"wrong": 1}), "no parameter 'wrong'"),
        (Call("shout", {}), "needs 'text'"),
        (Call("break_down", {}), "RuntimeError: out of order"),
        (Call("refuse", {}), "Not like this. Try shout."),
    ],
)
def test_what_goes_wrong_with_a_tool_is_told_to_the_model(
    db: SessionDB, wanted: Call, expected: str
) -> None:
    agent, model = agent_with(db, calls([wanted]), say("I see."))
    result = agent.run_conversation("go")
    model.assert_done()
    assert result["completed"]
    assert expected in model.requests[1].messages[-1]["content"]
    assert is_valid(db, agent.session_id)


def test_tool_calls_with_one_id_get_ids_of_their_own(db: SessionDB) -> None:
    agent, _ = agent_with(
        db,
        calls([Call("shout", {"text": "a"}, "x"), Call("shout", {"text": "b"}, "x")]),
        say("ok"),
    )
    agent.run_conversation("go")
    messages = db.get_messages(agent.session_id)
    ids = [one["id"] for one in messages[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert {m["tool_call_id"] for m in messages if m["role"] == "tool"} == set(ids)


def test_every_step_is_stored_before_it_is_acted_on(db: SessionDB) -> None:
    seen: list[list[str]] = []

    def look(*_: Any) -> Any:
        sessions = db.list_sessions_rich()
        rows = db.get_messages(sessions[0]["id"]) if sessions else []
        seen.append([m["role"] for m in rows])
        return say("Done.") if len(seen) == 3 else call("look")

    def look_around(context: ToolContext) -> str:
        look()
        return "seen"

    agent, _ = agent_with(db, look, look, tools=Registry([Tool("look", "", look_around)]))
    agent.run_conversation("go")
    assert seen == [["user"], ["user", "assistant"], ["user", "assistant", "tool"]]


def test_an_error_is_visible_and_the_next_turn_works(db: SessionDB) -> None:
    agent, model = agent_with(
        db, fail(AuthenticationError("The key was not accepted.")), say("Now.")
    )
    result = agent.run_conversation("one")
    assert result["failed"] and result["error"] == "The key was not accepted."
    assert result["final_response"] is None
    assert is_valid(db, agent.session_id)
    assert agent.run_conversation("two")["final_response"] == "Now."
    assert [role for role, _ in stored(db, agent.session_id)] == ["user", "assistant"] * 2
    model.assert_done()


def test_a_stream_without_its_end_is_an_error(db: SessionDB) -> None:
    agent, _ = agent_with(db, cut("Half an ans"))
    result = agent.run_conversation("go")
    assert result["failed"]
    assert stored(db, agent.session_id)[-1] == ("assistant", "Half an ans")


def test_overflow_is_named(db: SessionDB) -> None:
    agent, _ = agent_with(db, fail(ContextTooLongError("too many tokens")))
    assert "context length exceeded" in agent.run_conversation("go")["error"]


def test_empty_answers_are_tried_again_and_then_reported(db: SessionDB) -> None:
    agent, model = agent_with(db, say(""), say("  "), say("Here."))
    assert agent.run_conversation("go")["final_response"] == "Here."
    agent, model = agent_with(db, say(""), say(""), say(""))
    result = agent.run_conversation("go")
    model.assert_done()
    assert result["failed"] and "empty answer" in result["error"]
    assert is_valid(db, agent.session_id)


def test_the_budget_ends_a_turn_clearly(db: SessionDB) -> None:
    agent, _ = agent_with(db, *[call("shout", text="x")] * 3, max_iterations=3)
    result = agent.run_conversation("go")
    assert result["partial"] and not result["completed"]
    assert "budget" in result["error"] and "continue" in result["final_response"]
    assert is_valid(db, agent.session_id)


def test_a_fault_of_a_callback_does_not_cost_the_turn(db: SessionDB) -> None:
    agent, _ = agent_with(db, say("a", "b"))

    def fall_over(text: str) -> None:
        raise OSError("no screen")

    assert agent.run_conversation("go", stream_callback=fall_over)["final_response"] == "ab"


def test_a_fault_of_the_model_client_ends_in_a_word(db: SessionDB) -> None:
    agent, _ = agent_with(db, fail(KeyError("oops")), say("fine"))
    result = agent.run_conversation("go")
    assert result["failed"] and "oops" in result["error"]
    assert is_valid(db, agent.session_id)
    assert agent.run_conversation("again")["final_response"] == "fine"


def test_what_cannot_be_stored_is_refused_not_answered(db: SessionDB) -> None:
    agent, model = agent_with(db, say("never"))
    db.close()
    result = agent.run_conversation("go")
    assert result["failed"] and "closed" in result["error"]
    assert model.calls == 0


def ask(agent: AIAgent, question: str, watch: Watcher) -> dict[str, Any]:
    """Run a turn that is watched."""
    return as_dict(agent.run_blocking(Question(question), watch=watch))


def interrupt_at(agent: AIAgent, wanted: Callable[[Event], bool]) -> Watcher:
    """A watcher that interrupts the turn, from another thread, at the first event that fits."""
    done = threading.Event()

    def watch(event: Event) -> None:
        if wanted(event) and not done.is_set():
            thread = threading.Thread(target=agent.interrupt)
            thread.start()
            thread.join()
            done.set()

    return watch


def test_interrupt_in_the_middle_of_an_answer(db: SessionDB) -> None:
    agent, _ = agent_with(db, say("Once upon", asyncio.Event(), " a time"), say("ok"))
    watch = interrupt_at(agent, lambda event: isinstance(event, TextStreamed))
    result = ask(agent, "Tell me a story", watch)
    assert result["interrupted"] and not result["failed"]
    assert result["final_response"] is None
    last = db.get_messages(agent.session_id)[-1]
    assert (last["content"], last["finish_reason"]) == ("Once upon", "interrupted")
    assert agent.run_conversation("go on")["completed"]
    assert is_valid(db, agent.session_id)


def test_interrupt_while_a_tool_runs(db: SessionDB) -> None:
    stopped = threading.Event()

    def forever(context: ToolContext) -> str:
        context.cancelled.wait()
        stopped.set()
        return "too late"

    registry = Registry([Tool("forever", "", forever)])
    agent, _ = agent_with(db, calls([Call("forever"), Call("forever")]), say("ok"), tools=registry)
    watch = interrupt_at(agent, lambda event: isinstance(event, ToolStarted))
    assert ask(agent, "go", watch)["interrupted"]
    assert stopped.wait(60)
    results = [m["content"] for m in db.get_messages(agent.session_id) if m["role"] == "tool"]
    assert "[interrupted]" in results[0] and "[not run]" in results[1]
    assert is_valid(db, agent.session_id)


@pytest.mark.parametrize("event", [TurnStarted, ReasoningStreamed, ReplyFinished, ToolFinished])
def test_interrupt_at_other_moments(db: SessionDB, event: type) -> None:
    agent, _ = agent_with(
        db,
        calls([Call("shout", {"text": "a"})], reasoning="hm"),
        say(asyncio.Event()),
        say("next"),
    )
    watch = interrupt_at(agent, lambda seen: isinstance(seen, event))
    assert ask(agent, "go", watch)["interrupted"]
    assert is_valid(db, agent.session_id)


def test_an_interrupt_without_a_turn_does_nothing(db: SessionDB) -> None:
    agent, _ = agent_with(db, say("ok"))
    assert not agent.interrupt()
    assert agent.run_conversation("go")["completed"]


def test_steering_reaches_the_next_step(db: SessionDB) -> None:
    agent, model = agent_with(db, call("shout", text="a"), say("As you wish."))
    seen: list[Event] = []

    def watch(event: Event) -> None:
        seen.append(event)
        if isinstance(event, ToolStarted):
            assert agent.steer("Softer, please.")

    assert ask(agent, "go", watch)["final_response"] == "As you wish."
    assert model.requests[1].messages[-1]["content"] == "Softer, please."
    assert Steered("Softer, please.") in seen
    assert not agent.steer("too late")
    assert is_valid(db, agent.session_id)


def test_steering_during_the_last_answer_is_answered(db: SessionDB) -> None:
    agent, model = agent_with(db, say("First."), say("Second."))

    def watch(event: Event) -> None:
        if isinstance(event, TextStreamed) and model.calls == 1:
            agent.steer("And then?")

    assert ask(agent, "go", watch)["final_response"] == "Second."
    assert [text for _, text in stored(db, agent.session_id)] == [
        "go", "First.", "And then?", "Second.",
    ]  # fmt: skip


def test_one_turn_at_a_time(db: SessionDB) -> None:
    agent, _ = agent_with(db, say("ok"))
    refused: list[Exception] = []

    def again(event: Event) -> None:
        if isinstance(event, TextStreamed):
            thread = threading.Thread(target=try_again)
            thread.start()
            thread.join()

    def try_again() -> None:
        try:
            agent.run_conversation("me too")
        except TurnRunningError as error:
            refused.append(error)

    ask(agent, "go", again)
    assert len(refused) == 1
    assert db.message_count() == 2


def test_an_agent_sees_what_others_wrote(db: SessionDB, tmp_path: Path) -> None:
    agent, model = agent_with(db, say("one"), say("two"), say("three"))
    agent.run_conversation("a")
    with SessionDB(tmp_path / "state.db") as other:
        other.append_message(agent.session_id, "user", "from elsewhere")
        other.append_message(agent.session_id, "assistant", "noted")
    agent.run_conversation("b")
    assert [m["content"] for m in model.requests[1].messages] == [
        "a", "one", "from elsewhere", "noted", "b",
    ]  # fmt: skip
    db.rotate_session(agent.session_id, "tip", [{"role": "user", "content": "sum"}])
    assert agent.run_conversation("c")["session_id"] == agent.session_id == "tip"
    assert stored(db, "tip")[-2:] == [("user", "c"), ("assistant", "three")]


def test_what_a_crash_left_open_is_closed_by_the_next_turn(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "do it")
    wanted = [{"id": "x", "type": "function", "function": {"name": "shout", "arguments": "{}"}}]
    db.append_message("s", "assistant", None, tool_calls=wanted)
    agent, model = agent_with(db, say("Let me check."), session_id="s")
    agent.run_conversation("and?")
    assert is_valid(db, "s")
    sent = model.requests[0].messages
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert "outcome unknown" in sent[2]["content"]


def test_a_resumed_session_is_open_again(db: SessionDB) -> None:
    agent, _ = agent_with(db, say("one"), say("two"))
    agent.run_conversation("a")
    db.end_session(agent.session_id, "cli_close")
    agent.run_conversation("b")
    session = db.get_session(agent.session_id)
    assert session and session["ended_at"] is None


def test_the_prompt_is_built_once_and_kept(db: SessionDB) -> None:
    built: list[int] = []

    def build() -> str:
        built.append(1)
        return f"You are agent number {len(built)}."

    agent, model = agent_with(db, *[say("ok")] * 50, system_prompt=build)
    for turn in range(50):
        agent.run_conversation(f"turn {turn}")
    assert len(built) == 1
    assert len({(r.system, str(r.tools)) for r in model.requests}) == 1
    prompts = model.prompts
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(prompts))
    resumed, model = agent_with(db, say("ok"), session_id=agent.session_id, system_prompt=build)
    resumed.run_conversation("again")
    assert model.requests[0].system == "You are agent number 1."


def test_without_a_store_the_conversation_lives_in_memory() -> None:
    agent, _ = agent_with(None, say("one"), say("two"))
    agent.run_conversation("a", conversation_history=[])
    result = agent.run_conversation("b")
    assert [m["content"] for m in result["messages"]] == ["a", "one", "b", "two"]


async def test_many_conversations_share_one_event_loop(db: SessionDB) -> None:
    gate = asyncio.Event()
    agents = [agent_with(db, say("a", gate, "b"))[0] for _ in range(50)]
    turns = [asyncio.create_task(agent.run(Question("go"))) for agent in agents]
    while db.message_count() < 50:
        await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*turns)
    assert [result.text for result in results] == ["ab"] * 50
    assert db.session_count() == 50


def test_secrets_are_masked_in_results_and_events(db: SessionDB) -> None:
    secret = "sk-ant-" + "api03-" + "a1B2" * 12
    events: list[Event] = []

    def leak(context: ToolContext, note: str) -> str:
        assert note == f"key {secret}"
        context.progress(f"found {secret}")
        return f"it is {secret}"

    leaking = tool(toolset="test", effect="none")(leak)
    agent, model = agent_with(
        db,
        call("leak", note=f"key {secret}"),
        say("ok"),
        tools=Registry([leaking]),
        on_event=events.append,
    )
    agent.run_conversation("go")
    assert any(isinstance(event, ToolProgressed) for event in events)
    assert secret not in str(events)
    assert secret not in str(model.requests[1].messages[-1])


def test_a_long_result_is_masked_beside_the_event_loop(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked_in: dict[int, int] = {}

    def redact(text: str) -> str:
        masked_in[len(text)] = threading.get_ident()
        return text

    monkeypatch.setattr("agent.tool_calls.redact", redact)
    lengths = (10, LONGEST_ON_LOOP + 1)

    def print_much(context: ToolContext, length: int) -> str:
        return "x" * length

    agent, _ = agent_with(
        db,
        *(call("print_much", length=length) for length in lengths),
        say("ok"),
        tools=Registry([tool(toolset="test", effect="none")(print_much)]),
    )
    assert agent.run_conversation("go")["final_response"] == "ok"
    here = threading.get_ident()
    assert masked_in[lengths[0]] == here
    assert masked_in[lengths[1]] != here


def test_images_are_kept_and_sent(db: SessionDB) -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    agent, model = agent_with(db, say("A dot."))
    agent.run_conversation(parts)
    assert model.requests[0].messages[0]["content"] == parts
    assert stored(db, agent.session_id)[0] == ("user", parts)
