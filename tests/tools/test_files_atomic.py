"""Whole files only: under SIGKILL, under swapped links, and several files at once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools.base import ToolContext, ToolError
from tools.files.atomic import discard, stage
from tools.files.edit import Change, apply, look_at
from tools.files.guard import open_folder
from tools.files.patch import patch
from tools.files.read import read_file
from tools.files.write import write_file

from .. import seeds

WRITER = """
import sys
from pathlib import Path
from tools.base import ToolContext, Workspace
from tools.files.read import read_file
from tools.files.write import write_file

home, folder = map(Path, sys.argv[1:])
context = ToolContext("s", "c", workspace=Workspace(home, folder))
read_file.run(context, "x")
print("ready", flush=True)
while True:
    for letter in "ab":
        write_file.run(context, "x", (letter * 99 + "\\n") * 2_000)
"""


@pytest.mark.fuzz
def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    folder.mkdir()
    whole = [(letter * 99 + b"\n") * 2_000 for letter in (b"a", b"b")]
    (folder / "x").write_bytes(whole[0])
    (folder / "x").chmod(0o640)
    for _ in range(seeds.times(4, 30)):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home), str(folder)], stdout=subprocess.PIPE
        )
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        looks = 0
        until = time.monotonic() + random.uniform(0.01, 0.15)
        while time.monotonic() < until or not looks:
            assert (folder / "x").read_bytes() in whole  # a reader never sees a half
            looks += 1
        child.kill()
        child.wait()
        child.stdout.close()
        assert (folder / "x").read_bytes() in whole
        assert (folder / "x").stat().st_mode & 0o777 == 0o640


def test_what_a_killed_writer_left_is_swept_up(tmp_path: Path) -> None:
    left = tmp_path / ".hermes-0123456789abcdef.tmp"
    other = tmp_path / ".hermes-mine.tmp"
    for path in (left, other):
        path.touch()
    with open_folder(tmp_path) as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr("tools.files.atomic._ABANDONED_SECONDS", -3_600)
        discard(folder, stage(folder, "x", b"", 0o600))
    assert not left.exists()
    assert other.exists()


def test_a_young_temporary_file_is_left_alone(tmp_path: Path) -> None:
    young = tmp_path / ".hermes-0123456789abcdef.tmp"
    young.touch()
    with open_folder(tmp_path) as folder:
        discard(folder, stage(folder, "x", b"", 0o600))
    assert young.exists()


# Links that are swapped in while a tool works.


def test_a_folder_swapped_for_a_link_is_not_followed(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outside = context.workspace.cwd, tmp_path / "outside"
    (folder / "sub").mkdir()
    outside.mkdir()

    def swap(*_: object) -> None:  # while the user is being asked
        (folder / "sub").rename(folder / "away")
        (folder / "sub").symlink_to(outside)

    monkeypatch.setattr("tools.files.write.may_write", swap)
    with pytest.raises(ToolError, match="not a folder"):
        write_file.run(context, "sub/x", "x")
    assert list(outside.iterdir()) == []
    assert list((folder / "away").iterdir()) == []


def test_a_file_swapped_for_a_link_is_not_followed(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, victim = context.workspace.cwd, tmp_path / "victim"
    victim.write_text("precious")

    def swap(*_: object) -> None:
        (folder / "x").unlink(missing_ok=True)
        (folder / "x").symlink_to(victim)

    monkeypatch.setattr("tools.files.write.may_write", swap)
    with pytest.raises(ToolError):
        write_file.run(context, "x", "new")
    (folder / "x").unlink()
    (folder / "x").write_text("old")
    read_file.run(context, "x")
    with pytest.raises(ToolError):
        write_file.run(context, "x", "new")
    assert victim.read_text() == "precious"
    assert (folder / "x").is_symlink()
    assert [path.name for path in folder.iterdir()] == ["x"]


def test_no_link_is_followed_however_fast_it_is_swapped(
    context: ToolContext, tmp_path: Path
) -> None:
    folder, outside, home = context.workspace.cwd, tmp_path / "outside", context.workspace.home
    for place in (folder / "sub", outside):
        place.mkdir()
        (place / "x").write_text("0")
    (folder / "link").symlink_to(outside)
    path = (folder / "sub" / "x").resolve()
    done = threading.Event()

    def swap() -> None:
        rounds = (("sub", "away"), ("link", "sub"), ("sub", "link"), ("away", "sub"))
        while not done.is_set():
            for first, second in rounds:
                (folder / first).rename(folder / second)

    swapper = threading.Thread(target=swap)
    swapper.start()
    written = 0
    try:
        while written < 40:
            try:
                before = look_at(path, home)
                if before and before.data:
                    after = b"%d" % (int(before.data) + 1)
                    change = Change(path, before, after)
                    apply([change], home=home, keep=lambda changes, made: None)
                    written += 1
            except ToolError:
                continue
    finally:
        done.set()
        swapper.join()
    assert (outside / "x").read_text() == "0"
    assert (folder / "sub" / "x").read_text() == "40"


def test_a_new_file_never_replaces_one_that_just_appeared(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = context.workspace.cwd
    monkeypatch.setattr("tools.files.edit._stage", appearing(folder / "x"))
    with pytest.raises(ToolError, match="just now"):
        write_file.run(context, "x", "mine")
    assert (folder / "x").read_text() == "theirs"


@pytest.mark.parametrize("after", [b"ours", None])
@pytest.mark.parametrize("alone", [True, False])
def test_a_change_at_the_last_moment_is_not_overwritten(
    context: ToolContext, after: bytes | None, alone: bool
) -> None:
    folder, home = context.workspace.cwd, context.workspace.home
    (folder / "x").write_text("old")
    (folder / "y").write_text("old")
    names = ["x"] if alone else ["x", "y"]
    changes = [Change(folder / name, look_at(folder / name, home), after) for name in names]
    with pytest.raises(ToolError, match="changed by something else just now"):
        apply(changes, home=home, keep=lambda *_: (folder / "x").write_text("theirs") and None)
    assert (folder / "x").read_text() == "theirs"
    assert (folder / "y").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["x", "y"]


def appearing(path: Path) -> object:
    from tools.files.edit import _stage

    def stage_and_appear(step: object, home: Path) -> None:
        _stage(step, home)  # type: ignore[arg-type]
        path.write_text("theirs")

    return stage_and_appear


# All or none.


def tree_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else b"",
            path.lstat().st_mode,
        )
        for path in folder.rglob("*")
    }


def test_a_failure_in_the_last_file_undoes_the_others(context: ToolContext) -> None:
    folder = context.workspace.cwd
    for name in ("edited", "deleted"):
        (folder / name).write_text(f"{name}\n")
        (folder / name).chmod(0o640)
    inode = (folder / "edited").stat().st_ino
    before = tree_of(folder)
    snapshots = {name: look_at(folder / name, context.workspace.home) for name in before}
    (folder / "is-a-folder").mkdir()
    changes = [
        Change(folder / "edited", snapshots["edited"], b"new\n"),
        Change(folder / "deleted", snapshots["deleted"], None),
        Change(folder / "made/for/it/created", None, b"created\n"),
        Change(folder / "is-a-folder", None, b"cannot be\n"),
    ]

    def last_one_fails(planned: list[Change], made: list[Path]) -> None:
        # At this point everything looks well; the folder is in the way only now.
        (folder / "is-a-folder").mkdir()

    (folder / "is-a-folder").rmdir()
    with pytest.raises(ToolError):
        apply(changes, home=context.workspace.home, keep=last_one_fails)
    (folder / "is-a-folder").rmdir()
    assert tree_of(folder) == before
    assert (folder / "edited").stat().st_ino == inode


def test_a_patch_whose_last_hunk_does_not_fit_changes_nothing(context: ToolContext) -> None:
    folder = context.workspace.cwd
    (folder / "a").write_text("one\n")
    (folder / "b").write_text("two\n")
    before = tree_of(folder)
    with pytest.raises(ToolError, match="Hunk 1 of b"):
        patch.run(
            context,
            mode="patch",
            patch="*** Begin Patch\n*** Update File: a\n-one\n+1\n*** Add File: c\n+3\n"
            "*** Update File: b\n-three\n+3\n*** End Patch",
        )
    assert tree_of(folder) == before


def test_cancelling_before_the_first_write_changes_nothing(context: ToolContext) -> None:
    context.cancelled.set()
    with pytest.raises(ToolError, match="Stopped before anything was written"):
        write_file.run(context, "a/b", "x")
    assert tree_of(context.workspace.cwd) == {}


def test_parallel_edits_of_one_file_do_not_lose_each_other(context: ToolContext) -> None:
    folder = context.workspace.cwd
    (folder / "x").write_text("".join(f"line {n}\n" for n in range(20)))
    failures: list[str] = []

    def edit(number: int) -> None:
        while True:
            try:
                patch.run(context, "replace", "x", f"line {number}\n", f"LINE {number}\n")
                return
            except ToolError as error:
                if "just now" not in str(error):
                    failures.append(str(error))
                    return

    threads = [threading.Thread(target=edit, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert (folder / "x").read_text() == "".join(f"LINE {n}\n" for n in range(20))


def test_no_descriptor_is_left_open(context: ToolContext) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc, which only Linux has")
    write_file.run(context, "x", "a\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(20):
        write_file.run(context, "x", f"{number}\n")
        patch.run(context, "replace", "x", f"{number}", "b")
        for wrong in ("no/such/thing", "x/y"):
            with pytest.raises(ToolError):
                read_file.run(context, wrong)
        read_file.run(context, "x")
        read_file.run(context, ".")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
