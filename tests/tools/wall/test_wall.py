"""What a wall stops, what it lets through, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.base import ToolContext, ToolError, Workspace
from tools.processes.ledger import RUN_FOLDER, Ledger, reap_orphans
from tools.terminal.tool import close_terminal, terminal
from tools.wall.guardhouse import guardhouse_of
from tools.wall.warden import WallError

from ...ports import free_port

Run = Callable[..., str]


def test_inside_is_written_and_outside_is_not(run: Run, walled: ToolContext) -> None:
    root = walled.workspace.root
    text = run("echo new > made.txt; echo x > ../notes.txt; echo x > ~/other.txt; cat ../notes.txt")
    assert (root / "made.txt").read_text() == "new\n"
    assert (root.parent / "notes.txt").read_text() == "shown\n"
    assert not (root.parent / "other.txt").exists()
    assert text.endswith("shown")


def test_keys_and_the_hermes_home_are_not_there(run: Run) -> None:
    text = run(
        "cat ~/.ssh/id_ed25519 ~/.netrc ~/.config/gh/hosts.yml ~/.hermes/.env;"
        " ls -A ~/.hermes ~/.ssh; grep -rs 'h[i]dden' ~; true"
    )
    assert "hidden" not in text


def test_going_elsewhere_does_not_move_what_is_inside(run: Run, walled: ToolContext) -> None:
    run("cd ..")
    run("echo x > outside.txt")
    assert walled.workspace.cwd == walled.workspace.root.parent
    assert not (walled.workspace.root.parent / "outside.txt").exists()


def test_only_its_own_processes_get_its_signals(run: Run) -> None:
    outside = subprocess.Popen(["sleep", "60"])
    try:
        # It may kill its own warden, even before that has said that the command was started;
        # it is noticed with the next command at the latest.
        with contextlib.suppress(WallError, ToolError):
            run(f"kill -9 {outside.pid}; kill -9 -1; kill -9 {os.getpid()}; pkill -9 sleep; true")
        assert outside.poll() is None
        own = "sleep 60 & pid=$!; kill $pid; wait $pid; echo ours"
        try:
            text = run(own)
        except (WallError, ToolError):
            text = run(own)
        assert "ours" in text
    finally:
        outside.kill()
        outside.wait()


def test_what_one_command_starts_the_next_one_reaches(run: Run) -> None:
    run(
        f"{sys.executable} -I -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 &"
        " for i in $(seq 200); do (echo > /dev/tcp/127.0.0.1/8765) 2>/dev/null && break;"
        " sleep 0.05; done"
    )
    assert "answered" in run("exec 3<>/dev/tcp/127.0.0.1/8765 && echo answered")


def test_nothing_listens_inside_for_those_outside(run: Run) -> None:
    """A port of this machine is not reached, and one inside is not reached from here."""
    # Not a port that the system gives out: inside, a connection to such a one may be given the same
    # port for its own end, and so reach itself.
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(0)
        assert "refused" in run(f"echo hello > /dev/tcp/127.0.0.1/{port}")
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_terminal_is_a_terminal(run: Run) -> None:
    text = run("test -t 1 && stty size && echo x > /dev/tty && echo done", pty=True)
    assert text.splitlines() == ["40 120", "x", "done"]


def test_the_shell_keeps_directory_and_variables(run: Run) -> None:
    run("export COLOUR=blue; mkdir sub; cd sub")
    assert run("echo $COLOUR $(basename $PWD)") == "blue sub"


def test_temporary_files_are_its_own(run: Run, tmp_path: Path) -> None:
    text = run("name=$(mktemp) && echo kept > $name && cat $name && echo $name")
    kept, name = text.splitlines()
    assert kept == "kept"
    assert not Path(name).exists() or str(tmp_path) in name
    assert run(f"cat {name}") == "kept"


def test_the_end_of_the_conversation_ends_everything(run: Run, walled: ToolContext) -> None:
    marker = str(3_000_000 + os.getpid())
    run(f"sleep {marker} & setsid sleep {marker} &")
    assert _sleeping(marker) == 2
    close_terminal(walled.workspace)
    _wait_until(lambda: _sleeping(marker) == 0)
    assert list((walled.workspace.home / RUN_FOLDER).iterdir()) == []
    assert Ledger(walled.workspace.home).records() == []


def test_a_wall_that_was_torn_down_is_built_anew(run: Run, walled: ToolContext) -> None:
    run("true")
    guardhouse = guardhouse_of(walled.workspace)
    assert guardhouse is not None
    first = guardhouse.warden(walled)
    first._process.send_signal(signal.SIGKILL)
    _wait_until(lambda: not first.stands)
    assert run("echo again") == "again"


def test_a_wall_that_cannot_be_built_is_an_error(
    walled: ToolContext, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(ToolError, match=r"could not be built.*Nothing was run"):
        run("touch made.txt")
    assert not (walled.workspace.root / "made.txt").exists()


def test_without_any_kind_of_wall_required_refuses(
    walled: ToolContext, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_WALL", "")
    with pytest.raises(ToolError, match="Nothing is run without a wall"):
        run("touch made.txt")


_CHILD = """
import sys, time
from pathlib import Path
from tools.base import ToolContext, Workspace
from tools.terminal.tool import terminal
import tools.approval
tools.approval.check_command = lambda *_, **__: None
home, root, seconds = sys.argv[1:]
workspace = Workspace(Path(home), Path(root), settings={"terminal": {"sandbox": "required"}})
context = ToolContext("s1", "c1", workspace=workspace)
terminal.run(context, f"sleep {seconds} & setsid sleep {seconds} & (setsid sleep {seconds} &)")
terminal.run(context, f"sleep {seconds}", background=True)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_killed_agent_leaves_nothing(kind: str, walled: ToolContext) -> None:
    seconds = str(4_000_000 + os.getpid())
    home, root = walled.workspace.home, walled.workspace.root
    argv = [sys.executable, "-c", _CHILD, str(home), str(root), seconds]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert _sleeping(seconds) == 4
        child.kill()
    _wait_until(lambda: _sleeping(seconds) == 0)
    reap_orphans(home)
    assert list((home / RUN_FOLDER).iterdir()) == []


