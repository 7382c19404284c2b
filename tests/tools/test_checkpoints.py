"""Rolling back a turn: exactly what it did, nothing that anybody else did."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from hermes_state import SessionDB
from tools.base import ToolContext, ToolError, TurnFacts, Workspace
from tools.checkpoints import diff, forget_conversation, list_checkpoints, prune, restore
from tools.files.patch import patch
from tools.files.read import read_file
from tools.files.write import write_file


@pytest.fixture
def folder(context: ToolContext) -> Path:
    return context.workspace.cwd


def turn(context: ToolContext, name: str) -> None:
    context.turn = TurnFacts(name)


def write(context: ToolContext, path: str, content: str) -> None:
    if (context.workspace.cwd / path).exists():
        read_file.run(context, path)
    write_file.run(context, path, content)


def tree_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else b"",
            stat.S_IMODE(path.lstat().st_mode),
        )
        for path in folder.rglob("*")
    }


def latest(context: ToolContext) -> str:
    return list_checkpoints(context.workspace, context.session_id)[0].id


def test_a_turns_edits_are_rolled_back_exactly(context: ToolContext, folder: Path) -> None:
    (folder / "edited").write_bytes(b"old\r\n\xff")
    (folder / "edited").chmod(0o751)
    (folder / "deleted").write_text("gone\n")
    (folder / "deleted").chmod(0o600)
    (folder / "moved").write_text("here\n")
    (folder / "untouched").write_text("same\n")
    before = tree_of(folder)
    turn(context, "t1")
    write(context, "edited", "new\n")
    write(context, "edited", "newer\n")
    write(context, "made/deep/created", "x\n")
    read_file.run(context, "deleted")
    patch.run(
        context,
        "patch",
        patch="*** Begin Patch\n*** Delete File: deleted\n*** Update File: moved\n"
        "*** Move to: there\n-here\n+there\n*** End Patch",
    )
    after = tree_of(folder)
    (checkpoint,) = list_checkpoints(context.workspace, "s1")
    assert {file.path.name: file.change for file in checkpoint.files} == {
        "edited": "edited",
        "created": "created",
        "deleted": "deleted",
        "moved": "deleted",
        "there": "created",
    }
    assert checkpoint.tools == ("write_file", "patch")
    restored = restore(context.workspace, "s1", checkpoint.id)
    assert tree_of(folder) == before
    assert len(restored.files) == 5
    assert restored.checkpoint
    # The rollback can be rolled back, and then there is nothing left to do.
    restore(context.workspace, "s1", restored.checkpoint)
    assert tree_of(folder) == after
    restore(context.workspace, "s1", checkpoint.id[:6])
    assert restore(context.workspace, "s1", checkpoint.id).files == ()
    assert tree_of(folder) == before


def test_turns_are_apart_and_newest_first(context: ToolContext, folder: Path) -> None:
    contents = ["one\n", "two\n", "three\n"]
    for number, content in enumerate(contents):
        turn(context, f"t{number}")
        write(context, "x", content)
    ids = [checkpoint.id for checkpoint in list_checkpoints(context.workspace, "s1")]
    with pytest.raises(ToolError, match="Later turns changed"):
        restore(context.workspace, "s1", ids[1])
    restore(context.workspace, "s1", ids[0])
    assert (folder / "x").read_text() == "two\n"
    restore(context.workspace, "s1", ids[1])
    assert (folder / "x").read_text() == "one\n"
    restore(context.workspace, "s1", ids[2])
    assert not (folder / "x").exists()


def test_without_a_turn_each_call_is_its_own(context: ToolContext) -> None:
    write(context, "x", "1")
    context.call_id = "call_2"
    write(context, "x", "2")
    assert len(list_checkpoints(context.workspace, "s1")) == 2


def test_one_file_of_a_turn(context: ToolContext, folder: Path) -> None:
    turn(context, "t")
    write(context, "a", "a")
    write(context, "b", "b")
    restore(context.workspace, "s1", latest(context), folder / "a")
    assert [path.name for path in folder.iterdir()] == ["b"]
    with pytest.raises(ToolError, match="has no file"):
        restore(context.workspace, "s1", latest(context), "zzz")
    with pytest.raises(ToolError, match="no checkpoint"):
        restore(context.workspace, "s1", "ffffffffffff")


def test_what_somebody_else_did_is_not_undone_unless_forced(
    context: ToolContext, folder: Path
) -> None:
    (folder / "x").write_text("old\n")
    turn(context, "t")
    write(context, "x", "ours\n")
    write(context, "y", "ours\n")
    (folder / "x").write_text("theirs\n")
    before = tree_of(folder)
    with pytest.raises(ToolError, match=r"Changed since that turn: .*/x\."):
        restore(context.workspace, "s1", latest(context))
    assert tree_of(folder) == before  # not even y, which nobody else touched
    restored = restore(context.workspace, "s1", latest(context), force=True)
    assert (folder / "x").read_text() == "old\n"
    assert restored.checkpoint
    restore(context.workspace, "s1", restored.checkpoint)
    assert (folder / "x").read_text() == "theirs\n"  # even that is not lost


def test_a_change_between_two_edits_of_a_turn_is_noticed(
    context: ToolContext, folder: Path
) -> None:
    (folder / "x").write_text("a\nb\n")
    turn(context, "t")
    patch.run(context, "replace", "x", "a", "A")
    (folder / "x").write_text("A\nb\nby hand\n")
    patch.run(context, "replace", "x", "b\nby", "B\nby")
    with pytest.raises(ToolError, match="Changed since"):
        restore(context.workspace, "s1", latest(context))


def test_a_file_replaced_by_a_link_is_not_restored_through_it(
    context: ToolContext, folder: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "sub").mkdir()
    (folder / "sub/x").write_text("old\n")
    turn(context, "t")
    write(context, "sub/x", "new\n")
    (folder / "sub/x").unlink()
    (folder / "sub/x").symlink_to(victim)
    with pytest.raises(ToolError):
        restore(context.workspace, "s1", latest(context), force=True)
    (folder / "sub").rename(folder / "away")
    (folder / "sub").symlink_to(tmp_path)
    with pytest.raises(ToolError):
        restore(context.workspace, "s1", latest(context), force=True)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "x").exists()


def test_a_missing_folder_comes_back_with_its_file(context: ToolContext, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub/x").write_text("old\n")
    turn(context, "t")
    read_file.run(context, "sub/x")
    patch.run(context, "patch", patch="*** Begin Patch\n*** Delete File: sub/x\n*** End Patch")
    (folder / "sub").rmdir()
    restore(context.workspace, "s1", latest(context))
    assert (folder / "sub/x").read_text() == "old\n"


def test_folders_made_for_a_turn_stay_if_they_are_used(context: ToolContext, folder: Path) -> None:
    turn(context, "t")
    write(context, "made/x", "x")
    (folder / "made/mine").touch()
    restore(context.workspace, "s1", latest(context))
    assert [path.name for path in (folder / "made").iterdir()] == ["mine"]


def test_a_huge_file_is_noted_but_not_kept(context: ToolContext, folder: Path) -> None:
    with (folder / "huge").open("wb") as file:
        file.truncate(10**9)
    turn(context, "t")
    write(context, "huge", "small\n")
    write(context, "x", "x\n")
    (checkpoint,) = list_checkpoints(context.workspace, "s1")
    assert [file.kept for file in checkpoint.files] == [False, True]
    restored = restore(context.workspace, "s1", checkpoint.id)
    assert restored.not_kept == (folder / "huge",)
    assert restored.files == (folder / "x",)
    assert (folder / "huge").read_text() == "small\n"


def test_the_difference_since_a_checkpoint(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("a\nb\n")
    (folder / "image").write_bytes(b"\0one")
    turn(context, "t")
    write(context, "x", "a\nB\n")
    write(context, "new", "n\n")
    write(context, "image", "text\n")
    text = diff(context.workspace, "s1", latest(context))
    assert "-b\n+B" in text
    assert f"--- /dev/null\n+++ {folder / 'new'}\n@@ -0,0 +1 @@\n+n" in text
    assert "image: binary content differs" in text
    assert "new" not in diff(context.workspace, "s1", latest(context), folder / "x")


def test_the_store_is_private(context: ToolContext) -> None:
    before = os.umask(0)
    try:
        write(context, "x", "1")
        write(context, "x", "2")
    finally:
        os.umask(before)
    root = context.workspace.home / "checkpoints"
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_sessions_of_one_conversation_share_their_checkpoints(
    context: ToolContext, db: SessionDB
) -> None:
    db.create_session("first", "test")
    db.end_session("first", "compression")
    db.create_session("second", "test", parent_session_id="first")
    context.db = db
    for session in ("first", "second"):
        context.session_id = session
        context.call_id = session
        write(context, session, "x")
    found = list_checkpoints(context.workspace, "first")
    assert [checkpoint.session_id for checkpoint in found] == ["second", "first"]


@pytest.mark.parametrize("name", ["../../etc", "a/b", ".", "..", "", "x" * 300, "é:1", ".lock"])
def test_a_strange_conversation_id_stays_inside_the_store(context: ToolContext, name: str) -> None:
    context.session_id = name
    write(context, "x", "x")
    root = context.workspace.home / "checkpoints"
    assert [path.name for path in context.workspace.home.iterdir()] == ["checkpoints"]
    assert len([path for path in root.iterdir() if path.is_dir()]) == 1
    assert len(list_checkpoints(context.workspace, name)) == 1


def test_they_can_be_switched_off(context: ToolContext) -> None:
    context.workspace.settings = {"checkpoints": {"enabled": False}}
    write(context, "x", "x")
    assert list_checkpoints(context.workspace, "s1") == []


def test_nothing_is_changed_if_the_old_content_cannot_be_kept(
    context: ToolContext, folder: Path
) -> None:
    (folder / "x").write_text("old\n")
    (context.workspace.home / "checkpoints").mkdir()
    (context.workspace.home / "checkpoints" / "s1").write_text("in the way")
    with pytest.raises(ToolError, match="could not be kept"):
        write(context, "x", "new\n")
    assert tree_of(folder) == {"x": (b"old\n", 0o644)}


def test_a_line_that_was_cut_short_is_passed_over(context: ToolContext, folder: Path) -> None:
    write(context, "x", "1")
    index = context.workspace.home / "checkpoints" / "s1" / "index.jsonl"
    index.write_bytes(index.read_bytes() + b'{"checkpoint":"cut sho')
    context.call_id = "call_2"
    write(context, "x", "2")
    assert len(list_checkpoints(context.workspace, "s1")) == 2
    restore(context.workspace, "s1", latest(context))
    assert (folder / "x").read_text() == "1"


def test_damaged_content_is_not_restored(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("old\n")
    write(context, "x", "new\n")
    (blob,) = (context.workspace.home / "checkpoints" / "s1").glob("??/*")
    blob.write_text("something else")
    with pytest.raises(ToolError, match="damaged"):
        restore(context.workspace, "s1", latest(context))
    assert (folder / "x").read_text() == "new\n"


def test_a_deleted_conversation_leaves_nothing_behind(context: ToolContext) -> None:
    write(context, "x", "1")
    context.session_id = "s2"
    write(context, "x", "2")
    forget_conversation(context.workspace.home, "s1")
    forget_conversation(context.workspace.home, "never was")
    assert list_checkpoints(context.workspace, "s1") == []
    assert len(list_checkpoints(context.workspace, "s2")) == 1


# Pruning.


def age(home: Path, conversation: str, days: float) -> None:
    index = home / "checkpoints" / conversation / "index.jsonl"
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    for line in lines:
        line["at"] -= days * 86_400
    index.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_old_checkpoints_are_forgotten(context: ToolContext, folder: Path) -> None:
    home = context.workspace.home
    (folder / "x").write_text("first\n")
    turn(context, "t1")
    write(context, "x", "second\n")
    age(home, "s1", 40)
    turn(context, "t2")
    write(context, "x", "third\n")
    assert prune(home) == 1
    (left,) = list_checkpoints(context.workspace, "s1")
    assert len(list((home / "checkpoints" / "s1").glob("??/*"))) == 1
    restore(context.workspace, "s1", left.id)
    assert (folder / "x").read_text() == "second\n"
    age(home, "s1", 40)
    assert prune(home) == 2
    assert not (home / "checkpoints" / "s1").exists()
    assert prune(home) == 0


def test_the_oldest_go_when_room_is_short(context: ToolContext, folder: Path) -> None:
    for number in range(6):
        (folder / f"{number}").write_text(f"{number}" * 1_000)
        turn(context, f"t{number}")
        write(context, f"{number}", "new")
    assert prune(context.workspace.home, size=2_500) == 4
    left = list_checkpoints(context.workspace, "s1")
    assert [checkpoint.files[0].path.name for checkpoint in left] == ["5", "4"]
    assert prune(context.workspace.home, size=10) == 1  # the newest stays


def test_pruning_happens_by_itself(context: ToolContext) -> None:
    write(context, "x", "1")
    age(context.workspace.home, "s1", 40)
    fresh = Workspace(context.workspace.home, context.workspace.cwd)
    write(ToolContext("s2", "c", workspace=fresh), "y", "1")
    assert list_checkpoints(fresh, "s1") == []
