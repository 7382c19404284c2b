"""A disk that is full or read-only: one sentence, an exit code, and nothing lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state import SessionDB

from .. import skips
from .conftest import Hermes

pytestmark = pytest.mark.sqlite

MESSAGES = 50


class SmallDisk:
    """A file system of its own, which can be filled and made read-only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(self.folder)], check=True, capture_output=True)

    def make(self) -> None:
        self._mount("-t", "tmpfs", "-o", "size=2m", "tmpfs")

    def protect(self, *, writable: bool = False) -> None:
        self._mount("-o", f"remount,{'rw' if writable else 'ro'}")

    def fill(self, *, free: int = 0) -> None:
        """Leave `free` kilobytes."""
        (self.folder / "fill").unlink(missing_ok=True)
        disk = os.statvfs(self.folder)
        with (self.folder / "fill").open("wb") as file:
            size = disk.f_bavail * disk.f_frsize - free * 1024
            os.posix_fallocate(file.fileno(), 0, max(size, 1))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = SmallDisk(folder)
    try:
        disk.make()
    except (OSError, subprocess.CalledProcessError):
        skips.no_mounting()
    yield disk
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def program(disk: SmallDisk) -> Hermes:
    """The program whose home lies on that disk."""
    hermes = Hermes(disk.folder)
    hermes.configure(
        "model:\n  provider: custom\n  base_url: http://127.0.0.1:9/v1\n  default: m\n"
    )
    return hermes


def fill_store(program: Hermes) -> None:
    with program.store() as db:
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "content": "x" * 500}] * MESSAGES)


def count(program: Hermes) -> int:
    with program.store() as db:
        return db.message_count("s")


def check_sentence(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode in (1, 2), done
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("known", [True, False], ids=["a store", "an empty home"])
def test_chat_on_a_read_only_disk(disk: SmallDisk, program: Hermes, known: bool) -> None:
    if known:
        fill_store(program)
    disk.protect()
    check_sentence(program.run("chat", "-q", "hello"), "is read-only")
    check_sentence(program.run("sessions", "list"), "is read-only")
    disk.protect(writable=True)
    assert not known or count(program) == MESSAGES


def test_a_backup_on_a_read_only_disk(disk: SmallDisk, program: Hermes) -> None:
    fill_store(program)
    disk.protect()
    check_sentence(program.run("backup"), "Read-only file system")
    disk.protect(writable=True)
    assert program.run("backup").returncode == 0


def test_chat_on_a_full_disk(disk: SmallDisk, program: Hermes) -> None:
    fill_store(program)
    disk.fill()
    done = program.run("chat", "-Q", "-q", "hello")
    check_sentence(done, "No room left on the disk")
    (disk.folder / "fill").unlink()
    assert count(program) == MESSAGES


@pytest.mark.parametrize("free", [0, 40, 120, 200])
def test_a_backup_on_a_full_disk(disk: SmallDisk, program: Hermes, free: int) -> None:
    """Wherever it runs out: while the store is copied, packed, or read back."""
    fill_store(program)
    disk.fill(free=free)
    check_sentence(program.run("backup"), "No room left on the disk")
    assert not list((disk.folder / ".hermes" / "backups").iterdir())
    (disk.folder / "fill").unlink()
    assert count(program) == MESSAGES
    assert program.run("backup").returncode == 0


def test_a_store_whose_tables_found_no_room_can_be_backed_up(
    disk: SmallDisk, program: Hermes
) -> None:
    disk.fill()
    check_sentence(program.run("chat", "-q", "hello"), "No room left on the disk")
    (disk.folder / "fill").unlink()
    store = disk.folder / ".hermes" / "state.db"
    assert store.exists()
    done = program.run("backup")
    assert done.returncode == 0, done
    assert "0 messages" in done.stdout
    with SessionDB(store) as db:
        assert db.message_count() == 0
