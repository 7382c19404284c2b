"""write_file: what it keeps of the old file, what it refuses, and what it leaves when it fails."""

from __future__ import annotations

import os
import resource
import stat
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tools
from hermes_state import SessionDB
from tools.base import ToolContext, ToolError
from tools.files.read import read_file
from tools.files.write import write_file

from .. import skips


@pytest.fixture
def folder(context: ToolContext) -> Path:
    return context.workspace.cwd


def write(context: ToolContext, path: str | Path, content: str) -> str:
    return str(write_file.run(context, str(path), content))


def seen(context: ToolContext, path: Path, data: bytes) -> Path:
    """A file that the conversation has read."""
    path.write_bytes(data)
    read_file.run(context, str(path))
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_and_its_folders_are_made(context: ToolContext, folder: Path) -> None:
    assert "Created" in write(context, "a/b/c.txt", "one\ntwo\n")
    assert (folder / "a/b/c.txt").read_bytes() == b"one\ntwo\n"
    assert names(folder / "a/b") == ["c.txt"]


def test_the_umask_holds_outside_and_privacy_inside_the_home(
    context: ToolContext, folder: Path
) -> None:
    before = os.umask(0o027)
    try:
        write(context, "new/x", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "new/x").stat().st_mode) == 0o640
    assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o750
    context.workspace.cwd = context.workspace.root = context.workspace.home
    write(context, "notes/x.md", "x")
    assert stat.S_IMODE((context.workspace.home / "notes/x.md").stat().st_mode) == 0o600
    assert stat.S_IMODE((context.workspace.home / "notes").stat().st_mode) == 0o700


def test_replacing_shows_the_difference(context: ToolContext, folder: Path) -> None:
    seen(context, folder / "x.txt", b"a\nb\nc\n")
    answer = write(context, "x.txt", "a\nB\nc\n")
    assert "(3 lines, 6 bytes; +1 −1 lines)" in answer
    assert "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c" in answer
    assert "nothing was written" in write(context, "x.txt", "a\nB\nc\n")


def test_a_long_difference_is_shortened(context: ToolContext, folder: Path) -> None:
    seen(context, folder / "x.txt", b"".join(b"old %d\n" % n for n in range(20_000)))
    answer = write(context, "x.txt", "".join(f"new {n}\n" for n in range(20_000)))
    assert "+20,000 −20,000 lines" in answer
    assert len(answer) < 10_000
    assert "more lines of the diff left out" in answer


@pytest.mark.parametrize(
    ("old", "content", "new"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\nc", b"a\r\nc\r\n"),
        (b"a\nb\n", "a\nc", b"a\nc\n"),
        (b"a\nb", "a\nc", b"a\nc"),
        (b"a\nb\n", "", b""),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        ("ä\n".encode("utf-16"), "ö\n", "ö\n".encode("utf-16")),
        ("caf\xe9 noir\n".encode("latin-1"), "th\xe9 noir\n", "th\xe9 noir\n".encode("latin-1")),
        ("caf\xe9 noir\n".encode("latin-1"), "5 €\n", "5 €\n".encode()),
        (b"\0\1binary", "text\n", b"text\n"),
        (b"", "x", b"x"),
    ],
)
def test_the_manner_of_the_old_file_is_kept(
    context: ToolContext, folder: Path, old: bytes, content: str, new: bytes
) -> None:
    path = seen(context, folder / "x.txt", old)
    write(context, "x.txt", content)
    assert path.read_bytes() == new


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(st.characters(codec="utf-8")))
def test_a_new_file_has_exactly_the_content(context: ToolContext, folder: Path, text: str) -> None:
    (folder / "x").unlink(missing_ok=True)
    write(context, "x", text)
    assert (folder / "x").read_bytes() == text.encode()


def test_mode_and_attributes_are_kept(context: ToolContext, folder: Path) -> None:
    path = seen(context, folder / "run.sh", b"#!/bin/sh\n")
    path.chmod(0o4751)
    try:
        os.setxattr(path, "user.note", b"mine")
        has_attributes = True
    except OSError:
        has_attributes = False
    write(context, "run.sh", "#!/bin/sh\necho\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o4751
    if has_attributes:
        assert os.getxattr(path, "user.note") == b"mine"


def test_a_link_is_followed_and_stays_a_link(context: ToolContext, folder: Path) -> None:
    target = folder / "real.txt"
    target.write_text("old\n")
    (folder / "link").symlink_to("real.txt")
    read_file.run(context, "link")
    write(context, "link", "new\n")
    assert (folder / "link").is_symlink()
    assert target.read_text() == "new\n"
    (folder / "dangling").symlink_to("to/be/made")
    write(context, "dangling", "made\n")
    assert (folder / "to/be/made").read_text() == "made\n"


def test_other_names_of_a_file_are_mentioned(context: ToolContext, folder: Path) -> None:
    path = seen(context, folder / "x", b"old\n")
    (folder / "y").hardlink_to(path)
    assert "1 other names (hard links) keep the old content" in write(context, "x", "new\n")
    assert (folder / "y").read_text() == "old\n"


# What is refused.


def test_a_file_that_was_not_read_is_not_overwritten(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("precious\n")
    with pytest.raises(ToolError, match="Read it first"):
        write(context, "x", "new\n")
    assert (folder / "x").read_text() == "precious\n"


def test_an_outside_change_is_not_undone(context: ToolContext, folder: Path) -> None:
    path = seen(context, folder / "x", b"one\n")
    info = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))  # size and time are as before
    with pytest.raises(ToolError, match=r"changed on disk since it was read.*Read it again"):
        write(context, "x", "three\n")
    assert path.read_text() == "two\n"
    read_file.run(context, "x")
    write(context, "x", "three\n")
    write(context, "x", "four\n")  # what the tool wrote itself is known
    path.touch()  # a new time alone is no change
    write(context, "x", "five\n")


