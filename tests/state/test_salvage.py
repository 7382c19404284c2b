"""Damaged files: kept as they are, and what can be read of them is there again."""

import os
import random
import shutil
import sqlite3
import stat
from pathlib import Path

import apsw
import pytest

from hermes_state import SessionDB, StoreCorruptedError
from hermes_state import salvage as salvaging
from hermes_state.connection import damage_marker

from .damage import (
    PAGE,
    check_sound,
    damaged_files,
    fill,
    leave_wal,
    overwrite,
    pages_of,
    read_back,
)

pytestmark = pytest.mark.sqlite


def readable_ids(path: Path, ids: list[int]) -> set[int]:
    """Which messages SQLite still finds one by one."""
    connection = apsw.Connection(str(path))
    found = set()
    for one in ids:
        try:
            found |= {
                row[0]
                for row in connection.execute(
                    "SELECT id, length(content) FROM messages WHERE id = ?", (one,)
                )
            }
        except apsw.CorruptError:
            continue
    connection.close()
    return found


@pytest.mark.parametrize(
    "content",
    [b"hello, I am no database", random.Random(1).randbytes(50_000), b"\0" * 9000],
    ids=["text", "noise", "zeros"],
)
def test_a_file_that_is_no_database_is_moved_aside(db_path: Path, content: bytes) -> None:
    db_path.parent.mkdir()
    db_path.write_bytes(content)
    with SessionDB(db_path) as db:
        report = db.salvage_report
        assert report is not None
        assert report.moved_to.read_bytes() == content
        assert report.moved_to.parent == db_path.parent
        assert "messages" in report.damaged_tables
        assert not any(report.rows.values())
        assert str(report.moved_to) in str(report)
        check_sound(db)
    assert not damage_marker(db_path).exists()
    with SessionDB(db_path) as again:
        assert again.salvage_report is None
        assert again.message_count("after") == 1


def test_an_empty_file_becomes_a_store(db_path: Path) -> None:
    db_path.parent.mkdir()
    db_path.touch(mode=0o644)
    with SessionDB(db_path) as db:
        assert db.salvage_report is None
        check_sound(db)
    assert stat.S_IMODE(db_path.stat().st_mode) == 0o600


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.77, 0.95])
def test_of_a_file_cut_short_the_rest_is_read(db_path: Path, share: float) -> None:
    written = fill(db_path, each=300)
    os.truncate(db_path, int(db_path.stat().st_size / PAGE * share) * PAGE)
    original = db_path.read_bytes()
    with SessionDB(db_path) as db:
        assert db.salvage_report is not None
        assert db.salvage_report.moved_to.read_bytes() == original
        kept = read_back(db)
        assert kept.items() <= written.items()
        assert len(kept) >= (share - 0.3) * len(written)
        assert db.salvage_report.rows.get("messages", 0) == len(kept)
        check_sound(db)


