"""Compression as a turn meets it: when it happens, what it leaves, and what goes along."""

from __future__ import annotations

import contextvars
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.build import build_agent
from agent.compression.policy import cooldown_seconds
from agent.compression.tokens import estimate_tokens
from agent.config import load_config
from agent.config.schema import CompressionSettings
from agent.errors import ContextTooLongError
from agent.events import Compressed, Compressing, Event
from agent.model import Usage
from agent.request import Question
from agent.scripted import Call, ScriptedModel, call, calls, fail, say
from hermes_base.session_context import get_session_env
from hermes_state import SessionDB
from tools.base import ToolContext, tool
from tools.past_sessions import session_search
from tools.registry import Registry

from .compressing import (
    GOOD,
    Summariser,
    agent_on,
    check_conversation,
    continuations,
    in_place,
    store_talk,
)
from .histories import problems


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def size(model: ScriptedModel) -> int:
    """What the last request takes."""
    request = model.requests[-1]
    return estimate_tokens(request.messages, request.system, request.tools)


# When


def test_a_small_conversation_is_left_alone(db: SessionDB) -> None:
    agent, model = agent_on(db, auxiliary=Summariser(GOOD))
    before = agent.session_id
    for _ in range(5):
        agent.run_conversation("Hello")
    assert agent.session_id == before
    assert model.requests[-1].messages[0]["content"] == "Hello"


def test_stored_history_that_is_too_large_is_compressed_before_the_turn(db: SessionDB) -> None:
    marks = store_talk(db, "s", 60)
    events: list[Event] = []
    agent, model = agent_on(db, session_id="s", auxiliary=Summariser(GOOD), on_event=events.append)
    result = agent.run_conversation("And now?")
    assert result["final_response"] == "ok"
    assert model.calls == 1 and size(model) <= 2000
    assert model.requests[0].messages[-1]["content"] == "And now?"
    assert result["session_id"] == agent.session_id != "s"
    began, ended = [e for e in events if isinstance(e, Compressing | Compressed)]
    assert isinstance(began, Compressing) and began.session_id == "s" and began.messages == 121
    assert isinstance(ended, Compressed) and ended.session_id == agent.session_id
    assert ended.method == "summary" and ended.after_tokens < ended.before_tokens
    check_conversation(db, "s", marks)


