"""Private files that are there whole or not at all."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_base.files import PARTIAL, replace_private, sweep_partial, sync_folder, write_private

from ..test_structure import modules


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the system, in order: flushes of files and folders, and the new name."""
    found: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def flush(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        found.append("flush folder" if is_folder else "flush file")
        fsync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        found.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(Path, "replace", rename)
    return found


def test_what_is_written_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, calls: list[str]
) -> None:
    write_private(tmp_path / "file", "grüße\n")
    assert (tmp_path / "file").read_bytes() == "grüße\n".encode()
    assert calls == ["flush file", "rename", "flush folder"]
    calls.clear()
    write_private(tmp_path / "file", b"\xff", durable=False)
    assert (tmp_path / "file").read_bytes() == b"\xff"
    assert calls == ["rename"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_a_file_is_its_owners_alone_whatever_it_was(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "file"
    path.touch(mode=0o644)
    before = os.umask(umask)
    try:
        with replace_private(path) as file:
            while_written = stat.S_IMODE(Path(file.name).stat().st_mode)
        write_private(path, "x")
    finally:
        os.umask(before)
    assert while_written & 0o077 == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_private(path, "x", mode=0o640)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replace_private(path) as file:
        file.write(b"half")
        file.flush()
        raise ZeroDivisionError
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "half of a pair: \ud800")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    write_private(tmp_path / ("x" * 255), "text")
    assert [one.read_text() for one in tmp_path.iterdir()] == ["text"]


def test_several_who_write_at_once_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replace_private(path) as first, replace_private(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"  # whoever ends last


WRITING = """
import sys
from pathlib import Path
from hermes_base.files import write_private
number = 0
while True:
    number += 1
    write_private(Path(sys.argv[1]), f"{number}\\n" * 5000, durable=False)
    print(number, flush=True)
"""


def test_a_process_killed_while_it_writes_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child, child.stdout:
        for _ in range(20):
            assert child.stdout.readline()
        child.kill()
    lines = path.read_text().splitlines()
    assert len(lines) == 5000 and len(set(lines)) == 1
    left = [one.name for one in tmp_path.iterdir() if one != path]
    assert all(name.startswith(".") and name.endswith(PARTIAL) for name in left)


def test_only_what_nobody_writes_any_more_is_swept_away(tmp_path: Path) -> None:
    write_private(tmp_path / "file", "text")
    left = tmp_path / f".left{PARTIAL}"
    left.touch()
    os.utime(left, (1, 1))
    with replace_private(tmp_path / "other"):
        sweep_partial(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "other"]


def test_a_folder_that_cannot_be_listed_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    sync_folder(tmp_path)


RENAMING = {
    "hermes_base.files": "the one place",
    "hermes_state.backup.point": "its name is made of what is in it",
    "hermes_state.migrations": "SQLite writes it",
    "hermes_state.move_ends": "SQLite writes it",
    "hermes_state.salvage": "SQLite writes it",
    "tools.files.edit": "files of the user, with their owner and attributes",
    "tools.files.atomic": "files of the user, with their owner and attributes",
    "tools.processes.ledger": "what cannot be read is moved aside",
    "hermes_cli.commands.store": "a store that was moved is kept under another name",
    "hermes_cli.home_backup": "a restored home is moved into its place",
    "hermes_cli.importers.hermes_home": "SQLite writes it",
    "hermes_cli.importers.home_parts": "folders",
    "agent.meaning.fetch": "what comes over the network in parts",
    "agent.providers.embedded_fetch": "folders and what comes over the network in parts",
}
"""Who else gives a file its final name, and why."""


def test_nobody_else_writes_a_file_beside_its_place_by_hand() -> None:
    """Sixteen did it once, and most of them forgot something."""
    found = {
        module.name
        for module in modules()
        for node in module.nodes(".replace(", ".rename(")
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (
            (node.func.attr in ("replace", "rename") and len(node.args) == 1 and not node.keywords)
            or ast.unparse(node.func) in ("os.replace", "os.rename")
        )
    }
    assert found - RENAMING.keys() == set()
