"""Real walls: every kind that this machine can build, around real commands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.base import ToolContext, Workspace
from tools.terminal.tool import close_terminal, terminal
from tools.wall.kinds import means

Run = Callable[..., str]

KINDS = [
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(
            shutil.which("bwrap") is None, reason="needs bwrap (Debian: apt-get install bubblewrap)"
        ),
    ),
    "landlock",
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of wall in turn; one that cannot be built here is skipped, and says why."""
    name = str(request.param)
    monkeypatch.setenv("HERMES_WALL", name)
    found = means()
    if found.kind != name:
        if name in os.environ.get("HERMES_TEST_REQUIRE", ""):
            pytest.fail(f"{name} is required and cannot be had: {found.why}")
        pytest.skip(f"no {name} here: {found.why}")
    return name


@pytest.fixture
def walled(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolContext]:
    """A conversation behind a wall, with a home of its own that has something to hide."""
    person = tmp_path / "person"
    home, root = person / ".hermes", person / "project"
    for folder in (home, root, person / ".ssh", person / ".config/gh"):
        folder.mkdir(parents=True)
    (home / ".env").write_text("OPENAI_API_KEY=sk-hidden\n")
    (person / ".ssh/id_ed25519").write_text("hidden\n")
    (person / ".config/gh/hosts.yml").write_text("hidden\n")
    (person / ".netrc").write_text("hidden\n")
    (person / "notes.txt").write_text("shown\n")
    monkeypatch.setenv("HOME", str(person))
    from tools.wall import places

    places.homes.cache_clear()
    workspace = Workspace(home, root, settings={"terminal": {"sandbox": "required"}})
    yield ToolContext("s1", "call_1", workspace=workspace)
    close_terminal(workspace)
    places.homes.cache_clear()


@pytest.fixture
def run(walled: ToolContext, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command inside, without the judgement about its text."""
    monkeypatch.setattr("tools.approval.check_command", lambda *_, **__: None)

    def run(command: str, **arguments: Any) -> str:
        return str(terminal.run(walled, command, **arguments))

    return run
