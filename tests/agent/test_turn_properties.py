"""Whatever a model does and whenever the user interrupts: the history is valid and true."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.agent import AIAgent
from agent.errors import (
    AuthenticationError,
    BrokenReplyError,
    ContextTooLongError,
    RateLimitedError,
    RequestRefusedError,
    ServerFailedError,
)
from agent.events import Event, ReplyFinished, Steered, TextStreamed, ToolFinished, ToolStarted
from agent.outcome import as_dict
from agent.request import Question
from agent.scripted import Call, ScriptedModel, Step, calls, cut, fail, say
from hermes_state import SessionDB
from hermes_state.history import repair_message_sequence
from tools.base import Tool, ToolContext, ToolError, tool
from tools.registry import Registry

from .. import seeds
from ..state.memory import MEMORY
from .histories import problems

ERRORS = [
    AuthenticationError,
    BrokenReplyError,
    ContextTooLongError,
    RateLimitedError,
    RequestRefusedError,
    ServerFailedError,
]

words = st.text(max_size=8)
pieces = st.lists(words, max_size=4)
arguments = st.one_of(
    st.just({"text": "x"}),
    st.just({}),
    st.just({"wrong": [1]}),
    st.sampled_from(["", "{", "[1]", "null", '{"text": "\\ud800"}', "nonsense"]),
)
wanted_call = st.builds(
    Call,
    st.sampled_from(["echo", "slow_echo", "fails", "refuses", "unknown", ""]),
    arguments,
    st.sampled_from(["", "same", "a", "b"]),
)
step = st.one_of(
    st.builds(lambda texts: say(*texts), pieces),
    st.builds(lambda texts: say(*texts, finish="length"), pieces),
    st.builds(
        lambda several, text: calls(several, text=text),
        st.lists(wanted_call, min_size=1, max_size=3),
        words,
    ),
    st.builds(lambda error, after: fail(error, after=after), st.sampled_from(ERRORS), pieces),
    st.builds(lambda texts: cut(*texts), pieces),
    st.builds(lambda one, text: cut(text, one), wanted_call, words),
)


def tools() -> Registry:
    def echo(context: ToolContext, text: str) -> str:
        return text

    async def slow_echo(context: ToolContext, text: str) -> str:
        return text

    def fails(context: ToolContext, **_: Any) -> str:
        raise RuntimeError("broken")

    def refuses(context: ToolContext, **_: Any) -> str:
        raise ToolError("try something else")

    return Registry(
        [
            tool(toolset="test", effect="none")(echo),
            tool(toolset="test", effect="none")(slow_echo),
            Tool("fails", "", fails, parameters={"additionalProperties": True}),
            Tool("refuses", "", refuses, parameters={"additionalProperties": True}),
        ]
    )


class Watcher:
    """Notes what happened, and interrupts or steers at a chosen event."""

    def __init__(self, agent: AIAgent, interrupt_at: int | None, steer_at: int | None) -> None:
        self.agent = agent
        self.interrupt_at, self.steer_at = interrupt_at, steer_at
        self.events: list[Event] = []
        self.confirmed = 0

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) == self.interrupt_at:
            self.agent.interrupt()
        if len(self.events) == self.steer_at:
            self.confirmed += self.agent.steer("by the way")


def ever_stored(db: SessionDB, session_id: str) -> list[dict[str, Any]]:
    """Everything that was said in a conversation, also what a model is not sent any more."""
    session = db.get_session(session_id)
    before = session["continuation_of"] if session else None
    earlier = ever_stored(db, before) if before else []
    return [*earlier, *db.get_messages(session_id, include_inactive=True)]


def check_truth(db: SessionDB, agent: AIAgent, result: dict[str, Any], events: list[Event]) -> None:
    stored = db.get_messages(agent.session_id)
    # What was steered and not read stands beside the next question; a model is sent both as one.
    assert problems(repair_message_sequence(stored)) == []
    for before, after in itertools.pairwise(stored):
        if before["role"] == after["role"] == "user":
            assert before["content"] == "by the way"
    assert [(m["role"], m["content"]) for m in stored] == [
        (m["role"], m["content"]) for m in result["messages"]
    ]
    kept = ever_stored(db, agent.session_id)  # a compression may have summed some of it up
    results = [(m["tool_call_id"], m["content"]) for m in kept if m["role"] == "tool"]
    for event in events:
        if isinstance(event, ToolFinished):
            assert (event.call_id, event.result) in results
        elif isinstance(event, ToolStarted):
            assert event.call_id in {call_id for call_id, _ in results}
        elif isinstance(event, ReplyFinished):
            assert any(
                m["role"] == "assistant" and (m["content"] or "") == event.text for m in kept
            )
        elif isinstance(event, Steered):
            assert any(m["role"] == "user" and m["content"] == event.text for m in kept)
    session = db.get_session(agent.session_id)
    assert session is not None
    assert session["message_count"] == len(stored)
    assert session["tool_call_count"] == sum(len(m["tool_calls"] or []) for m in stored)


@settings(
    max_examples=seeds.examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    script=st.lists(step, max_size=8),
    interrupt_at=st.none() | st.integers(1, 25),
    steer_at=st.none() | st.integers(1, 12),
    prompts=st.lists(st.text(max_size=10), min_size=1, max_size=3),
)
@example(  # two steps, then too long: what was summed up is kept all the same
    script=[
        calls(
            [
                Call("echo", {"text": "x"}),
                Call("echo", {"wrong": [1]}),
                Call("unknown", {"text": "x"}),
            ]
        ),
        calls([Call("echo", {}), Call("slow_echo", "{"), Call("unknown", {"text": "x"})], text="0"),
        fail(ContextTooLongError),
    ],
    interrupt_at=None,
    steer_at=None,
    prompts=[""],
)
def test_any_script_and_any_interruption(
    script: list[Step], interrupt_at: int | None, steer_at: int | None, prompts: list[str]
) -> None:
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        SessionDB(Path(folder) / "state.db") as db,
    ):
        model = ScriptedModel(itertools.chain(script, itertools.repeat(say("The end."))))
        agent = AIAgent(model, db=db, tools=tools(), max_iterations=6)
        confirmed = 0
        for number, prompt in enumerate(prompts):
            watcher = Watcher(
                agent, interrupt_at if number == 0 else None, steer_at if number == 0 else None
            )
            question = Question(f"{number}: {prompt}")
            result = as_dict(agent.run_blocking(question, watch=watcher))
            assert (
                sum(
                    (
                        result["completed"],
                        result["failed"],
                        result["interrupted"],
                        result["partial"] and not result["completed"],
                    )
                )
                == 1
            )
            check_truth(db, agent, result, watcher.events)
            confirmed += watcher.confirmed
            for request in model.requests:
                assert problems(request.messages) == []
        again = AIAgent(
            ScriptedModel([say("Still here.")]), db=db, session_id=agent.session_id, tools=tools()
        )
        final = again.run_conversation("Are you there?")
        assert final["final_response"] == "Still here."
        check_truth(db, again, final, [])
        asked = [
            m["content"]
            for m in final["messages"]
            if m["role"] == "user" and not m["content"].startswith("[Record of earlier messages")
        ]
        assert asked.count("by the way") == confirmed, "what was confirmed is read once"
        assert [text for text in asked if text != "by the way"] == [
            *(f"{number}: {prompt}" for number, prompt in enumerate(prompts)),
            "Are you there?",
        ]


@settings(
    max_examples=seeds.examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    turns=st.integers(0, 3),
    extra=st.lists(st.sampled_from(["a", "b", "ok"]), max_size=4),
    known=st.integers(0, 8),
    alias=st.booleans(),
    copies=st.booleans(),
    strip=st.booleans(),
)
def test_persisting_writes_each_message_once(
    turns: int, extra: list[str], known: int, alias: bool, copies: bool, strip: bool
) -> None:
    """However much of the list is stored already, aliased, copied or without its ids."""
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        SessionDB(Path(folder) / "state.db") as db,
    ):
        model = ScriptedModel(itertools.repeat(say("ok")))
        agent = AIAgent(model, db=db)
        messages: list[dict[str, Any]] = []
        for _ in range(turns):
            messages = agent.run_conversation("a")["messages"]
        if strip:
            messages = [{k: m[k] for k in ("role", "content")} for m in messages]
        elif copies:
            messages = [dict(m) for m in messages]
        for index, text in enumerate(extra):
            messages.append({"role": ("user", "assistant")[index % 2], "content": text})
        expected = [(m["role"], m["content"]) for m in messages]
        history = messages if alias else messages[:known]
        agent._persist_session(messages, conversation_history=history)
        agent._persist_session(messages, conversation_history=messages)
        agent._persist_session(list(messages))
        stored = db.get_messages_as_conversation(agent.session_id)
        assert [(m["role"], m["content"]) for m in stored] == expected
        # Another agent, which never saw these lists, writes nothing more either.
        AIAgent(model, db=db, session_id=agent.session_id)._persist_session(messages)
        assert db.message_count() == len(expected)


def test_a_fragment_of_the_stream_is_never_lost_or_doubled() -> None:
    """What was streamed before an interruption is exactly what is stored of the answer."""
    text = [f"w{number} " for number in range(12)]
    for stop in range(1, 13):
        with (
            tempfile.TemporaryDirectory(dir=MEMORY) as folder,
            SessionDB(Path(folder) / "state.db") as db,
        ):
            agent = AIAgent(
                ScriptedModel([say(*itertools.chain(*((t, 0.0) for t in text)))]), db=db
            )
            seen: list[str] = []

            def watch(
                event: Event, agent: AIAgent = agent, seen: list[str] = seen, stop: int = stop
            ) -> None:
                if isinstance(event, TextStreamed):
                    seen.append(event.text)
                    if len(seen) == stop:
                        agent.interrupt()

            result = as_dict(agent.run_blocking(Question("go"), watch=watch))
            assert result["interrupted"] or stop == 12
            assert db.get_messages(agent.session_id)[-1]["content"] == "".join(seen)
