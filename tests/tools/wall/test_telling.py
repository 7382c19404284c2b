"""What is said about the wall, and that there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.base import Mode, ToolContext, Workspace
from tools.terminal.tool import close_terminal, terminal
from tools.wall import kinds
from tools.wall.kinds import Means
from tools.wall.telling import wall_line

ROOT = Path("/srv/project")
ANY = "bubblewrap,landlock,sandbox-exec"


def there_is(monkeypatch: pytest.MonkeyPatch, found: Means) -> None:
    """Let this machine have that kind of wall, where nobody says which to try."""
    monkeypatch.delenv("HERMES_WALL", raising=False)
    monkeypatch.setitem(kinds._known, ANY, found)


@pytest.fixture
def nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    there_is(monkeypatch, Means("none", why="bwrap is not installed"))


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    cwd.mkdir()
    return ToolContext("s", "call", workspace=Workspace(home, cwd))


def run(context: ToolContext, command: str = "echo hello", **more: object) -> str:
    try:
        return str(terminal.run(context, command, **more))
    finally:
        close_terminal(context.workspace)


@pytest.mark.usefixtures("nothing_there")
def test_the_first_command_without_a_wall_says_so_once(context: ToolContext) -> None:
    first = run(context)
    assert first.startswith("hello\n[no wall is around commands here (bwrap is not installed)")
    assert run(context) == "hello"


@pytest.mark.usefixtures("nothing_there")
def test_a_background_command_says_it_too(context: ToolContext) -> None:
    assert "[no wall is around" in run(context, "true", background=True)


@pytest.mark.usefixtures("nothing_there")
@pytest.mark.parametrize("chosen", ["HERMES_WALL", "sandbox", "mode"])
def test_whoever_chose_it_is_not_told(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    if chosen == "HERMES_WALL":
        monkeypatch.setenv("HERMES_WALL", "none")
    elif chosen == "sandbox":
        context.workspace.settings = {"terminal": {"sandbox": "off"}}
    else:
        context.workspace.mode = "full"
    assert run(context) == "hello"


@pytest.mark.parametrize(
    ("found", "settings", "mode", "line"),
    [
        (Means("bubblewrap"), {}, "guarded",
         "Wall: bubblewrap; writes in /srv/project, /data (mode guarded)"),
        (Means("bubblewrap"), {}, "plan", "Wall: bubblewrap; writes nowhere (mode plan)"),
        (Means("landlock", gaps=("that", "this")), {}, "guarded",
         "Wall: Landlock; it does not stop that or this; writes in /srv/project, /data"
         " (mode guarded)"),
        (Means("bubblewrap"), {}, "full", "Wall: none, and nothing is asked (mode full)"),
        (Means("bubblewrap"), {"sandbox": "off"}, "guarded",
         "Wall: none, terminal.sandbox is off (mode guarded)"),
        (Means("bubblewrap"), {"backend": "docker"}, "guarded",
         "Wall: none of ours; commands run over docker (mode guarded)"),
        (Means("none", why="no Landlock"), {}, "guarded",
         "Wall: none (no Landlock); what is dangerous is asked (mode guarded)"),
    ],
)  # fmt: skip
def test_a_line_for_the_status(
    monkeypatch: pytest.MonkeyPatch, found: Means, settings: dict[str, str], mode: Mode, line: str
) -> None:
    there_is(monkeypatch, found)
    assert wall_line(settings, mode, ROOT, [Path("/data")]) == line


@pytest.mark.parametrize(
    ("found", "sandbox", "is_wrong", "told"),
    [
        (Means("bubblewrap"), "auto", False, ["inside a wall: bubblewrap."]),
        (Means("landlock", gaps=("x",), why="bwrap is not installed"), "auto", False,
         ["Landlock; it does not stop x.", "nothing stronger: bwrap is not installed."]),
        (Means("none", why="no Landlock"), "auto", False,
         ["There is no wall around", "no Landlock"]),
        (Means("none", why="no Landlock"), "required", True, ["No command runs", "no Landlock"]),
        (Means("bubblewrap"), "off", False, ["terminal.sandbox is off"]),
    ],
)  # fmt: skip
def test_the_doctor_looks_at_the_wall(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: Means,
    sandbox: str,
    is_wrong: bool,
    told: list[str],
) -> None:
    from hermes_cli.main import main

    there_is(monkeypatch, found)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(f"terminal: {{sandbox: '{sandbox}'}}\n")
    (home / "config.yaml").chmod(0o600)
    monkeypatch.setenv("HERMES_HOME", str(home))
    code = main(["doctor", "--json"])
    part = json.loads(capsys.readouterr().out)["parts"]["wall"]["ailments"]
    problems = " ".join(one["problem"] for one in part)
    assert all(words in problems for words in told), problems
    assert all(one["hint"] for one in part) is not is_wrong
    assert code == int(is_wrong)
