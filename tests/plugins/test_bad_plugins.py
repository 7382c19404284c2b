"""Whatever a plugin does in its hooks and middleware, the user's turn is the same as without it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.events import Event, TurnFinished
from agent.scripted import Call, ScriptedModel, call, calls, say
from hermes_base import plugins
from hermes_base.plugins.calls import STRIKES
from hermes_base.plugins.hooks import KNOWN_HOOKS
from hermes_base.plugins.registrations import MIDDLEWARE_KINDS
from hermes_state import SessionDB
from tools.base import Workspace
from tools.plugin_tools import plugin_tools

from .conftest import Load, WritePlugin, shouting

BEHAVIOURS = {
    "raises": "raise RuntimeError('bad')",
    "exits": "sys.exit(1)",
    "is interrupted": "raise KeyboardInterrupt",
    "hangs": "release.wait(60)",
    "prints": "print('noise on standard output')",
    "returns a number": "return 42",
    "returns a list": "return [1, 2]",
    "returns an odd dict": "return {'action': 7, 'context': [], 'args': 3, 'request': 'x'}",
    "returns an object": "return object()",
    "returns empty text": "return ''",
    "changes what it gets": "spoil(kwargs)",
    "stands in for a coroutine": "return wait_for_me()",
    "recurses": "callback(**kwargs)",
}
NEW_FILE = {"path": "x.py", "content": "y"}
NOT_TEXT = {"returns empty text"}
"""An empty text is a valid result of a tool; it must not be taken for an answer."""

CODE = """
import sys, threading
release = threading.Event()
seen = []

async def wait_for_me():
    return "never"

def spoil(value):
    if isinstance(value, dict):
        for key in list(value):
            spoil(value[key])
            value[key] = "spoilt"
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value.clear()

def callback(**kwargs):
    seen.append(1)
    {behaviour}

def register(ctx):
    for name in {hooks!r}:
        ctx.register_hook(name, callback)
    for kind in {kinds!r}:
        ctx.register_middleware(kind, callback)
"""


def turns(folder: Path) -> dict[str, Any]:
    """Two turns with tools, as a user and a later session would see them."""
    folder.mkdir()
    steps = [
        calls([Call("shout", {"text": "a"}, "c1"), Call("write_file", NEW_FILE, "c2")]),
        call("shout", text="b"),
        call("break_down"),
        say("Do", "ne."),
        say("Again."),
    ]
    model, pieces, events = ScriptedModel(steps), [], []

    def watch(event: Event) -> None:
        events.append((type(event).__name__, event.text if type(event) is TurnFinished else ""))

    with SessionDB(folder / "state.db") as db:
        agent = AIAgent(
            model,
            db=db,
            tools=shouting(),
            workspace=Workspace(folder, folder),
            system_prompt="You are Hermes.",
            on_event=watch,
        )
        results = [agent.run_conversation(text, None, pieces.append) for text in ("go", "on")]
        stored = db.get_messages_as_conversation(agent.session_id)
    seen = {
        "results": results,
        "pieces": pieces,
        "events": events,
        "stored": stored,
        "requests": [(one.system, one.messages, one.tools) for one in model.requests],
    }
    # Ids and times differ between any two runs.
    text = re.sub(r"\d{8}_\d{6}_[0-9a-f]{6}|call_[0-9a-f]{16}", "ID", repr(seen))
    text = re.sub(r"('timestamp': |'id': |'_row_id': )[\d.]+", r"\1N", text)
    return {"text": text, "final": [one["final_response"] for one in results], "stored": stored}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_the_user_notices_nothing(
    behaviour: str,
    write_plugin: WritePlugin,
    load: Load,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = turns(tmp_path / "without")
    hooks = sorted(KNOWN_HOOKS)
    if behaviour in NOT_TEXT:
        hooks = [name for name in hooks if not name.startswith("transform_")]
    kinds = list(MIDDLEWARE_KINDS)
    if behaviour == "returns an odd dict":
        kinds.remove("tool_execution")  # a dict may stand for the result of a tool
    code = CODE.format(behaviour=BEHAVIOURS[behaviour], hooks=hooks, kinds=kinds)
    write_plugin("bad", code)
    load("bad", plugins={"hook_timeout": 0.05 if behaviour == "hangs" else 30})
    assert plugins.loaded_plugins() == ["bad"]
    capsys.readouterr()
    found = turns(tmp_path / "with")
    bad = sys.modules["hermes_plugins.bad"]
    bad.release.set()
    # One that hangs everywhere is switched off before it has been everywhere.
    assert len(bad.seen) == STRIKES if behaviour == "hangs" else len(bad.seen) > 10
    assert found["final"] == expected["final"] == ["Done.", "Again."]
    assert found["text"] == expected["text"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "name",
    [
        *("on_session_start", "on_session_end", "pre_llm_call", "post_llm_call"),
        *("transform_llm_output", "pre_api_request", "post_api_request", "pre_tool_call"),
        *("post_tool_call", "transform_tool_result", "pre_verify"),
        *MIDDLEWARE_KINDS,
    ],
)
def test_one_that_hangs_in_one_place(
    name: str, write_plugin: WritePlugin, load: Load, tmp_path: Path
) -> None:
    expected = turns(tmp_path / "without")
    names = ([], [name]) if name in MIDDLEWARE_KINDS else ([name], [])
    code = CODE.format(behaviour=BEHAVIOURS["hangs"], hooks=names[0], kinds=names[1])
    write_plugin("bad", code)
    load("bad", plugins={"hook_timeout": 0.05})
    found = turns(tmp_path / "with")
    bad = sys.modules["hermes_plugins.bad"]
    bad.release.set()
    assert bad.seen
    assert found["text"] == expected["text"]


@pytest.mark.parametrize("behaviour", ["raises", "exits"])
def test_a_bad_tool_of_a_plugin_is_the_models_to_read(
    behaviour: str, write_plugin: WritePlugin, load: Load, tmp_path: Path
) -> None:
    write_plugin(
        "bad",
        f"""
        import sys
        def handler(args, **kwargs):
            {BEHAVIOURS[behaviour]}
        def register(ctx):
            ctx.register_tool("bad_tool", "bad", {{"parameters": {{}}}}, handler)
        """,
    )
    load("bad")
    from tools.registry import Registry

    tools = Registry(tool for tool, _ in plugin_tools())
    agent = AIAgent(
        ScriptedModel([call("bad_tool"), say("Well.")]),
        tools=tools,
        workspace=Workspace(tmp_path, tmp_path),
    )
    result = agent.run_conversation("go")
    assert result["final_response"] == "Well."
    assert result["messages"][2]["content"].startswith("Error: ")


def test_a_command_that_fails_says_so(write_plugin: WritePlugin, load: Load) -> None:
    write_plugin(
        "bad",
        """
        import sys
        async def later(arguments):
            return arguments.upper()
        def register(ctx):
            ctx.register_command("raise", lambda arguments: 1 / 0)
            ctx.register_command("exit", lambda arguments: sys.exit(1))
            ctx.register_command("nothing", lambda arguments: None)
            ctx.register_command("later", later)
        """,
    )
    load("bad")
    run: Callable[..., Any] = plugins.run_command
    assert "ZeroDivisionError" in run("raise")
    assert "SystemExit" in run("exit")
    assert run("nothing") is None
    assert run("later", "abc") == "ABC"
