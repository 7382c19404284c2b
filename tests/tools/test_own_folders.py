"""Two conversations in one Hermes home: neither sees what the other keeps there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.store import forget
from hermes_state import SessionDB
from tools.base import ApprovalRequest, Choice, ToolContext, ToolError, Workspace
from tools.code_execution import execute_code
from tools.files.patch import patch
from tools.files.read import read_file
from tools.files.search import search_files
from tools.files.write import write_file
from tools.mcp.serve import as_text
from tools.output import KEPT_SECONDS, keep
from tools.own_folders import output_folder
from tools.processes.tool import process
from tools.terminal.tool import close_terminal, terminal
from tools.wall.kinds import means

LONG = "python3 -c \"print('canary\\n' * 20000)\""


class Yes:
    """A person who allows everything."""

    def approve(self, request: ApprovalRequest) -> Choice:
        return "once"

    def clarify(self, question: str, choices: list[str]) -> str:
        return ""


@pytest.fixture(params=["no wall", "wall"])
def db(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SessionDB]:
    if request.param == "wall":
        monkeypatch.setenv("HERMES_WALL", "bubblewrap,landlock")
        if means().kind == "none":
            pytest.skip(f"no wall here: {means().why}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    with SessionDB(tmp_path / "home/state.db") as db:
        yield db


@pytest.fixture
def mine(db: SessionDB, tmp_path: Path) -> Iterator[ToolContext]:
    yield from conversation(db, tmp_path, "mine")


@pytest.fixture
def theirs(db: SessionDB, tmp_path: Path) -> Iterator[ToolContext]:
    yield from conversation(db, tmp_path, "theirs")


def conversation(db: SessionDB, place: Path, name: str) -> Iterator[ToolContext]:
    db.create_session(name, "cli")
    workspace = Workspace(place / "home", place / "project")
    yield ToolContext(name, "call_1", workspace=workspace, db=db, asker=Yes())
    close_terminal(workspace)


def kept(context: ToolContext) -> list[Path]:
    return sorted(output_folder(context).glob("*.txt"))


def answer(tool: object, context: ToolContext, *arguments: object, **named: object) -> str:
    try:
        return str(tool.run(context, *arguments, **named))  # type: ignore[attr-defined]
    except ToolError as error:
        return str(error)


def test_long_output_of_every_tool_is_in_a_folder_of_the_conversation(
    mine: ToolContext, theirs: ToolContext
) -> None:
    terminal.run(mine, LONG)
    execute_code.run(mine, code="print('canary\\n' * 20000)")
    started = str(terminal.run(mine, "echo canary", background=True))
    name = next(word for word in started.split() if word.startswith("proc_")).strip(".,;:()\"'")
    process.run(mine, "wait", session_id=name, timeout=30)
    as_text(read_file, mine, "canary\n" * 20_000)
    names = " ".join(path.name for path in kept(mine))
    for part in ("terminal", "execute-code", "proc", "read-file"):
        assert part in names
    assert not kept(theirs)
    assert {path.parent.stat().st_mode & 0o777 for path in kept(mine)} == {0o700}


def test_only_the_conversation_itself_reads_it(mine: ToolContext, theirs: ToolContext) -> None:
    terminal.run(mine, LONG)
    [path] = kept(mine)
    assert "canary" in answer(read_file, mine, str(path))
    assert "canary" in answer(search_files, mine, "canary", path=str(path))

    absent = path.with_name("nothing.txt")
    for tool, more in (
        (read_file, {}),
        (write_file, {"content": "x"}),
        (patch, {"old_string": "canary", "new_string": "x"}),
    ):
        told = answer(tool, theirs, path=str(path), **more)
        other = answer(tool, theirs, path=str(absent), **more)
        assert told.replace(path.name, absent.name) == other
        assert "does not exist" in told
    told = answer(search_files, theirs, "canary", path=str(path))
    other = answer(search_files, theirs, "canary", path=str(absent))
    assert told.replace(path.name, absent.name) == other
    assert path.read_text().startswith("canary")


def test_folders_and_links_do_not_lead_there(mine: ToolContext, theirs: ToolContext) -> None:
    terminal.run(mine, LONG)
    [path] = kept(mine)
    (theirs.workspace.root / "link").symlink_to(path)
    (theirs.workspace.root / "folder").symlink_to(path.parent)
    home = theirs.workspace.home
    for place in ("link", "folder", f"folder/{path.name}", str(path.parent), str(path.parents[1])):
        assert path.name not in answer(read_file, theirs, place).replace(place, "")
        assert "canary\n" not in answer(read_file, theirs, place)
        assert "does not exist" in answer(search_files, theirs, "canary", path=place)
    found = answer(search_files, theirs, "canary", path=str(home), file_glob="*.txt")
    assert path.name not in found
    assert "secrets left out" not in found
    assert path.name not in answer(search_files, theirs, "*.txt", target="files", path=str(home))
    assert path.name in answer(search_files, mine, "*.txt", target="files", path=str(home))


def test_a_sub_agent_shares_its_parents(db: SessionDB, mine: ToolContext, tmp_path: Path) -> None:
    db.create_session(
        "child", "delegate", parent_session_id="mine", model_config={"_delegate_from": "mine"}
    )
    child = ToolContext("child", "call_1", workspace=mine.workspace, db=db)
    terminal.run(child, LONG)
    [path] = kept(mine)
    assert "canary" in answer(read_file, mine, str(path))


def test_checkpoints_of_another_conversation_do_not_exist(
    mine: ToolContext, theirs: ToolContext
) -> None:
    (mine.workspace.root / "a.txt").write_text("canary\n")
    read_file.run(mine, "a.txt")
    write_file.run(mine, "a.txt", "changed\n")
    folder = mine.workspace.home / "checkpoints"
    blobs = [path for path in folder.rglob("*") if path.is_file() and "canary" in path.read_text()]
    assert blobs
    for path in (*blobs, folder / "mine/index.jsonl", folder / "mine", folder):
        assert "does not exist" in answer(read_file, theirs, str(path))


def test_old_output_of_any_conversation_is_removed(
    db: SessionDB, mine: ToolContext, theirs: ToolContext
) -> None:
    old = keep("old", output_folder(mine), "tool")
    flat = keep("old", mine.workspace.home / "tool-output", "tool")
    long_ago = time.time() - KEPT_SECONDS - 60
    for path in (old, flat):
        os.utime(path, (long_ago, long_ago))
    new = keep("new", output_folder(theirs), "tool")
    assert not old.exists()
    assert not old.parent.exists()
    assert not flat.exists()
    assert new.exists()


def test_the_output_of_a_deleted_conversation_is_removed(
    mine: ToolContext, theirs: ToolContext
) -> None:
    gone, stays = (keep("x", output_folder(one), "tool") for one in (mine, theirs))
    forget(mine.workspace.home, ["mine"])
    assert not gone.exists()
    assert stays.exists()
