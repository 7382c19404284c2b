"""Hundreds of attacks, executed for real with every question denied: nothing outside changes.

After each one: no file outside is written, nothing hidden was read, nothing was connected to, the
process outside lives, and the agent's settings are as before. All of them run in a plain folder;
in a work tree of git, behind a symbolic link and on another file system every thirtieth does,
and with `make fuzz` every round others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tools.base import Tool, ToolContext, ToolError
from tools.code_execution import execute_code
from tools.files.patch import patch
from tools.files.read import read_file
from tools.files.search import search_files
from tools.files.write import write_file
from tools.processes.tool import process
from tools.terminal.tool import close_terminal, terminal
from tools.wall import places
from tools.wall.inside import landlock

from ... import seeds
from .attacks import commands
from .world import World

SECONDS = 30
SAMPLE = os.environ.get("HERMES_TEST_SAMPLE", "")
"""Which of ten to try, in a plain folder: for another account, in which all else is the same."""
IS_SAMPLE = bool(SAMPLE)
PLACES = ["plain"] if IS_SAMPLE else ["plain", "work tree", "link", "other file system"]


@pytest.fixture(params=PLACES)
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
        # The proxy inside may happen to have the same number there, so connections are counted.
        f" (echo > /dev/tcp/127.0.0.1/{world.port}); true",
    )
    assert "reached" not in str(text)
    assert world.snapshot() == world.before
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


def together(attacks: list[str]) -> list[str]:
    """A few commands that try all of these, which are many and alike.

    Each is tried by a shell of its own, without the judgement about its text, which would refuse
    all because of one. What could remove the traces of others is tried alone.
    """
    alone = [attack for attack in attacks if attack.startswith("rm ")]
    others = [attack for attack in attacks if attack not in alone]
    parts = [others[start : start + 20] for start in range(0, len(others), 20)]
    return [*map(_in_shells, parts), *alone]


def _in_shells(attacks: list[str]) -> str:
    return "\n".join(f"({attack}) </dev/null; echo evil > own" for attack in attacks)


def try_all(name: str, attacks: list[str], context: ToolContext, world: World) -> None:
    """Try attacks of a kind, and look after each at what must be as it was."""
    with pytest.MonkeyPatch.context() as patch:
        if name in ("write", "read"):
            patch.setattr("tools.approval.check_command", lambda *_, **__: None)
            attacks = together(attacks)
        for command in attacks:
            text = attack(context, world, command)
            assert world.canary not in text, f"it was read by: {command}\n{text}"
            assert world.snapshot() == world.before, f"something outside was changed by: {command}"
            kept = [path for path in world.root.resolve().rglob("*") if path.is_file()]
            for path in kept:
                assert world.canary.encode() not in path.read_bytes(), f"copied by: {command}"
            world.reset()


def not_stopped(kind: str, name: str) -> str:
    """Why attacks of a kind are not tried behind this kind of wall, if so."""
    if kind == "landlock" and name == "metadata":
        return "Landlock does not stop changes of permissions, and says so"
    if kind == "landlock" and name == "processes" and landlock.abi() < 6:
        return "needs Linux 6.12: this Landlock does not stop signals, and says so"
    return ""


NAMES = list(commands())
PORTIONS = [NAMES[start : start + 4] for start in range(0, len(NAMES), 4)]
"""Kinds of attacks that are tried in one world, since to make a world and a wall takes long."""


@pytest.mark.parametrize("place", ["plain"], indirect=True)
@pytest.mark.parametrize("portion", PORTIONS, ids=", ".join)
def test_nothing_gets_out(
    kind: str, portion: list[str], world: World, context: ToolContext
) -> None:
    for name in portion:
        if not not_stopped(kind, name):
            try_all(name, sample(commands()[name]), context, world)


def sample(attacks: list[str]) -> list[str]:
    """All, or the tenth that was asked for; one at least."""
    return attacks[int(SAMPLE) % min(10, len(attacks)) :: 10] if IS_SAMPLE else attacks


def test_what_is_not_stopped_is_named(kind: str) -> None:
    if reasons := [why for name in NAMES if (why := not_stopped(kind, name))]:
        pytest.skip("attacks are left out: " + "; ".join(reasons))


@pytest.mark.fuzz
@pytest.mark.parametrize("place", PLACES[1:], indirect=True)
def test_nothing_gets_out_elsewhere(kind: str, world: World, context: ToolContext) -> None:
    """A few of each kind, in each round of a search others, and a third of the calls of tools."""
    for name, chosen in commands().items():
        if not not_stopped(kind, name):
            try_all(name, chosen[seeds.seed() % min(30, len(chosen)) :: 30], context, world)
    call_all(TOOL_ATTACKS[::3], context, world)


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


TOOL_ATTACKS: tuple[tuple[Tool, dict[str, Any]], ...] = (
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


@pytest.mark.parametrize("place", ["plain"], indirect=True)
def test_no_other_tool_gets_out(world: World, context: ToolContext) -> None:
    call_all(TOOL_ATTACKS[:: 3 if IS_SAMPLE else 1], context, world)


def call_all(
    attacks: Sequence[tuple[Tool, dict[str, Any]]], context: ToolContext, world: World
) -> None:
    """Call tools, and look after each call at what must be as it was."""
    for tool, arguments in attacks:
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


@pytest.mark.parametrize("place", PLACES[::2], indirect=True)
def test_what_is_typed_into_a_process_stays_inside(world: World, context: ToolContext) -> None:
    for program, line, end in (
        ("bash", "echo evil > {outside}/new; cat {hermes}/.env; kill -9 {pid}", "exit"),
        ("python3 -i", "open('{outside}/new', 'w'); print(open('{home}/.netrc').read())", "exit()"),
        ("sh -i", "cat {home}/.ssh/*; echo evil > {home}/.bashrc", "exit"),
    ):
        started = str(terminal.run(context, program, background=True, pty="-i" in program))
        name = next(word.strip(",.") for word in started.split() if word.startswith("proc_"))
        try:
            text = str(process.run(context, "submit", session_id=name, data=world.fill(line)))
        except ToolError as error:
            text = str(error)
        process.run(context, "submit", session_id=name, data=end)
        text += str(process.run(context, "wait", session_id=name, timeout=SECONDS))
        text += str(process.run(context, "log", session_id=name))
        assert "ended with exit code" in text, text
        assert world.canary not in text
        assert world.snapshot() == world.before


@pytest.mark.parametrize("place", PLACES[::3], indirect=True)
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
