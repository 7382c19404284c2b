"""A plugin's context engine: asked first, believed only as far as its result holds."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.auxiliary import Auxiliary
from agent.build import build_agent
from agent.config import load_config
from agent.config.schema import CompressionSettings
from agent.context_engine import ContextEngine
from agent.model import Message
from agent.scripted import ScriptedModel, say
from hermes_state import SessionDB

from .histories import problems


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as opened:
        yield opened


class Engine(ContextEngine):
    """Does what it is told."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.calls: list[dict[str, Any]] = []

    @property
    def name(self) -> str:
        return "mine"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        return

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def compress(self, messages: list[Message], *args: Any, **more: Any) -> list[Message]:
        self.calls.append(more)
        made: list[Message] = self.make(messages)
        return made


def talked(db: SessionDB, engine: Engine, seconds: float = 60.0, **settings: Any) -> AIAgent:
    model = ScriptedModel(itertools.repeat(say("word " * 60)), context_length=8000)
    agent = AIAgent(
        model, db=db, session_id="s", compression=CompressionSettings(**settings),
        compression_timeout=seconds,
    )  # fmt: skip
    agent.use_context_engine(engine)
    for number in range(12):
        agent.run_conversation(f"question {number} " + "more " * 60)
    return agent


def keep_last(messages: list[Message]) -> list[Message]:
    return [{"role": "user", "content": "[the engine's summary]"}, *messages[-3:]]


def test_an_engine_is_asked_and_its_result_is_stored(db: SessionDB) -> None:
    engine = Engine(keep_last)
    agent = talked(db, engine)
    agent.run_conversation("the newest")
    result = agent.compress("boats")
    assert (result.compressed, result.method) == (True, "engine")
    assert engine.calls[-1]["focus_topic"] == "boats"
    assert engine.calls[-1]["force"] is True
    live = db.get_messages_as_conversation(agent.session_id)
    assert "[the engine's summary]" in str(live[0]["content"])
    assert not problems(live)
    assert db.search_messages("question"), "everything said is still found"


hang = threading.Event()


@pytest.mark.parametrize(
    "make",
    [
        lambda messages: None,
        lambda messages: "text",
        lambda messages: [],
        lambda messages: [{"role": "user", "content": "lost it"}],
        lambda messages: [{"role": "wizard", "content": "x"}],
        lambda messages: [*messages, *messages],
        lambda messages: 1 / 0,
        lambda messages: hang.wait(30),
        lambda messages: messages.clear(),
    ],
)
def test_an_engine_that_fails_is_passed_over(db: SessionDB, make: Any) -> None:
    agent = talked(db, Engine(make), seconds=0.5)
    result = agent.compress()
    assert result.compressed
    assert result.method == "fallback"
    live = db.get_messages_as_conversation(agent.session_id)
    assert not problems(live)


def test_the_configuration_chooses_it(
    tmp_path: Path, db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes_base import plugins

    engine = Engine(keep_last)
    monkeypatch.setattr(
        plugins, "get_context_engine", lambda name: engine if name == "mine" else None
    )
    for name, expected in (("mine", engine), ("compressor", None), ("unknown", None)):
        (tmp_path / "config.yaml").write_text(f"context: {{engine: {name}}}\n")
        agent = build_agent(load_config(tmp_path, {}), db, model=ScriptedModel([]))
        used = agent._compressor.engine
        assert (used and used.engine) is expected


def test_a_small_model_is_not_asked_for_summaries(db: SessionDB) -> None:
    class Small(ScriptedModel):
        small = True

    small = Small(itertools.repeat(say("word " * 60)), context_length=8000)
    agent = AIAgent(small, db=db, session_id="s", auxiliary=Auxiliary(lambda: small))
    for number in range(12):
        agent.run_conversation(f"question {number} " + "more " * 60)
    asked = small.calls
    result = agent.compress()
    assert (result.compressed, result.method, small.calls) == (True, "fallback", asked)
    assert "no model" in str(result.error)