@pytest.mark.parametrize("seed", range(6))
def test_rows_around_damaged_pages_are_all_kept(db_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    written = fill(db_path, length=chance.choice([40, 300, 9000]), each=100)
    doomed = chance.sample(pages_of(db_path, "messages"), 3)
    for page in doomed:
        overwrite(db_path, page, chance.choice([b"\0" * PAGE, chance.randbytes(PAGE)]))
    expected = readable_ids(db_path, list(written))
    assert 0 < len(expected) < len(written)
    original = db_path.read_bytes()
    damage_marker(db_path).touch()
    with SessionDB(db_path) as db:
        report = db.salvage_report
        assert report is not None
        assert report.moved_to.read_bytes() == original
        assert report.damaged_tables == ["messages"]
        assert read_back(db) == {one: written[one] for one in expected}
        assert report.rows["messages"] == len(expected)
        assert report.rows["sessions"] == 4
        assert db.get_session_title("s2") == "Title 2"
        new = db.append_message("s1", "user", "next")
        assert new > max(written), "the id of a lost message was used again"
        check_sound(db)


def test_text_that_is_no_longer_text_is_kept_with_marks(db_path: Path) -> None:
    written = fill(db_path, sessions=1, each=20)
    page = pages_of(db_path, "messages")[0]
    overwrite(db_path, page, b"\xff\xfe", offset=PAGE - 60)
    with SessionDB(db_path) as db:
        assert db.salvage_report is None
        with pytest.raises(StoreCorruptedError, match="salvaged"):
            db.get_messages("s0")
    with SessionDB(db_path) as db:
        assert db.salvage_report is not None
        kept = read_back(db)
        assert kept.keys() == written.keys()
        changed = {one for one in written if kept[one] != written[one]}
        assert len(changed) == 1
        assert "�" in kept[changed.pop()][1]
        check_sound(db)


def test_damage_found_in_use_is_salvaged_at_the_next_open(db_path: Path) -> None:
    written = fill(db_path, each=100)
    with SessionDB(db_path) as db:
        assert db.get_session("s0")
        for page in pages_of(db_path, "messages")[1:-1]:
            overwrite(db_path, page, b"\0" * PAGE)
        with pytest.raises(StoreCorruptedError, match="Open it anew"):
            db._database.read(lambda conn: conn.execute("SELECT * FROM messages").fetchall())
        assert damage_marker(db_path).exists()
    with SessionDB(db_path) as db:
        assert db.salvage_report is not None
        kept = read_back(db)
        assert kept and kept.items() <= written.items()
        check_sound(db)
    assert not damage_marker(db_path).exists()


def test_a_marker_without_damage_changes_nothing(db_path: Path) -> None:
    written = fill(db_path)
    damage_marker(db_path).touch()
    with SessionDB(db_path) as db:
        assert db.salvage_report is None
        assert read_back(db) == written
    assert not damaged_files(db_path)
    assert not damage_marker(db_path).exists()


# The write-ahead log


def texts_of(db: SessionDB) -> list[str]:
    return [message["content"].split()[0] for message in db.get_messages("s0")]


@pytest.mark.parametrize("size", [0, 20, 32, 1000, 0.3, 0.7])
def test_a_log_cut_short_costs_only_its_end(db_path: Path, size: float) -> None:
    fill(db_path, sessions=1, each=5)
    wal = leave_wal(db_path, [f"late{n}" for n in range(30)])
    os.truncate(wal, int(size if size > 1 else wal.stat().st_size * size))
    with SessionDB(db_path) as db:
        kept = texts_of(db)
        assert kept[:5] == [f"0:{n}" for n in range(5)]
        assert kept[5:] == [f"late{n}" for n in range(len(kept) - 5)]
        if size in (0.3, 0.7):
            assert 5 < len(kept) < 35
        check_sound(db)


@pytest.mark.parametrize("what", ["noise", "gone", "header"])
def test_a_log_that_is_lost_costs_only_what_was_in_it(db_path: Path, what: str) -> None:
    fill(db_path, sessions=1, each=5)
    wal = leave_wal(db_path, ["late"])
    if what == "noise":
        wal.write_bytes(random.Random(2).randbytes(60_000))
    elif what == "header":
        overwrite(wal, 1, b"\0" * 16)
    else:
        wal.unlink()
    with SessionDB(db_path) as db:
        assert texts_of(db) == [f"0:{n}" for n in range(5)]
        check_sound(db)


def test_a_damaged_frame_ends_the_log_there(db_path: Path) -> None:
    fill(db_path, sessions=1, each=5)
    wal = leave_wal(db_path, [f"late{n}" for n in range(30)])
    with wal.open("r+b") as file:
        file.seek(wal.stat().st_size // 2)
        file.write(b"\xaa" * 50)
    with SessionDB(db_path) as db:
        kept = texts_of(db)
        assert 5 < len(kept) < 35
        assert kept[5:] == [f"late{n}" for n in range(len(kept) - 5)]
        check_sound(db)


def test_the_log_of_another_store_is_noticed_and_salvaged(db_path: Path, tmp_path: Path) -> None:
    fill(db_path, sessions=1, each=20)
    other = tmp_path / "other" / "state.db"
    fill(other, sessions=1, each=200)
    shutil.copy(leave_wal(other, ["late"]), db_path.with_name("state.db-wal"))
    with SessionDB(db_path) as db, pytest.raises(StoreCorruptedError):
        db.get_messages("s0")
        db._database.read(lambda conn: conn.execute("SELECT * FROM messages").fetchall())
    with SessionDB(db_path) as db:
        assert db.salvage_report is not None
        check_sound(db)


def test_a_store_that_was_emptied_keeps_its_log_aside(db_path: Path) -> None:
    fill(db_path, sessions=1, each=5)
    wal = leave_wal(db_path, ["late"])
    log = wal.read_bytes()
    os.truncate(db_path, 0)
    with SessionDB(db_path) as db:
        assert db.salvage_report is not None
        moved = db.salvage_report.moved_to
        assert moved.with_name(moved.name + "-wal").read_bytes() == log
        check_sound(db)


# What belongs together


def test_lost_sessions_are_made_anew_and_conversations_joined(db_path: Path) -> None:
    with SessionDB(db_path) as db:
        db.create_session("a", "cli")
        for before, after in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")):
            db.append_message(before, "user", f"in {before}")
            db.rotate_session(before, after, [{"role": "user", "content": f"summary {before}"}])
        db.create_session("lone", "cli")
        db.append_message("lone", "user", "still here")
    plain = sqlite3.connect(db_path)
    plain.execute("DELETE FROM sessions WHERE id IN ('b', 'lone')")  # messages are left
    plain.execute("DELETE FROM messages WHERE session_id = 'd'")
    plain.execute("DELETE FROM sessions WHERE id = 'd'")
    plain.commit()
    plain.close()
    report = salvaging.salvage(db_path)
    assert report.damaged_tables == []
    with SessionDB(db_path) as db:
        assert db.get_compression_lineage("a") == ["a", "b", "c", "e"]
        assert {db.get_conversation_root(one) for one in "abce"} == {"a"}
        assert db.get_messages("b")[-1]["content"] == "in b"
        rows = {row["id"]: row for row in db.list_sessions_rich(include_children=True)}
        assert (rows["b"]["source"], rows["b"]["end_reason"]) == ("salvaged", "compression")
        assert (rows["lone"]["source"], rows["lone"]["ended_at"]) == ("salvaged", None)
        assert {row["id"] for row in db.list_sessions_rich()} == {"e", "lone"}
        check_sound(db)


def test_what_others_added_to_the_file_is_kept(db_path: Path) -> None:
    fill(db_path, sessions=1, each=3)
    plain = sqlite3.connect(db_path)
    plain.executescript(
        "CREATE TABLE topics (chat TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;"
        "INSERT INTO topics VALUES ('x', 1), ('y', 2);"
        'CREATE TABLE "odd name" (note TEXT); INSERT INTO "odd name" VALUES (\'kept\');'
        "ALTER TABLE messages ADD COLUMN mood TEXT; UPDATE messages SET mood = 'good';"
    )
    plain.close()
    salvaging.salvage(db_path)
    plain = sqlite3.connect(db_path)
    assert plain.execute("SELECT * FROM topics").fetchall() == [("x", 1), ("y", 2)]
    assert plain.execute('SELECT * FROM "odd name"').fetchall() == [("kept",)]
    assert plain.execute("SELECT DISTINCT mood FROM messages").fetchall() == [("good",)]
    plain.close()


def test_titles_that_clash_after_damage_cost_no_session(db_path: Path) -> None:
    fill(db_path, sessions=2, each=1)
    plain = sqlite3.connect(db_path)
    plain.executescript(
        "DROP INDEX idx_sessions_title_owner_unique; UPDATE sessions SET title = 'Same';"
    )
    plain.close()
    report = salvaging.salvage(db_path)
    assert report.rows["sessions"] == 2
    assert report.damaged_tables == ["sessions"]
    with SessionDB(db_path) as db:
        titles = {db.get_session_title("s0"), db.get_session_title("s1")}
        assert titles == {"Same", None}
        assert db.message_count() == 2


def test_the_search_index_is_told_that_this_is_another_store(db_path: Path) -> None:
    fill(db_path, sessions=1, each=3)
    with SessionDB(db_path) as db:
        before = db.get_meta("store_id")
        db.set_meta("other", "kept")
    salvaging.salvage(db_path)
    with SessionDB(db_path) as db:
        assert db.get_meta("store_id") not in (None, before)
        assert db.get_meta("other") == "kept"
