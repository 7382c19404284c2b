"""Salvaging that is itself cut short, or done by several processes at once."""

import os
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from hermes_state import SessionDB, StoreFullError, StoreUnavailableError
from hermes_state import salvage as salvaging
from hermes_state.connection import damage_marker

from .children import Child, in_child, race
from .damage import (
    PAGE,
    Written,
    check_sound,
    damaged_files,
    fill,
    leave_wal,
    overwrite,
    pages_of,
    read_back,
)

pytestmark = pytest.mark.sqlite


def damaged_store(path: Path) -> Written:
    """A store with a damaged page, and more messages in the -wal; what can be read of it."""
    written = fill(path)
    wal = leave_wal(path, ["late"] * 10)
    page = pages_of_copy(path)[1]
    overwrite(path, page, b"\0" * PAGE)
    assert wal.exists()
    damage_marker(path).touch()
    copy = path.parent.parent / "copy"
    shutil.copytree(path.parent, copy)
    with SessionDB(copy / path.name) as db:
        expected = read_back(db)
    assert len(written) < len(expected) + 60
    assert sum(text == "late" for _, text in expected.values()) == 10
    shutil.rmtree(copy)
    return expected


def pages_of_copy(path: Path) -> list[int]:
    copy = path.with_name("for-looking.db")
    shutil.copy(path, copy)
    found = pages_of(copy, "messages")
    copy.unlink()
    return found


def refuse_links(_self: Path, _target: Path) -> None:
    raise PermissionError("no links here")


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_while_copying(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Path, "hardlink_to", refuse_links)
    patch.setattr(shutil, "copy2", die)


def die_after_the_log_went(patch: pytest.MonkeyPatch) -> None:
    unlink = Path.unlink

    def unlink_and_die(self: Path, missing_ok: bool = False) -> None:
        unlink(self, missing_ok=missing_ok)
        if self.name == "state.db-wal":
            die()

    patch.setattr(Path, "unlink", unlink_and_die)


@pytest.mark.parametrize(
    "arm",
    [
        lambda patch: patch.setattr(salvaging, "_set_aside", die),
        die_while_copying,
        lambda patch: patch.setattr(salvaging, "prepare", die),
        lambda patch: patch.setattr("hermes_state.salvage_rows.recount", die),
        die_after_the_log_went,
        lambda patch: patch.setattr(Path, "replace", die),
    ],
    ids=["start", "copy", "prepare", "rows", "log", "swap"],
)
def test_a_crash_while_salvaging_costs_nothing(
    db_path: Path, arm: Callable[[pytest.MonkeyPatch], None]
) -> None:
    expected = damaged_store(db_path)
    original = db_path.read_bytes()

    def open_armed() -> None:
        arm(pytest.MonkeyPatch())
        SessionDB(db_path)

    assert Child(open_armed).outcome() == ("died", signal.SIGKILL)
    with SessionDB(db_path) as db:
        assert read_back(db) == expected
        assert db.salvage_report is not None
        assert db.salvage_report.moved_to.read_bytes() == original
        check_sound(db)


def test_a_file_system_without_links_gets_a_copy(
    db_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = damaged_store(db_path)
    original = db_path.read_bytes()
    monkeypatch.setattr(Path, "hardlink_to", refuse_links)
    with SessionDB(db_path) as db:
        assert read_back(db) == expected
        assert damaged_files(db_path)[0].read_bytes() == original


def test_a_full_disk_while_salvaging_is_named_and_tried_again(
    db_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = damaged_store(db_path)

    def no_room(*_: object) -> None:
        raise apsw.FullError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("hermes_state.salvage_rows.recount", no_room)
        with pytest.raises(StoreFullError):
            SessionDB(db_path)
    with SessionDB(db_path) as db:
        assert read_back(db) == expected
    assert len(damaged_files(db_path)) == 1


def test_processes_that_meet_the_same_damage_salvage_it_once(db_path: Path) -> None:
    expected = damaged_store(db_path)

    def open_and_read() -> tuple[bool, Written]:
        with SessionDB(db_path) as db:
            return db.salvage_report is not None, read_back(db)

    results = race([open_and_read] * 4)
    assert [found for _, found in results] == [expected] * 4
    assert [reported for reported, _ in results].count(True) == 1
    assert len(damaged_files(db_path)) == 1


def test_who_still_has_the_old_file_open_cannot_write_into_it(db_path: Path) -> None:
    expected = damaged_store(db_path)
    with SessionDB(db_path) as early:
        assert early.salvage_report is not None
        early.salvage_report.moved_to.replace(db_path)  # the damage is back
        overwrite(db_path, 1, b"\0" * 100)
        in_child(lambda: SessionDB(db_path).close())
        with pytest.raises(StoreUnavailableError, match="Open the store anew"):
            early.append_message("s0", "user", "lost?")
    with SessionDB(db_path) as db:
        assert db.message_count() < len(expected)


def test_everything_made_by_a_salvage_is_private(db_path: Path) -> None:
    damaged_store(db_path)
    before = os.umask(0)
    try:
        SessionDB(db_path).close()
    finally:
        os.umask(before)
    for path in db_path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
