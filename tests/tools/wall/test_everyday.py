"""Everyday commands run inside a wall unasked, and do there what they do outside."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools.base import ApprovalRequest, Choice, ToolContext, Workspace
from tools.terminal.tool import close_terminal, terminal
from tools.wall import places
from tools.wall.kinds import means

from ... import seeds
from ...ports import free_port
from .everyday import DEAR, GROUPS, LANDLOCK_DIFFERS, OPTIONAL, PROJECT, RARE, VARYING_FILES

_MISSING = [name for name in OPTIONAL if shutil.which(name) is None]
if "cargo" not in _MISSING and subprocess.run(["cargo", "-V"], capture_output=True).returncode:
    _MISSING += ["cargo", "rustc"]  # they may be there without a toolchain
_VARYING = [
    (re.compile(r"\[this ran inside a wall: [^]]*]\n?"), ""),
    (re.compile(r"\n?\[took \d+ s]"), ""),
    (re.compile(r"\n?\[still running in the background: [^]]*]"), ""),
    (re.compile(r"\b\d+\.\d+ ?(?:s|ms|sec|seconds)\b"), "TIME"),
    (re.compile(r"(?m)(?<=^\[)\d(?=] \d+)|(?<=\[1] )\d+|(?<=line )\d+(?=: )"), "N"),
    (re.compile(r"/\S*tool-runs/\S+"), "SCRIPT"),
]
"""What is different from one run to the next, wherever it is."""


Tree = dict[str, tuple[str, str]]


class Forbidden:
    """Whoever asks has failed."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def approve(self, request: ApprovalRequest) -> Choice:
        self.asked.append(f"{request.command}: {request.description}")
        return "deny"

    def clarify(self, question: str, choices: list[str]) -> str:
        self.asked.append(question)
        return ""


@dataclass
class Outcome:
    """What commands printed, and what they left behind, one after the other."""

    printed: dict[str, str] = field(default_factory=dict)
    left: list[Tree] = field(default_factory=list)


def lay_out(person: Path) -> Path:
    root = person / "project"
    for name, text in PROJECT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (person / ".hermes").mkdir()
    (person / ".gitconfig").write_text(
        "[user]\nname = Me\nemail = me@example.org\n[init]\ndefaultBranch = main\n"
    )
    return root


def execute(
    person: Path, commands: list[str], *, is_walled: bool, look_before: int | None = None
) -> Outcome:
    """Run commands one after the other in a project of their own.

    What they left is looked at in the end, and before the one with the number `look_before`.
    """
    root = lay_out(person)
    os.environ["HOME"] = str(person)  # the fixture puts it back
    places.homes.cache_clear()
    asker = Forbidden()
    settings = {
        "terminal": {"sandbox": "required" if is_walled else "off"},
        "approvals": {"mode": "manual" if is_walled else "off"},
    }
    workspace = Workspace(person / ".hermes", root, settings=settings)
    context = ToolContext("s1", "call_1", workspace=workspace, asker=asker)
    outcome = Outcome()
    try:
        port = free_port()
        for number, command in enumerate(commands):
            if number == look_before:
                outcome.left.append(dict(tree(root, person)))
            text = str(terminal.run(context, command.format(port=port), timeout=60))
            text = text.replace(str(person), "HOME").replace(str(port), "PORT")
            for pattern, instead in _VARYING:
                text = pattern.sub(instead, text)
            outcome.printed[command] = text.strip()
            assert not asker.asked, f"{command} was asked for: {asker.asked}"
    finally:
        close_terminal(workspace)
    outcome.left.append(dict(tree(root, person)))
    return outcome


def tree(root: Path, person: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Every file with its permissions and, if it is text, its contents."""
    for folder, folders, files in os.walk(root):
        for name in sorted([*folders, *files]):
            path = Path(folder, name)
            info = path.lstat()
            if path.is_symlink():
                content = str(path.readlink()).replace(str(person), "HOME")
            elif path.is_file() and not any(path.match(name) for name in VARYING_FILES):
                content = _digest(path.read_bytes(), person)
            else:
                content = ""
            known = re.sub(r"-\d+(?=\.log$)|(?<=cpython-)\d+", "", str(path.relative_to(root)))
            yield known, (oct(info.st_mode), content)


def _digest(data: bytes, person: Path) -> str:
    if b"\0" in data or data[:2] == b"\x1f\x8b":
        return "binary"
    text = data.replace(os.fsencode(person), b"HOME")
    return text.decode("utf-8", "replace") if len(text) < 400 else hashlib.sha256(text).hexdigest()


def chosen(group: str) -> list[str]:
    """The commands of a group that can be tried on this machine, and in this run."""
    rare = RARE if seeds.fuzz_seed() is None else ()
    return [
        command
        for command in GROUPS[group]
        if not any(part in command for part in rare)
        and not any(re.search(rf"(?<![\w./'-]){re.escape(name)}\s", command) for name in _MISSING)
    ]


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of the same command have the same result."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_DATE", "2024-01-01T00:00:00Z")
    for name, folder in (("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv")):
        if name not in os.environ and Path.home().joinpath(folder).is_dir():
            monkeypatch.setenv(name, str(Path.home() / folder))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def dear_from(group: str, commands: list[str]) -> int:
    """The number of the first command that is not for the second kind of wall."""
    if group not in DEAR or seeds.fuzz_seed() is not None:
        return len(commands)
    found = (number for number, command in enumerate(commands) if DEAR[group] in command)
    return next(found, len(commands))


@pytest.mark.long
@pytest.mark.fuzz
@pytest.mark.parametrize("group", GROUPS)
def test_a_command_does_inside_what_it_does_outside(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside once, and behind each kind of wall that this machine can build."""
    monkeypatch.setenv("HOME", str(tmp_path))
    walls = [name for name in ("bubblewrap", "landlock") if can_build(name, monkeypatch)]
    if not walls:
        pytest.skip("needs bwrap (Debian: apt-get install bubblewrap), or Linux with Landlock")
    commands = chosen(group)
    dear = dear_from(group, commands)
    outside = execute(tmp_path / "outside", commands, is_walled=False, look_before=dear)
    for number, kind in enumerate(walls):
        monkeypatch.setenv("HERMES_WALL", kind)
        left_out = LANDLOCK_DIFFERS if kind == "landlock" else ()
        until = dear if number else len(commands)
        tried = [one for one in commands[:until] if not any(part in one for part in left_out)]
        inside = execute(tmp_path / kind, tried, is_walled=True)
        places.homes.cache_clear()
        differing = {
            command: (outside.printed[command], text)
            for command, text in inside.printed.items()
            if text != outside.printed[command]
        }
        assert not differing, "\n".join(
            f"$ {command}\n--- outside\n{expected}\n--- inside {kind}\n{text}"
            for command, (expected, text) in differing.items()
        )
        assert inside.left[-1] == outside.left[0 if number else -1], kind


def can_build(kind: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there can be this kind of wall here; one that is required must be."""
    if kind == "bubblewrap" and shutil.which("bwrap") is None:
        return False
    monkeypatch.setenv("HERMES_WALL", kind)
    found = means()
    if found.kind != kind and kind in os.environ.get("HERMES_TEST_REQUIRE", ""):
        pytest.fail(f"{kind} is required and cannot be had: {found.why}")
    return found.kind == kind


def test_there_are_at_least_two_hundred() -> None:
    assert len({command for commands in GROUPS.values() for command in commands}) >= 200


@pytest.mark.parametrize("program", _MISSING)
def test_a_missing_program_is_named(program: str) -> None:
    pytest.skip(f"everyday commands with {program} are left out: it is not installed")
