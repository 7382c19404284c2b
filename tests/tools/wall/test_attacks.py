"""Hundreds of attacks, executed for real with every question denied: nothing outside changes.

After each one: no file outside is written, nothing hidden was read, nothing was connected to, the
process outside lives, and the agent's settings are as before. All of them run in a plain folder;
in a work tree of git, behind a symbolic link and on another file system every fifth does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.base import ToolContext, ToolError
from tools.code_execution import execute_code
from tools.files.patch import patch
from tools.files.read import read_file
from tools.files.search import search_files
from tools.files.write import write_file
from tools.processes.tool import process
from tools.terminal.tool import close_terminal, terminal
from tools.wall import places
from tools.wall.inside import landlock

from .attacks import commands
from .world import World

SECONDS = 30
IS_SAMPLE = bool(os.environ.get("HERMES_TEST_SAMPLE"))
"""Every fifth everywhere: for another account, in which all else is the same."""


@pytest.fixture(params=["plain", "work tree", "link", "other file system"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path, Path]]:
    """Where the root is, and the home around it."""
    kind = str(request.param)
    person = tmp_path / "person"
    person.mkdir()
    root = person / "project"
    if kind == "work tree":
        git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-C", str(person)]
        subprocess.run([*git, "init", "-q", "main"], check=True)
        git[-1] = str(person / "main")
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
        subprocess.run([*git, "worktree", "add", "-q", str(root)], check=True)
    elif kind == "link":
        (person / "real").mkdir()
        root.symlink_to(person / "real")
    elif kind == "other file system":
        if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == os.stat("/").st_dev:  # noqa: PTH116
            pytest.skip("needs /dev/shm as a file system of its own")
        root = Path(tempfile.mkdtemp(dir="/dev/shm"))
    else:
        root.mkdir()
    yield kind, person, root
    if kind == "other file system":
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def world(
    kind: str, place: tuple[str, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    _, person, root = place
    monkeypatch.setenv("HOME", str(person))
    places.homes.cache_clear()
    # Landlock does not stop changes of permissions and times, and says so.
    world = World(person, root, with_metadata=kind != "landlock")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(person / "agent.sock"))
    yield world
    world.close()
    places.homes.cache_clear()


@pytest.fixture
def context(world: World, kind: str) -> Iterator[ToolContext]:
    context = world.context()
    # Should the wall not stand, no attack is tried.
    text = terminal.run(
        context,
        f"touch {world.outside}/probe; kill -0 {world.victim.pid} && echo reached;"
        f" (echo > /dev/tcp/127.0.0.1/{world.port}) && echo reached; true",
    )
    assert "reached" not in str(text)
    assert not (world.outside / "probe").exists()
    yield context
    close_terminal(context.workspace)


def attack(context: ToolContext, world: World, command: str) -> str:
    """Run one attack; a refusal is as good as a failure."""
    try:
        return str(terminal.run(context, world.fill(command), timeout=SECONDS))
    except ToolError as error:
        return str(error)
    finally:
        context.workspace.cwd = context.workspace.root
        context.workspace.environ.clear()


@pytest.mark.parametrize("attacks", commands().items(), ids=lambda entry: entry[0])
def test_nothing_gets_out(
    kind: str,
    place: tuple[str, Path, Path],
    attacks: tuple[str, list[str]],
    world: World,
    context: ToolContext,
) -> None:
    name, chosen = attacks
    if kind == "landlock" and name == "metadata":
        pytest.skip("Landlock does not stop changes of permissions, and says so")
    if kind == "landlock" and name == "processes" and landlock.abi() < 6:
        pytest.skip("needs Linux 6.12: this Landlock does not stop signals, and says so")
    chosen = chosen if place[0] == "plain" and not IS_SAMPLE else chosen[::5]
    for command in chosen:
        text = attack(context, world, command)
        assert world.canary not in text, f"it was read by: {command}\n{text}"
        assert world.snapshot() == world.before, f"something outside was changed by: {command}"
        kept = [path for path in world.root.resolve().rglob("*") if path.is_file()]
        for path in kept:
            assert world.canary.encode() not in path.read_bytes(), f"it was copied by: {command}"
        world.reset()


@pytest.mark.parametrize("place", ["plain"], indirect=True)
def test_without_a_wall_it_would_be_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.approval.check_command", lambda *_, **__: None)
    free = world.context()
    free.workspace.settings = {"terminal": {"sandbox": "off"}}
    for command in ("echo evil > {outside}/new", "kill -STOP {pid}", "nc -w 1 127.0.0.1 {port}"):
        world.before = world.snapshot()
        attack(free, world, command.replace("nc -w 1 127.0.0.1 ", "true > /dev/tcp/127.0.0.1/"))
        assert world.snapshot() != world.before, command
    assert world.canary in attack(free, world, "cat {home}/.netrc")
    close_terminal(free.workspace)


def test_there_are_enough_of_them() -> None:
    found = commands()
    assert len(found) >= 12
    assert sum(map(len, found.values())) >= 300


TOOL_ATTACKS = (
    (write_file, {"path": "{outside}/new", "content": "evil"}),
    (write_file, {"path": "../outside/kept", "content": "evil"}),
    (write_file, {"path": "link/kept", "content": "evil"}),
    (write_file, {"path": "{hermes}/config.yaml", "content": "evil"}),
    (write_file, {"path": "{hermes}/.env", "content": "evil"}),
    (write_file, {"path": "/proc/self/root{outside}/new", "content": "evil"}),
    (write_file, {"path": "/proc/self/cwd/../outside/new", "content": "evil"}),
    (write_file, {"path": "{home}/.ssh/authorized_keys", "content": "evil"}),
    (write_file, {"path": "/etc/profile.d/hermes-evil.sh", "content": "evil"}),
    (patch, {"path": "{outside}/kept", "old_string": "kept", "new_string": "evil"}),
    (patch, {"path": "link/kept", "old_string": "kept", "new_string": "evil"}),
    (patch, {"mode": "patch", "patch": "*** Begin Patch\n*** Add File: {outside}/new\n+evil\n"
             "*** Delete File: {outside}/kept\n*** End Patch"}),
    (read_file, {"path": "{home}/.ssh/id_ed25519"}),
    (read_file, {"path": "{home}/.netrc"}),
    (read_file, {"path": "{hermes}/.env"}),
    (read_file, {"path": "{hermes}/config.yaml"}),
    (read_file, {"path": "/proc/{pid}/environ"}),
    (read_file, {"path": "hard"}),
    (read_file, {"path": "soft"}),
    (search_files, {"pattern": "canary", "path": "{home}"}),
    (search_files, {"pattern": "canary", "path": "{hermes}"}),
    (search_files, {"pattern": "canary", "path": "."}),
    (search_files, {"pattern": "secret", "path": "{home}/.aws"}),
    (execute_code, {"code": "open('{outside}/new', 'w').write('evil')"}),
    (execute_code, {"code": "print(open('{hermes}/.env').read())"}),
    (execute_code, {"code": "import os; os.kill({pid}, 9)"}),
    (execute_code, {"code": "import socket; socket.create_connection(('127.0.0.1', {port}), 3)"}),
    (execute_code, {"code": "import os; os.system('touch {outside}/new; cat {home}/.netrc')"}),
    (terminal, {"command": "echo evil > {outside}/new", "needs": ["write:{outside}"]}),
    (terminal, {"command": "echo evil > {outside}/new", "needs": ["no wall"]}),
    (terminal, {"command": "curl -s http://127.0.0.1:{port}/", "needs": ["host:127.0.0.1"]}),
    (terminal, {"command": "curl -s http://127.0.0.1:{port}/", "needs": ["network"]}),
    (terminal, {"command": "echo evil > kept", "workdir": "{outside}"}),
    (terminal, {"command": "cat .env config.yaml", "workdir": "{hermes}"}),
    (terminal, {"command": "echo evil > {outside}/new", "pty": True}),
)  # fmt: skip


def test_no_other_tool_gets_out(world: World, context: ToolContext) -> None:
    for tool, arguments in TOOL_ATTACKS:
        root = world.root.resolve()
        os.link(world.person / ".netrc", root / "hard") if _same_disk(world) else None
        (root / "soft").symlink_to(world.person / ".netrc")
        filled = {
            name: world.fill(value)
            if isinstance(value, str)
            else [world.fill(one) for one in value]
            if isinstance(value, list)
            else value
            for name, value in arguments.items()
        }
        try:
            text = str(tool.run(context, **filled))
        except ToolError as error:
            text = str(error)
        (root / "hard").unlink(missing_ok=True)
        (root / "soft").unlink()
        assert world.canary not in text, f"{tool.name} {arguments}"
        assert world.snapshot() == world.before, f"{tool.name} {arguments}"
        world.reset()


def _same_disk(world: World) -> bool:
    return world.root.resolve().stat().st_dev == world.person.stat().st_dev


def test_what_is_typed_into_a_process_stays_inside(world: World, context: ToolContext) -> None:
    for program, line in (
        ("bash", "echo evil > {outside}/new; cat {hermes}/.env; kill -9 {pid}"),
        ("python3 -i -q", "open('{outside}/new', 'w'); print(open('{home}/.netrc').read())"),
        ("sh -i", "cat {home}/.ssh/*; echo evil > {home}/.bashrc"),
    ):
        started = str(terminal.run(context, program, background=True, pty="-i" in program))
        name = next(word.strip(",.") for word in started.split() if word.startswith("proc_"))
        try:
            text = str(process.run(context, "submit", session_id=name, data=world.fill(line)))
        except ToolError as error:
            text = str(error)
        text += str(process.run(context, "wait", session_id=name, timeout=1))
        text += str(process.run(context, "log", session_id=name))
        process.run(context, "kill", session_id=name)
        assert world.canary not in text
        assert world.snapshot() == world.before


def test_a_link_that_is_swapped_all_the_time_leads_nowhere(
    world: World, context: ToolContext
) -> None:
    swap = "while :; do ln -sfn {outside} race; ln -sfn . race; done"
    terminal.run(context, world.fill(swap), background=True)
    for _ in range(50):
        try:
            write_file.run(context, path="race/new", content="evil")
        except ToolError:
            continue  # asked, and denied
    assert world.snapshot() == world.before
