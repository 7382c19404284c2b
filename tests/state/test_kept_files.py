"""Files that are one for all machines: changed only as they were last seen, all or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_state import KEPT_FILE_BYTES, FileChange, InvalidMessageError, KeptFile, SessionDB

from .interleaving import Outcome, Pair, nothing

TEXT, BYTES = "naïve § text\n".encode(), b"\xff\x00 no text"


def test_what_is_kept_is_what_is_read(db: SessionDB, db_path: Path) -> None:
    given = [
        FileChange("memories/MEMORY.md", TEXT),
        FileChange("skills/a/assets/b.png", BYTES),
        FileChange("skills/a/scripts/run.sh", b"with \x00", executable=True),
        FileChange("skills/a/empty", b""),
    ]
    versions = db.change_kept_files(given)
    assert versions == {change.path: number for number, change in enumerate(given, 1)}
    with SessionDB(db_path) as other:
        version, files, is_all = other.list_kept_files()
    assert (version, is_all) == (4, True)
    assert [file[:3] for file in files] == [change[:3] for change in given]


def test_who_asks_again_is_told_what_changed(db: SessionDB) -> None:
    db.change_kept_files([FileChange("memories/a", b"1"), FileChange("memories/b", b"1")])
    assert db.list_kept_files(2) == (2, [], False)
    db.change_kept_files([FileChange("memories/a", None, version=1)])
    assert db.list_kept_files(2) == (3, [KeptFile("memories/a", None, False, 3)], False)
    assert db.get_kept_head() == (db.get_meta("store_id"), 3)
    assert db.list_kept_files(99).is_all, "a store that was put back"


def test_all_or_none_are_changed_and_only_what_was_seen(db: SessionDB) -> None:
    db.change_kept_files([FileChange("memories/a", b"1")])
    for wrong in (FileChange("memories/a", b"2"), FileChange("memories/new", b"2", version=1)):
        assert db.change_kept_files([FileChange("memories/c", b"2"), wrong]) is None
    too_long = FileChange("memories/d", b"x" * (KEPT_FILE_BYTES + 1))
    with pytest.raises(InvalidMessageError):
        db.change_kept_files([FileChange("memories/c", b"2"), too_long])
    assert [file.path for file in db.list_kept_files().files] == ["memories/a"]


def test_of_two_that_change_a_file_one_is_told_to_look_again(pair: Pair) -> None:
    def change(db: SessionDB, name: str) -> Any:
        return db.change_kept_files([FileChange(f"memories/{name}", b"mine")])

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert (first.result is None) != (second.result is None)

    pair.every_way(nothing, change, change, check)
