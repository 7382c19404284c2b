"""However a command ends, the next one starts where it left off."""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tools
from tools.base import ToolContext, ToolError, Workspace
from tools.processes.ledger import Ledger
from tools.terminal import backends as terminal_backends
from tools.terminal.tool import close_terminal, terminal

Run = Callable[..., str]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")


@pytest.fixture(autouse=True)
def approved(monkeypatch: pytest.MonkeyPatch) -> None:
    approval = types.ModuleType("tools.approval")
    approval.check_command = lambda context, command, **_: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tools.approval", approval)
    monkeypatch.setattr(tools, "approval", approval, raising=False)


@pytest.fixture
def run(context: ToolContext) -> Iterator[Run]:
    def run(command: str, **arguments: Any) -> str:
        return str(terminal.run(context, command, **arguments))

    yield run
    close_terminal(context.workspace)
    assert Ledger(context.workspace.home).records() == []
    assert not list(context.workspace.home.glob("tool-runs/*"))


def test_the_directory_and_exported_variables_carry_over(context: ToolContext, run: Run) -> None:
    (context.workspace.cwd / "sub dir").mkdir()
    text = run("cd 'sub dir'; export NAME='a b\nc' PLAIN=1; unexported=2")
    assert text == f"[working directory: {context.workspace.cwd}]"
    assert context.workspace.cwd.name == "sub dir"
    assert context.workspace.environ["NAME"] == "a b\nc"
    assert run('pwd; echo "$NAME|$PLAIN|$unexported"') == f"{context.workspace.cwd}\na b\nc|1|"
    assert "sub dir" not in run("cd - >/dev/null; pwd")


def test_a_variable_that_was_unset_stays_unset(
    run: Run, monkeypatch: pytest.MonkeyPatch, context: ToolContext
) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    assert run("echo $INHERITED; unset INHERITED; export MADE=1") == "yes"
    assert run("echo ${INHERITED-gone} $MADE; unset MADE") == "gone 1"
    assert run("echo ${INHERITED-gone} ${MADE-gone}; export INHERITED=again") == "gone gone"
    assert run("echo $INHERITED") == "again"


@pytest.mark.parametrize(
    ("ending", "lasts"),
    [
        ("exit 3", True),
        ("false", True),
        ("set -e; false; echo not reached", True),
        ("set -eux; unset_variable=$not_set", True),
        ("trap 'echo bye' EXIT", True),
        ("(exit 4)", True),
        ("exec >/dev/null 2>&1", True),
        ("set -a; set -C; umask 0777; IFS=/", True),
        ("echo 'unclosed", False),  # the line is never run
        ("if then", False),
        ("exec true", False),
        ("kill -9 $$", False),
        ("trap : EXIT; exit 0", False),
    ],
)
def test_however_a_shell_ends_the_next_one_works(
    context: ToolContext, run: Run, ending: str, lasts: bool
) -> None:
    start = context.workspace.cwd
    (start / "sub").mkdir()
    run("export KEPT=before")
    run(f"cd sub; export KEPT=after; {ending}")
    where, value = run('echo "$PWD $KEPT"').split()
    assert where == str(start / "sub" if lasts else start)
    assert value == ("after" if lasts else "before")
    assert not any(name.startswith("__hermes") for name in context.workspace.environ)


def test_a_trace_shows_the_command_and_nothing_of_ours(run: Run) -> None:
    assert run("set -xv; echo a") in ("++ echo a\na", "echo a\n++ echo a\na")


def test_a_path_with_nothing_in_it_does_not_break_the_next_command(run: Run) -> None:
    run("export PATH=/nowhere")
    assert run("echo still here; type cat").startswith("still here")
    run("export PATH=/usr/bin:/bin")
    assert run("ls -d /") == "/"


def test_a_directory_that_vanished_is_left_for_its_parent(context: ToolContext, run: Run) -> None:
    start = context.workspace.cwd
    run("mkdir -p a/b; cd a/b")
    shutil.rmtree(start / "a")
    text = run("pwd")
    assert text.splitlines()[0] == str(start)
    assert "no longer exists" in text
    assert context.workspace.cwd == start


def test_a_path_through_a_link_is_kept(context: ToolContext, run: Run) -> None:
    (context.workspace.cwd / "real").mkdir()
    (context.workspace.cwd / "link").symlink_to("real")
    run("cd link")
    assert run("true") == "[no output]"
    assert context.workspace.cwd.name == "link"


def test_workdir_is_for_one_command(context: ToolContext, run: Run) -> None:
    start = context.workspace.cwd
    (start / "sub").mkdir()
    assert run("pwd; export SET=1", workdir="sub") == str(start / "sub")
    assert run("pwd; echo $SET") == f"{start}\n1"
    with pytest.raises(ToolError, match="not a directory"):
        run("pwd", workdir="nowhere")


def test_conversations_do_not_share_anything(run: Run, tmp_path: Path) -> None:
    run("export MINE=1; cd /")
    other = ToolContext("s2", "c", workspace=Workspace(tmp_path / "home", tmp_path))
    assert terminal.run(other, "echo ${MINE-nothing}; pwd") == f"nothing\n{tmp_path}"
    close_terminal(other.workspace)


def test_without_bash_sh_does_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_backends, "shell_path", lambda: "/bin/sh")
    assert run("echo ${BASH_VERSION-no bash}; cd /; export A=1") == (
        "no bash\n[working directory: /]"
    )
    assert run("echo $A; exit 3") == "1\n[exit code 3]"
    assert "[exit code 2]" in run("if then")
    assert run("pwd") == "/"


def test_a_very_large_variable_does_not_break_the_next_command(run: Run) -> None:
    text = run("cd /; export LARGE=$(head -c 200000 /dev/zero | tr '\\0' x)")
    assert "one of them is too large" in text
    assert run("pwd; echo ${LARGE-none}") == "/\nnone"


def test_exported_functions_carry_over(run: Run) -> None:
    run("greet() { echo hello $1; }; export -f greet")
    assert run("greet you") == "hello you"