def test_many_at_once(run: Run) -> None:
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda number=number: results.append(run(f"echo {number}")))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=int) == [str(number) for number in range(20)]


def _sleeping(seconds: str) -> int:
    found = subprocess.run(["pgrep", "-cxf", f"sleep {seconds}"], capture_output=True, check=False)
    return int(found.stdout)


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


def test_what_git_runs_by_itself_stays_as_it_is(kind: str, run: Run, walled: ToolContext) -> None:
    root = walled.workspace.root
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    run("echo evil > .git/hooks/pre-commit; cp /bin/true .git/hooks/post-checkout; mv .git/hooks x")
    if kind == "bubblewrap":  # Landlock cannot, and says so
        assert not (root / ".git/hooks/pre-commit").exists()
        assert not (root / ".git/hooks/post-checkout").exists()
    run("rm -rf x .git/hooks")
    text = run(
        "git config user.name me && git config user.email me@example.org && echo x > a && git add a"
        " && git commit -qm first && git remote add origin ../there && git log --oneline"
    )
    assert text.endswith("first")


def test_a_work_tree_of_git_can_be_committed_to(run: Run, walled: ToolContext) -> None:
    root, main = walled.workspace.root, walled.workspace.root.parent / "main"
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-C", str(main)]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    (main / "a").write_text("a")
    subprocess.run([*git, "add", "a"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    root.rmdir()
    subprocess.run([*git, "worktree", "add", "-q", str(root)], check=True)
    text = run(
        "echo b > b && git add b"
        " && git -c user.name=me -c user.email=me@example.org commit -qm second"
        " && git log --oneline | wc -l; echo x > ../main/a;"
        " echo evil > ../main/.git/hooks/pre-push; echo evil >> ../main/.git/config"
    )
    assert text.splitlines()[0] == "2"
    assert (main / "a").read_text() == "a"
    assert not (main / ".git/hooks/pre-push").exists()
    assert "evil" not in (main / ".git/config").read_text()


def test_a_work_tree_cannot_name_any_folder_as_its_repository(
    run: Run, walled: ToolContext
) -> None:
    """`.git` is a file that whatever runs inside can write."""
    other = walled.workspace.root.parent / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    run(f"echo 'gitdir: {other}/.git' > .git")
    run("echo evil > ../other/.git/evil; echo evil > ../other/evil")
    assert not (other / ".git/evil").exists()
    assert not (other / "evil").exists()


def test_walls_that_nobody_uses_make_room(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.wall.guardhouse._MOST_STANDING", 2)
    monkeypatch.setattr("tools.wall.guardhouse._LEFT_ALONE_SECONDS", 0.0)
    monkeypatch.setattr("tools.approval.check_command", lambda *_, **__: None)
    contexts = []
    for number in range(4):
        home, root = tmp_path / f"home{number}", tmp_path / f"root{number}"
        home.mkdir()
        root.mkdir()
        settings = {"terminal": {"sandbox": "required"}}
        workspace = Workspace(home, root, settings=settings)
        contexts.append(ToolContext("s", "c", workspace=workspace))
        # The second one has something running, and stays.
        terminal.run(contexts[-1], "sleep 600 & echo x > $TMPDIR/kept" if number == 1 else "true")
    standing = [
        any(warden.stands for warden, _ in guardhouse_of(one.workspace)._standing.values())
        for one in contexts
    ]
    assert standing == [False, True, False, True]
    assert "sleep" in str(terminal.run(contexts[1], "pgrep -a sleep; cat $TMPDIR/kept"))
    assert terminal.run(contexts[0], "echo again") == "again"
    for one in contexts:
        close_terminal(one.workspace)
