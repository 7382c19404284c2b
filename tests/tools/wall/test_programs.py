"""Programs of the agent's own making inside a wall: execute_code, and no way around it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools.base import ToolContext
from tools.code_execution import execute_code
from tools.services import Services

Run = Callable[..., str]


def test_a_program_runs_without_a_question_and_stays_inside(walled: ToolContext) -> None:
    root = walled.workspace.root
    text = execute_code.run(
        walled,
        f"""
from pathlib import Path
root = Path({str(root)!r})
(root / "made.txt").write_text("new")
for path in (root.parent / "outside.txt", root.parent / ".hermes/.env"):
    try:
        path.write_text("x")
    except OSError as error:
        print(type(error).__name__)
print((root.parent / "notes.txt").read_text())
""",
    )
    assert (root / "made.txt").read_text() == "new"
    assert not (root.parent / "outside.txt").exists()
    assert "sk-hidden" in (root.parent / ".hermes/.env").read_text()
    assert str(text).count("Error") == 2
    assert str(text).endswith("shown")


def test_a_program_calls_tools(walled: ToolContext) -> None:
    walled.services = Services(call_tool=lambda name, arguments: f"{name} {arguments['path']}")
    text = execute_code.run(walled, "from hermes_tools import read_file\nprint(read_file('a.txt'))")
    assert text == "read_file a.txt"


def test_commands_inherit_no_descriptors(run: Run) -> None:
    assert run("ls /proc/self/fd").split() == ["0", "1", "2", "3"], "3 is the folder it reads"


@pytest.mark.parametrize("name", ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY"])
def test_variables_that_lead_to_sockets_are_gone(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/somewhere")
    assert run(f"echo [${{{name}-}}]") == "[]"


def test_a_shell_hook_with_roots_stays_within_them(walled: ToolContext) -> None:
    from tools.shell_hooks import read_hooks, run_hook

    person, home = walled.workspace.root.parent, walled.workspace.home
    (person / "notes").mkdir()
    command = "sh -c 'cat ~/.netrc ~/.hermes/.env; echo x > ~/notes/a; echo x > ~/b; echo done'"
    hooks, problems = read_hooks(
        {"hooks": {"pre_tool_call": [{"command": command, "roots": ["~/notes"]}]}}
    )
    assert problems == []
    answer = run_hook(hooks[0], home, {}, {})
    assert answer.output.endswith("done\n")
    assert "hidden" not in answer.output
    assert (person / "notes/a").exists()
    assert not (person / "b").exists()
    assert list((home / "tool-runs").iterdir()) == []
