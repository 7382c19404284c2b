"""Shell hooks: told in JSON, answered in JSON, and never run without consent."""

from __future__ import annotations

import json
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent.plugin_loading import load_plugins
from agent.scripted import call, say
from hermes_base import plugins
from tools.hook_consents import FILE, agree, read_consents, revoke
from tools.shell_hooks import read_hooks

from .conftest import MakeAgent

ACCEPT = {"HERMES_ACCEPT_HOOKS": "1"}


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """`script("code")` makes a command of Python code; `told` is what it got."""

    def make(code: str) -> str:
        path = tmp_path / f"hook{len(list(tmp_path.glob('hook*')))}.py"
        path.write_text(f"import json, os, sys, time\ntold = json.load(sys.stdin)\n{code}\n")
        return f"{sys.executable} {path}"

    return make


def load(home: Path, environ: dict[str, str] | None = None, **hooks: Any) -> None:
    load_plugins({"hooks": hooks}, home, ACCEPT if environ is None else environ)


def test_what_a_command_is_told(script: Any, home: Path, tmp_path: Path) -> None:
    command = script(f"open({str(tmp_path / 'told')!r}, 'w').write(json.dumps(told))")
    load(home, pre_tool_call=[{"command": command}])
    plugins.invoke_hook(
        "pre_tool_call", tool_name="terminal", args={"command": "ls"}, session_id="s1", turn_id="t"
    )
    told = json.loads((tmp_path / "told").read_text())
    assert told.pop("cwd") == str(Path.cwd())
    assert told == {
        "hook_event_name": "pre_tool_call",
        "tool_name": "terminal",
        "tool_input": {"command": "ls"},
        "session_id": "s1",
        "extra": {"turn_id": "t", "telemetry_schema_version": "hermes.observer.v1"},
    }


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"decision": "block", "reason": "no"}, [{"action": "block", "message": "no"}]),
        ({"action": "block", "message": "no"}, [{"action": "block", "message": "no"}]),
        ({"context": "It rains."}, [{"context": "It rains."}]),
        ({"context": 7}, []),
        ({"something": "else"}, []),
        ([1], []),
        ("text", []),
    ],
)
def test_what_it_may_answer(answer: Any, expected: Any, script: Any, home: Path) -> None:
    load(home, pre_tool_call=[{"command": script(f"print({json.dumps(answer)!r})")}])
    assert plugins.invoke_hook("pre_tool_call", tool_name="x", args={}) == expected


def test_a_block_without_a_reason_is_a_block(script: Any, home: Path) -> None:
    load(home, pre_tool_call=[script('print(json.dumps({"decision": "block"}))')])
    (answer,) = plugins.invoke_hook("pre_tool_call", tool_name="x", args={})
    assert answer["action"] == "block" and answer["message"]


@pytest.mark.parametrize(
    "code",
    [
        "print('no json')",
        "print('{')",
        "sys.exit(7)",
        "os.kill(os.getpid(), 9)",
        "sys.stdout.buffer.write(b'\\xff\\xfe')",
        "sys.stdin.close()",
        "for _ in range(300): print('x' * 10_000)",
    ],
)
def test_a_bad_command_changes_nothing(code: str, script: Any, home: Path) -> None:
    load(home, pre_tool_call=[script(code)])
    assert plugins.invoke_hook("pre_tool_call", tool_name="x", args={}) == []