def test_a_model_with_a_smaller_window_is_given_less(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    agent, large = agent_on(db, window=100_000, session_id="s")
    agent.run_conversation("And now?")
    assert agent.session_id == "s" and size(large) > 4000
    small = ScriptedModel([say("fine")], context_length=4000)
    agent.switch_model(small)
    assert agent.run_conversation("And then?")["final_response"] == "fine"
    assert agent.session_id != "s" and size(small) <= 2000


def test_compressed_between_the_calls_of_a_turn(db: SessionDB) -> None:
    def read(context: ToolContext, number: int) -> str:
        return f"contents {number} " * 300

    registry = Registry([tool(toolset="test", effect="none")(read)])
    steps = [calls([Call("read", {"number": n}), Call("read", {"number": -n})]) for n in range(8)]
    agent, model = agent_on(db, *steps, say("All read."), tools=registry)
    result = agent.run_conversation("Read the eight files of project zebra.")
    assert result["final_response"] == "All read."
    assert result["api_calls"] == 9
    for request in model.requests:
        assert problems(request.messages) == []
        assert estimate_tokens(request.messages, request.system, request.tools) <= 3100
        assert "project zebra" in str([m for m in request.messages if m["role"] == "user"])
    # The newest results are never left out, or the model would ask for them again.
    for request, number in zip(model.requests[1:], range(8), strict=True):
        assert f"contents {-number}" in request.messages[-1]["content"]
    assert len(db.get_compression_lineage(agent.session_id)) > 1
    check_conversation(db, agent.session_id, ["zebra"])


def test_a_result_larger_than_the_window_is_cut_and_seen(db: SessionDB) -> None:
    def read(context: ToolContext) -> str:
        return "The first line.\n" + "filler " * 12_000

    registry = Registry([tool(toolset="test", effect="none")(read)])
    agent, model = agent_on(db, call("read"), say("Read."), tools=registry)
    assert agent.run_conversation("Read the file.")["final_response"] == "Read."
    assert model.requests[1].messages[-1]["role"] == "tool"
    assert "The first line." in model.requests[1].messages[-1]["content"]
    assert size(model) <= 3100


def test_the_providers_own_count_corrects_the_estimate(db: SessionDB) -> None:
    """The same talk is compressed earlier where the provider counts three times as much."""
    for ratio, compressed in ((1, False), (3, True)):
        store_talk(db, f"s{ratio}", 10)

        def answer(request: Any, ratio: int = ratio) -> Any:
            tokens = estimate_tokens(request.messages, request.system, request.tools)
            return say("ok", usage=Usage(input_tokens=tokens * ratio))

        agent, _ = agent_on(db, answer, answer, session_id=f"s{ratio}", window=6000)
        agent.run_conversation("One")
        assert agent.session_id == f"s{ratio}"
        agent.run_conversation("Two")
        assert (agent.session_id != f"s{ratio}") is compressed


def test_very_many_messages_are_compressed_whatever_they_take(db: SessionDB) -> None:
    store_talk(db, "s", 30, size=2)
    settings = CompressionSettings(hygiene_hard_message_limit=50)
    agent, model = agent_on(db, window=1_000_000, session_id="s", compression=settings)
    agent.run_conversation("And now?")
    assert agent.session_id != "s" and len(model.requests[0].messages) < 50


def test_not_when_it_is_turned_off(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    agent, _ = agent_on(
        db,
        fail(ContextTooLongError),
        session_id="s",
        compression=CompressionSettings(enabled=False),
    )
    result = agent.run_conversation("And now?")
    assert result["error"].startswith("context length exceeded")
    assert agent.session_id == "s"


# What a provider finds too long


def test_too_long_is_answered_by_a_smaller_request(db: SessionDB) -> None:
    marks = store_talk(db, "s", 30)
    agent, model = agent_on(
        db, fail(ContextTooLongError), say("ok"), session_id="s", window=100_000
    )
    result = agent.run_conversation("And now?")
    assert result["final_response"] == "ok" and result["api_calls"] == 1
    sizes = [estimate_tokens(request.messages) for request in model.requests]
    assert sizes[1] < sizes[0] / 1.3
    check_conversation(db, "s", marks)


def test_one_enormous_message_is_cut_until_it_fits(db: SessionDB) -> None:
    def answer(request: Any) -> Any:
        if estimate_tokens(request.messages) > 1500:  # a server smaller than it was said to be
            return fail(ContextTooLongError)
        return say("Long!")

    agent, model = agent_on(db, *[answer] * 8, window=100_000)
    result = agent.run_conversation("Begin " + "word " * 20_000 + " end.")
    assert result["final_response"] == "Long!" and model.calls <= 6
    first = db.get_messages(db.get_compression_lineage(agent.session_id)[0])[0]
    assert len(first["content"]) > 100_000, "what the user said is kept"


def test_a_provider_that_is_never_content_ends_in_an_error(db: SessionDB) -> None:
    marks = store_talk(db, "s", 60)
    agent, model = agent_on(db, *[fail(ContextTooLongError)] * 50, session_id="s", window=100_000)
    result = agent.run_conversation("And now?")
    assert result["failed"] and result["error"].startswith("context length exceeded")
    assert model.calls <= 7 and len(db.get_compression_lineage("s")) <= 7
    check_conversation(db, "s", marks)
    again, _ = agent_on(db, session_id="s")
    assert again.run_conversation("Again?")["final_response"] == "ok"


def test_a_prompt_that_cannot_fit_is_said_so(db: SessionDB) -> None:
    agent, model = agent_on(db, system_prompt="Obey. " * 5000)
    result = agent.run_conversation("Hello")
    assert "system prompt and the tools take about" in result["error"]
    assert model.calls == 0 and result["failed"]


# What goes along


@pytest.mark.parametrize("mode", ["rotation", "in place"])
def test_what_stays_the_same(db: SessionDB, mode: str) -> None:
    registry = Registry([session_search])
    settings = CompressionSettings(in_place=mode == "in place")
    facts = {"chat_id": "c7", "cwd": "/w"}
    agent, model = agent_on(
        db,
        session_id="s",
        tools=registry,
        system_prompt="Be kind. ✓",
        user_id="ada",
        session_facts=facts,
        compression=settings,
        auxiliary=Summariser(GOOD),
    )
    agent.run_conversation("First")
    db.set_session_title("s", "Harbour")
    db.set_meta("goal:s", "paint it")
    marks = store_talk(db, "s", 60)
    agent.run_conversation("And now?")
    one, two = model.requests
    assert (one.system, one.tools) == (two.system, two.tools) == ("Be kind. ✓", registry.schemas())
    tip = db.get_session(agent.session_id)
    assert tip is not None and tip["end_reason"] is None
    assert tip["system_prompt"] == "Be kind. ✓"
    assert (tip["user_id"], tip["chat_id"], tip["cwd"]) == ("ada", "c7", "/w")
    assert tip["model"] == "scripted"
    assert db.get_meta(f"goal:{agent.session_id}") == "paint it"
    if mode == "rotation":
        assert tip["id"] != "s" and tip["title"] == "Harbour #2"
        assert continuations(db, "s") == [agent.session_id]
    else:
        assert tip["id"] == "s" and tip["title"] == "Harbour"
        archived = [m for m in db.get_messages("s", include_inactive=True) if m["compacted"]]
        assert len(archived) == 123
    check_conversation(db, "s", [*marks, "First"])
    # An agent that is built anew sees the same.
    again, model = agent_on(db, session_id="s", tools=registry, system_prompt="Another one.")
    again.run_conversation("Still there?")
    assert again.session_id == agent.session_id
    assert model.requests[0].system == "Be kind. ✓"


def test_the_context_variable_follows(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    seen: list[str] = []

    def look(context: ToolContext) -> str:
        seen.append(get_session_env("HERMES_SESSION_ID"))
        return context.session_id

    registry = Registry([tool(toolset="test", effect="none")(look)])
    agent, _ = agent_on(db, call("look"), say("ok"), session_id="s", tools=registry)

    def turn() -> str:
        agent.run_conversation("Where?")
        return get_session_env("HERMES_SESSION_ID")

    assert contextvars.copy_context().run(turn) == agent.session_id != "s"
    assert seen == [agent.session_id]


async def test_the_context_variable_follows_a_coroutine(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    agent, _ = agent_on(db, session_id="s")
    await agent.run(Question("Where?"))
    assert get_session_env("HERMES_SESSION_ID") == agent.session_id != "s"


def test_what_was_left_out_can_be_looked_up(db: SessionDB) -> None:
    """The record's pointers are read with the agent's own tool."""
    db.create_session("s", "cli", user_id="ada")
    store_talk(db, "s", 60)

    def look(request: Any) -> Any:
        record = next(m["content"] for m in request.messages if "#" in str(m["content"]))
        pointer = re.search(r"#(\d+)", record)
        assert pointer is not None
        return call("session_search", around_message_id=int(pointer[1]), window=1)

    agent, model = agent_on(
        db, look, say("Found."), session_id="s", user_id="ada", tools=Registry([session_search])
    )
    agent.run_conversation("What was that again?")
    result = model.requests[1].messages[-1]
    assert result["role"] == "tool" and "→" in result["content"]
    assert re.search(r"w\d+ apple", result["content"])


# When there is no summary


def failing() -> Summariser:
    return Summariser(RuntimeError("the model is down"))


def test_without_a_model_it_is_shortened_and_counted(db: SessionDB) -> None:
    marks = store_talk(db, "s", 60)
    agent, model = agent_on(db, session_id="s")
    assert agent.run_conversation("And now?")["final_response"] == "ok"
    assert size(model) <= 2000
    assert db.get_compression_fallback_streak(agent.session_id) == 1
    assert db.get_compression_failure_cooldown(agent.session_id) is None
    check_conversation(db, "s", marks)


def test_a_failing_model_is_left_in_peace_for_a_while(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    summariser = failing()
    agent, model = agent_on(db, session_id="s", auxiliary=summariser)
    agent.run_conversation("One")
    first = agent.session_id
    asked = len(summariser.prompts)
    assert first != "s" and asked
    cooldown = db.get_compression_failure_cooldown(first)
    assert cooldown is not None and "the model is down" in cooldown["error"]
    assert db.get_compression_fallback_streak(first) == 1

    # Over the threshold, but it fits: nothing is done.
    store_talk(db, first, 5)
    agent.run_conversation("Two")
    assert agent.session_id == first and 2000 < size(model) <= 3000

    # It does not fit: done without asking; the cool-down goes along.
    store_talk(db, first, 60)
    agent.run_conversation("Three")
    assert agent.session_id != first and size(model) <= 2000
    assert len(summariser.prompts) == asked
    assert db.get_compression_fallback_streak(agent.session_id) == 2
    assert db.get_compression_failure_cooldown(agent.session_id) is not None


def test_a_summary_ends_the_count(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD), compression=in_place())
    db.set_compression_fallback_streak("s", 3)
    agent.run_conversation("One")
    assert db.get_compression_fallback_streak("s") == 0
    assert db.get_compression_failure_cooldown("s") is None


def test_cooldowns_grow_to_a_bound() -> None:
    waits = [cooldown_seconds(failures) for failures in range(1, 30)]
    assert waits == sorted(waits) and waits[0] * 2 == waits[1]
    assert waits[-1] == waits[-2] == 3600


def test_what_saves_nothing_is_not_kept(db: SessionDB) -> None:
    """Over the threshold with nothing to take out: a strike, and the turn goes on."""
    agent, model = agent_on(db)
    agent.run_conversation("zebra " * 1200)
    assert len(db.get_compression_lineage(agent.session_id)) == 1
    assert model.calls == 1 and 2000 < size(model) < 3000
    cooldown = db.get_compression_failure_cooldown(agent.session_id)
    assert cooldown is not None and "too little" in cooldown["error"]


def test_a_large_request_is_not_cut_if_it_fits(db: SessionDB) -> None:
    marks = store_talk(db, "s", 60)
    for number, mode in enumerate((CompressionSettings(), in_place())):
        agent, model = agent_on(db, session_id="s", compression=mode)
        text = f"{number} " + "zebra " * 1000
        agent.run_conversation(text)
        assert model.requests[0].messages[-1]["content"] == text
        assert size(model) <= 3000
    check_conversation(db, "s", marks)


def test_it_can_be_set_to_stop_instead(db: SessionDB) -> None:
    store_talk(db, "s", 60)
    settings = CompressionSettings(abort_on_summary_failure=True)
    agent, model = agent_on(db, session_id="s", auxiliary=failing(), compression=settings)
    result = agent.run_conversation("One")
    assert result["failed"] and "abort_on_summary_failure" in result["error"]
    assert agent.session_id == "s" and model.calls == 0


def test_without_a_store(db: SessionDB) -> None:
    agent, model = agent_on(None, auxiliary=Summariser(GOOD))
    for number in range(40):
        assert agent.run_conversation(f"{number} " + "word " * 100)["final_response"] == "ok"
        assert size(model) <= 2100
    assert len(agent._session_messages or []) < 80


# Plugins, sub-agents, configuration


def test_plugins_are_told(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    store_talk(db, "s", 60)
    told: list[tuple[str, dict[str, Any]]] = []
    from hermes_base import plugins

    def listen(name: str, **facts: Any) -> list[Any]:
        if name in ("pre_compress", "post_compress"):
            told.append((name, facts))
        return []

    monkeypatch.setattr(plugins, "invoke_hook", listen)
    agent, _ = agent_on(db, session_id="s", platform="telegram", auxiliary=Summariser(GOOD))
    agent.run_conversation("And now?")
    (first, before), (second, after) = told
    assert (first, second) == ("pre_compress", "post_compress")
    assert before.pop("messages")[-1]["content"] == "And now?"
    assert before == {
        "session_id": "s", "focus_topic": None, "platform": "telegram", "model": "scripted",
    }  # fmt: skip
    assert after.pop("before_tokens") > after.pop("after_tokens") > 0
    assert after == {
        "session_id": agent.session_id, "old_session_id": "s", "in_place": False,
        "method": "summary", "platform": "telegram", "model": "scripted",
    }  # fmt: skip


def test_sub_agents_compress_too(db: SessionDB) -> None:
    agent, _ = agent_on(db, auxiliary=Summariser(GOOD), compression=in_place())
    child: AIAgent = agent.delegation._new_agent({"goal": "x"}, agent.asker)
    assert child.auxiliary is agent.auxiliary and child.compression.in_place


def test_the_configuration_reaches_the_agent(db: SessionDB, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "model: {default: m, provider: custom, base_url: 'http://localhost:1/v1'}\n"
        "compression: {in_place: true, threshold: 0.3}\n"
        "auxiliary: {compression: {timeout: 7}}\n"
    )
    agent = build_agent(load_config(tmp_path), db, model=ScriptedModel([]), tools=Registry())
    assert agent.compression.in_place and agent.compression.threshold == 0.3
    assert agent.compression_timeout == 7 and agent.auxiliary is not None
