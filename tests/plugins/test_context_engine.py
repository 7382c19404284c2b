"""A plugin's context engine in a real agent: every method is called at its moment."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.build import build_agent
from agent.config import Config, load_config
from agent.scripted import ScriptedModel, StepLike, call, say
from agent.slash import run
from hermes_state import SessionDB
from tools.registry import Registry

from ..agent.slash_surface import Front

WritePlugin = Callable[..., Path]

ENGINE = """
from agent.context_engine import ContextEngine

calls = []
says = {"should": False, "preflight": False, "defer": False, "content": True}

class Engine(ContextEngine):
    @property
    def name(self):
        return "mine"

    def update_from_response(self, usage):
        calls.append(("answered", usage["prompt_tokens"], usage["total_tokens"]))

    def should_compress(self, prompt_tokens=None):
        calls.append(("should", prompt_tokens > 0))
        return says["should"]

    def should_compress_preflight(self, messages):
        calls.append(("preflight", len(messages)))
        return says["preflight"]

    def should_defer_preflight_to_real_usage(self, rough_tokens):
        calls.append(("defer", rough_tokens > 0))
        return says["defer"]

    def has_content_to_compress(self, messages):
        calls.append(("content", len(messages)))
        return says["content"]

    def compress(self, messages, current_tokens=None, focus_topic=None, force=False,
                 memory_context=""):
        calls.append(("compress", focus_topic, force))
        newest = max(i for i, one in enumerate(messages) if one["role"] == "user")
        short = {"role": "user", "content": "[in short]"}, {"role": "assistant", "content": "Hm."}
        return [*short, *messages[newest:]]

    def on_session_start(self, session_id, **kwargs):
        calls.append(("start", session_id, kwargs))

    def on_session_end(self, session_id, messages):
        calls.append(("end", session_id, len(messages)))

    def on_session_reset(self):
        calls.append(("reset",))

    def get_tool_schemas(self):
        return [{"name": "expand", "description": "More.", "parameters": {
            "type": "object", "properties": {"about": {"type": "string"}}}},
            {"nothing": "of the kind"}]

    def handle_tool_call(self, name, args, **kwargs):
        calls.append(("tool", name, args, len(kwargs["messages"]), kwargs["session_id"]))
        return "more about " + args["about"]

    def get_status(self):
        return {"compressions": 3}

    def update_model(self, model, context_length, base_url="", api_key="", provider="",
                     api_mode=""):
        calls.append(("model", model, context_length, api_key))

def register(ctx):
    ctx.register_context_engine(Engine())