def test_another_conversation_knows_nothing(context: ToolContext, folder: Path) -> None:
    seen(context, folder / "x", b"one\n")
    context.workspace.state.clear()
    with pytest.raises(ToolError, match="not read in this conversation"):
        write(context, "x", "two\n")


def test_only_regular_files_are_written(context: ToolContext, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "file").touch()
    (folder / "null").symlink_to("/dev/null")
    for path in (".", "pipe", "loop", "file/below", "null", "/proc/self/comm", "x" * 300):
        with pytest.raises(ToolError):
            write(context, path, "x")
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    assert names(folder) == ["file", "loop", "null", "pipe"]


def test_the_store_of_hermes_is_not_written(context: ToolContext) -> None:
    home = context.workspace.home
    context.workspace.cwd = home
    with SessionDB(home / "state.db") as db:
        db.create_session("s1", "test")
        with pytest.raises(ToolError, match="only Hermes may open"):
            write(context, "state.db", "x")
        assert db.get_session("s1")


def test_the_mask_of_a_secret_is_not_written_over_it(context: ToolContext, folder: Path) -> None:
    secret = b'key = "sk-ant-0123456789abcdef"\nhost = "a"\n'
    path = seen(context, folder / "settings", secret)
    with pytest.raises(ToolError, match=r"Line 1 would replace a secret"):
        write(context, "settings", 'key = "sk-ant-***"\nhost = "b"\n')
    assert path.read_bytes() == secret
    write(context, "settings", '# ***\n*** bold ***\nkey = "none"\n')  # no mask of anything


def test_a_lone_surrogate_is_explained(context: ToolContext, folder: Path) -> None:
    with pytest.raises(ToolError, match="lone surrogate at character 1"):
        write(context, "x", "a\ud800")
    assert names(folder) == []


def test_the_approval_guard_is_asked_about_the_real_path(
    context: ToolContext, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def guard_write(context: ToolContext, path: Path) -> None:
        asked.append(path)
        raise ToolError("The user does not want that.")

    guard = types.ModuleType("tools.approval")
    guard.guard_write = guard_write  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tools.approval", guard)
    monkeypatch.setattr(tools, "approval", guard, raising=False)
    monkeypatch.setattr(tools, "approval", guard, raising=False)
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub")
    with pytest.raises(ToolError, match="does not want"):
        write(context, "link/../sub/x", "x")
    assert asked == [folder / "sub" / "x"]
    assert names(folder / "sub") == []


# Failures of the system, in a child process that is as unlucky.


def in_child(act: Callable[[], str]) -> str:
    """Run something in a forked process, so that it may give up rights; returns what it said."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = act()
        except BaseException as error:  # noqa: BLE001 - the parent is told
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    context: ToolContext, folder: Path
) -> None:
    path = seen(context, folder / "x", b"old\n")

    def act() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        return write(context, "x", "new\n" * 100_000)

    assert "larger than files may be" in in_child(act)
    assert path.read_bytes() == b"old\n"
    assert names(folder) == ["x"]


def test_a_really_full_disk(context: ToolContext, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if os.geteuid() or os.system(f"mount -t tmpfs -o size=64k tmpfs {small} 2>/dev/null"):
        skips.no_mounting()
    try:
        context.workspace.cwd = context.workspace.root = small
        path = seen(context, small / "x", b"old\n")
        with pytest.raises(ToolError, match="the disk is full"):
            write(context, "x", "new\n" * 100_000)
        assert path.read_bytes() == b"old\n"
        assert names(small) == ["x"]
        with pytest.raises(ToolError, match="the disk is full"):
            write(context, "new/folder/y", "new\n" * 100_000)
        assert names(small) == ["x"]
    finally:
        os.system(f"umount {small}")


@pytest.fixture
def open_folder(context: ToolContext, tmp_path: Path) -> Path:
    """A working directory that other users may use too, and a home of theirs."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else; run the tests as root")
    at = tmp_path
    while at != Path("/tmp") and at != at.parent:
        at.chmod(0o755)
        at = at.parent
    for path in (context.workspace.home, context.workspace.cwd):
        os.chown(path, 65_534, 65_534)
    return context.workspace.cwd


def as_nobody(act: Callable[[], str]) -> str:
    def change() -> str:
        os.setgroups([])
        os.setgid(65_534)
        os.setuid(65_534)
        return act()

    return in_child(change)


def test_permissions_are_explained(context: ToolContext, open_folder: Path) -> None:
    locked = open_folder / "locked"
    locked.mkdir(mode=0o555)
    assert "permission denied" in as_nobody(lambda: write(context, "locked/x", "x"))
    path = seen(context, open_folder / "readonly", b"old\n")
    path.chmod(0o444)
    assert "permission denied" in as_nobody(lambda: write(context, "readonly", "new\n"))
    assert path.read_bytes() == b"old\n"
    path.chmod(0o600)
    assert "permission denied" in as_nobody(lambda: str(read_file.run(context, "readonly")))


def test_the_owner_is_kept_or_the_write_refused(context: ToolContext, open_folder: Path) -> None:
    path = seen(context, open_folder / "ours", b"old\n")
    path.chmod(0o666)
    assert "belongs to somebody else" in as_nobody(lambda: write(context, "ours", "new\n"))
    assert path.read_bytes() == b"old\n"
    path = seen(context, open_folder / "theirs", b"old\n")
    os.chown(path, 65_534, 65_534)
    write(context, "theirs", "by root\n")
    assert (path.stat().st_uid, path.stat().st_gid) == (65_534, 65_534)
    assert names(open_folder) == ["ours", "theirs"]