def test_a_command_that_is_not_there(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    load(home, pre_tool_call=["/no/such/command"])
    assert plugins.invoke_hook("pre_tool_call", tool_name="x", args={}) == []
    assert "/no/such/command" in caplog.text


def test_one_that_hangs_is_stopped_with_its_children(
    script: Any, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = f"""
import subprocess
child = subprocess.Popen(["sleep", "60"])
open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
time.sleep(60)
"""
    load(home, pre_tool_call=[{"command": script(code), "timeout": 1}])
    assert plugins.invoke_hook("pre_tool_call", tool_name="x", args={}) == []
    assert "was stopped after 1 s" in caplog.text
    pid = int((tmp_path / "pid").read_text())
    while is_alive(pid):
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_only_matching_tools(script: Any, home: Path) -> None:
    command = script('print(json.dumps({"decision": "block", "reason": told["tool_name"]}))')
    load(home, pre_tool_call=[{"matcher": "terminal|exec.*", "command": command}])

    def blocked(name: str) -> bool:
        return bool(plugins.invoke_hook("pre_tool_call", tool_name=name, args={}))

    assert blocked("terminal") and blocked("execute_code")
    assert not blocked("terminal_two") and not blocked("read_file")


def test_credentials_stay_at_home(script: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("PASSED_API_KEY", "passed")
    monkeypatch.setenv("HARMLESS", "yes")
    names = ["SOME_API_KEY", "PASSED_API_KEY", "HARMLESS", "HERMES_HOME", "PASSED_IN_FILE"]
    names += ["OTHER_IN_FILE"]
    with_file = {**ACCEPT, "PASSED_IN_FILE": "from .env", "OTHER_IN_FILE": "kept"}
    code = f"print(json.dumps({{'context': repr([os.environ.get(n) for n in {names}])}}))"
    raw = {"hooks": {"pre_llm_call": [script(code)]}, "terminal": {"pass_env": ["PASSED_*"]}}
    load_plugins(raw, home, with_file)
    (answer,) = plugins.invoke_hook("pre_llm_call")
    assert answer["context"] == repr([None, "passed", "yes", str(home), "from .env", None])


def test_without_consent_nothing_runs(
    script: Any, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command = script(f"open({str(tmp_path / 'ran')!r}, 'w')")
    load(home, {}, on_session_end=[command])
    assert not plugins.has_hook("on_session_end")
    assert "hermes hooks accept" in caplog.text and command in caplog.text
    agree(home, [("on_session_end", command)])
    plugins.forget_plugins()
    load(home, {}, on_session_end=[command], on_session_reset=[command])
    plugins.invoke_hook("on_session_end", session_id="s")
    assert (tmp_path / "ran").exists()
    # For another event it has to be agreed to anew.
    assert not plugins.has_hook("on_session_reset")


@pytest.mark.parametrize("way", ["environment", "config"])
def test_agreeing_to_everything_is_kept(way: str, home: Path) -> None:
    raw: dict[str, Any] = {"hooks": {"on_session_end": ["true"]}}
    if way == "config":
        raw["hooks_auto_accept"] = True
    load_plugins(raw, home, ACCEPT if way == "environment" else {})
    assert plugins.has_hook("on_session_end")
    assert list(read_consents(home)) == [("on_session_end", "true")]
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600


def test_safe_mode_runs_none(home: Path) -> None:
    load(home, {**ACCEPT, "HERMES_SAFE_MODE": "1"}, on_session_end=["true"])
    assert not plugins.has_hook("on_session_end")


def test_taking_consent_back(home: Path) -> None:
    agree(home, [("a", "x"), ("b", "x"), ("a", "y")])
    assert revoke(home, "x", "a") == 1
    assert set(read_consents(home)) == {("b", "x"), ("a", "y")}
    assert revoke(home, "x") == 1
    assert revoke(home, "x") == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"approvals": 3}', '{"approvals": [1, {}]}'])
def test_a_broken_list_means_no_consent(text: str, home: Path) -> None:
    (home / FILE).write_text(text)
    assert read_consents(home) == {}
    agree(home, [("a", "x")])
    assert set(read_consents(home)) == {("a", "x")}


@pytest.mark.parametrize(
    "section",
    [
        "text",
        {"no_such_hook": ["true"]},
        {"pre_tool_call": [{}]},
        {"pre_tool_call": [{"command": ""}]},
        {"pre_tool_call": [{"command": "'unclosed"}]},
        {"pre_tool_call": [{"command": "x", "matcher": "("}]},
        {"pre_tool_call": [{"command": "x", "timeout": "soon"}]},
        {"pre_tool_call": [{"command": "x", "timeout": -1}]},
        {"pre_tool_call": 7},
    ],
)
def test_a_broken_section(section: Any, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    raw = {"hooks": section}
    found, problems = read_hooks(raw)
    assert (found, len(problems)) == ([], 1)
    load_plugins(raw, home, ACCEPT)
    assert problems[0] in caplog.text


def test_a_timeout_has_its_bounds() -> None:
    found, _ = read_hooks({"hooks": {"pre_tool_call": [{"command": "x", "timeout": 9999}, "y"]}})
    assert [one.timeout for one in found] == [300.0, 60.0]


def test_a_command_blocks_a_tool_in_a_turn(script: Any, home: Path, make_agent: MakeAgent) -> None:
    command = script(
        'bad = "secret" in told["tool_input"]["text"]\n'
        'print(json.dumps({"decision": "block", "reason": "Keep it quiet."} if bad else {}))'
    )
    load(home, pre_tool_call=[{"matcher": "shout", "command": command}])
    agent, _ = make_agent(call("shout", text="secret"), call("shout", text="news"), say("."))
    result = agent.run_conversation("go")
    texts = [one["content"] for one in result["messages"] if one["role"] == "tool"]
    assert texts == ["Error: Blocked: Keep it quiet.", "NEWS"]