"""


class Used:
    """An agent with the engine, and what the engine was called with."""

    def __init__(self, config: Config, db: SessionDB) -> None:
        self._config, self._db = config, db

    def agent(self, steps: list[StepLike], session_id: str = "s", **more: Any) -> AIAgent:
        model = ScriptedModel(itertools.chain(steps, itertools.repeat(say("ok"))), **more)
        self._agent = build_agent(
            self._config, self._db, model=model, session_id=session_id, tools=Registry()
        )
        return self._agent

    @property
    def plugin(self) -> Any:
        return sys.modules["hermes_plugins.mine"]

    def calls(self, *names: str) -> list[tuple[Any, ...]]:
        """What it was called with since the last time, of these names or of all.

        The engine is told things on a thread of its own, and the answer of a call that is made now
        comes after those before it.
        """
        self._agent.context_status()
        taken = [one for one in self.plugin.calls if not names or one[0] in names]
        self.plugin.calls.clear()
        return taken


@pytest.fixture
def used(write_plugin: WritePlugin, home: Path, tmp_path: Path) -> Iterator[Used]:
    write_plugin("mine", ENGINE)
    (home / "config.yaml").write_text(
        "plugins: {enabled: [mine]}\ncontext: {engine: mine}\nmemory: {enabled: false}\n"
        "auxiliary: {title_generation: {enabled: false}}\n"
    )
    with SessionDB(tmp_path / "state.db") as db:
        yield Used(load_config(home, {}), db)


def test_a_session_from_its_beginning_to_its_end(used: Used) -> None:
    agent = used.agent([])
    agent.run_conversation("hello")
    agent.run_conversation("again")
    agent.close()
    calls = used.calls()
    start = {"platform": "cli", "conversation_id": "s"}
    assert [one for one in calls if one[0] in ("model", "reset", "start", "end")] == [
        ("model", agent.model, agent.llm.context_length, ""),
        ("start", "s", start),
        ("end", "s", 4),
    ]
    assert [one[0] for one in calls].count("answered") == 2
    agent = used.agent([], session_id="later")
    agent.run_conversation("hello")
    assert [one[0] for one in used.calls("reset", "start")] == ["reset", "start"]
    agent.move_to("s")  # another conversation, which is not new
    agent.run_conversation("goes on")
    assert used.calls("reset", "start", "end") == [("end", "later", 2), ("start", "s", start)]
    agent.close()


def test_what_a_request_used_and_whether_it_is_time(used: Used) -> None:
    agent = used.agent([call("expand", about="boats"), say("done")])
    agent.run_conversation("hello")
    agent.close()  # waits for what the engine's thread has yet to be told
    names = [one[0] for one in used.calls("preflight", "answered", "should", "tool")]
    assert names == ["preflight", "answered", "tool", "should", "answered"]


def test_its_tools_are_the_agents(used: Used) -> None:
    agent = used.agent([call("expand", about="boats"), say("done")])
    result = agent.run_conversation("hello")
    assert result["messages"][2]["content"] == "more about boats"
    assert used.calls("tool") == [("tool", "expand", {"about": "boats"}, 2, "s")]
    assert [one["function"]["name"] for one in agent._tool_schemas] == ["expand"]
    agent.close()


@pytest.mark.parametrize("in_place", [True, False])
def test_a_compression_is_told_when_it_is_stored(used: Used, in_place: bool, home: Path) -> None:
    with (home / "config.yaml").open("a") as file:
        file.write(f"compression: {{in_place: {str(in_place).lower()}}}\n")
    used._config = load_config(home, {})
    agent = used.agent([say("word " * 300)] * 4)
    for number in range(4):
        agent.run_conversation(f"question {number}")
    used.calls()
    result = agent.compress("boats")
    assert (result.compressed, result.method) == (True, "engine")
    assert (agent.session_id == "s") == in_place
    calls = used.calls("content", "compress", "start")
    assert [one[0] for one in calls] == ["content", "compress", "start"]
    assert calls[1] == ("compress", "boats", True)
    assert calls[2] == (
        "start",
        agent.session_id,
        {
            "boundary_reason": "compression",
            "old_session_id": "s",
            "platform": "cli",
            "conversation_id": "s",
        },
    )
    agent.run_conversation("and on")
    assert used.calls("start") == []
    agent.close()


def test_the_engine_says_when(used: Used) -> None:
    agent = used.agent([say("word " * 300)] * 3 + [say("done")])
    used.plugin.says["preflight"] = True
    used.plugin.says["defer"] = True
    for number in range(3):
        agent.run_conversation(f"question {number}")
    assert used.calls("compress", "defer") == [("defer", True)] * 3
    used.plugin.says["defer"] = False
    agent.run_conversation("now")
    assert used.calls("compress") == [("compress", None, False)]
    live = used._db.get_messages_as_conversation(agent.session_id)
    assert "[in short]" in live[0]["content"]
    used.plugin.says.update(preflight=False, should=False)
    agent.close()


def test_what_it_finds_too_little_is_left_alone(used: Used) -> None:
    agent = used.agent([say("word " * 300)] * 4)
    for number in range(4):
        agent.run_conversation(f"question {number}")
    used.plugin.says["content"] = False
    assert not agent.compress().compressed
    assert used.calls("compress") == []
    used.plugin.says["content"] = True
    agent.close()


def test_what_no_longer_fits_is_compressed_whatever_it_says(used: Used) -> None:
    agent = used.agent([say("word " * 400)] * 30, context_length=8000)
    for number in range(16):
        assert not agent.run_conversation(f"question {number} " + "more " * 200)["failed"]
    assert used.calls("compress")[0] == ("compress", None, True)
    agent.close()


def test_another_model_and_the_figures(used: Used, tmp_path: Path) -> None:
    agent = used.agent([])
    agent.run_conversation("hello")
    used.calls()
    agent.switch_model(ScriptedModel([], name="other", context_length=9000))
    agent.context_status()  # behind it in the engine's line
    assert used.calls("model") == [("model", "other", 9000, "")]
    front = Front(used._db, tmp_path / "front")
    front._agent = agent
    assert "Context engine mine: compressions 3" in str(run(front, "/usage"))
    agent.close()
