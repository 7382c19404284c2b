"""Files of older versions: upgraded in place, with nothing lost, or refused untouched."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_state import NewerStoreError, SessionDB, migrations
from hermes_state import salvage as salvaging
from hermes_state.schema import OWN_SCHEMA_VERSION

from . import old_store
from .children import Child, in_child

pytestmark = pytest.mark.sqlite


Contents = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def old(db_path: Path) -> Path:
    old_store.build(db_path)
    return db_path


def backups(path: Path) -> list[Path]:
    return sorted((path.parent / "backups").glob("*"))


def without_store_id(found: Contents) -> Contents:
    """`contents` without the two rows that an upgrade adds to a known table."""
    added = {"store_id", "model_calls_since"}
    rows = [row for row in found["state_meta"] if row[0] not in added]
    return {**found, "state_meta": rows}


def check_upgraded(db: SessionDB, before: Contents) -> None:
    assert without_store_id(old_store.contents(db.db_path)) == before
    assert db._database.read(lambda conn: conn.pragma("integrity_check")) == "ok"
    assert not db._database.read(lambda c: c.execute("PRAGMA foreign_key_check").fetchall())
    for parent, child in old_store.CONTINUATIONS.items():
        continuation = db.get_session(child)
        assert continuation and continuation["continuation_of"] == parent
    sessions = db.list_sessions_rich(limit=-1, include_children=True)
    continued = [one["continuation_of"] for one in sessions if one["continuation_of"]]
    assert sorted(continued) == sorted(old_store.CONTINUATIONS)
    found = {one["id"]: one["conversation_id"] for one in sessions}
    assert found.items() >= old_store.CONVERSATIONS.items()
    assert None not in found.values()


def test_nothing_is_lost_or_changed(old: Path) -> None:
    before = old_store.contents(old)
    with SessionDB(old) as db:
        check_upgraded(db, before)
        assert db.salvage_report is None
    assert without_store_id(old_store.contents(old)) == before


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_backup_is_made_first(db_path: Path, journal: str) -> None:
    old_store.build(db_path, journal=journal)
    before = old_store.contents(db_path)
    mask = os.umask(0)
    try:
        SessionDB(db_path).close()
    finally:
        os.umask(mask)
    (backup,) = backups(db_path)
    assert old_store.contents(backup) == before
    plain = sqlite3.connect(backup)
    assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = plain.execute("SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'archived'")
    assert len(found.fetchall()) == 1
    plain.close()
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700


def test_opening_again_makes_no_further_backup(old: Path) -> None:
    for _ in range(3):
        SessionDB(old).close()
    assert len(backups(old)) == 1


def test_a_new_store_has_no_backup(db_path: Path) -> None:
    SessionDB(db_path).close()
    assert not backups(db_path)


def test_an_old_conversation_goes_on(old: Path) -> None:
    with SessionDB(old) as db:
        assert db.get_compression_tip("c1") == "c3"
        assert db.get_compression_lineage("c3") == ["c1", "c2", "c3"]
        assert db.get_conversation_root("d1") == "c1"
        assert db.resolve_resume_session_id("f1") == "f-open"
        version = db.get_session("c3")
        db.append_message("c3", "user", "still there?")
        after = db.get_session("c3")
        assert version and after and after["version"] > version["version"]
        assert after["message_count"] == 3
        rotated = db.rotate_session("c3", "c4", [{"role": "user", "content": "summary"}])
        assert (rotated.session_id, rotated.title) == ("c4", "Chain #4")
        assert db.get_meta("goal:c4") == "ship it"
        entries = db.load_gateway_routing_entries(scope="profile")
        assert json.loads(entries["k1"]) == {"session_id": "c4", "name": "Ada"}
        assert [
            m["content"] for m in db.get_messages_as_conversation("c4", include_ancestors=True)
        ][:2] == ["question in c1", "Grüße 你好"]


def test_messages_read_as_they_were_meant(old: Path) -> None:
    with SessionDB(old) as db:
        messages = db.get_messages("plain")
        assert [m["content"] for m in messages][2] == old_store.MULTIMODAL
        assert messages[3]["tool_calls"] == old_store.CALLS
        assert messages[3]["reasoning_details"] == [{"x": 1}]
        assert [m["content"] for m in db.get_messages("plain", include_inactive=True)][5:7] == [
            "taken back",
            "archived",
        ]
        assert db.has_platform_message_id("plain", "p9")
        plain = db.get_session("plain")
        assert plain and plain["last_active"] == 150.0


def test_lists_show_each_old_conversation_once(old: Path) -> None:
    with SessionDB(old) as db:
        shown = [row["id"] for row in db.list_sessions_rich(limit=-1)]
    assert sorted(shown) == [
        "b-of-c1", "b1", "c3", "dead-end", "empty", "f-ended", "f-open", "g-newer", "g-older",
        "h-newer", "h-tail", "plain",
    ]  # fmt: skip


def test_every_old_session_can_be_changed_and_deleted(old: Path) -> None:
    with SessionDB(old) as db:
        ids = [row["id"] for row in db.list_sessions_rich(limit=-1, include_children=True)]
        for one in ids:
            db.append_message(one, "user", "more")
            db.archive_and_compact(one, [{"role": "user", "content": "short"}])
        for one in ids:
            db.delete_session(one)
        assert (db.session_count(), db.message_count()) == (0, 0)


def test_scripts_that_read_the_tables_still_can(old: Path) -> None:
    with SessionDB(old) as db:
        db.append_message("c3", "user", "new one")

        def script() -> tuple[list[Any], list[Any]]:
            plain = sqlite3.connect(f"file:{old}?mode=ro", uri=True)
            rows = plain.execute(
                "SELECT s.title, m.role, m.content FROM sessions s JOIN messages m"
                " ON m.session_id = s.id WHERE s.id = 'c3' AND m.active = 1 ORDER BY m.id"
            )
            return plain.execute("SELECT * FROM schema_version").fetchall(), rows.fetchall()

        versions, rows = in_child(script)
        assert versions == [(22,)]
        assert rows[-1] == ("Chain #3", "user", "new one")


def test_the_old_search_tables_are_gone(old: Path) -> None:
    with SessionDB(old) as db:
        names = db._database.read(
            lambda conn: conn.execute(
                "SELECT name FROM sqlite_schema WHERE name LIKE 'messages_fts%'"
            ).fetchall()
        )
        assert names == []


def test_titles_that_an_older_version_gave_twice_get_a_number(db_path: Path) -> None:
    old_store.build(db_path, title_index=False)
    plain = sqlite3.connect(db_path)
    plain.execute("UPDATE sessions SET title = 'Twice' WHERE id IN ('g-older', 'g-newer', 'f1')")
    plain.commit()
    plain.close()
    with SessionDB(db_path) as db:
        assert db.get_session_title("g-newer") == "Twice"
        others = {db.get_session_title("g-older"), db.get_session_title("f1")}
        assert others == {"Twice #2", "Twice #3"}


def test_a_damaged_old_file_is_salvaged_with_its_conversations(old: Path) -> None:
    before = old_store.contents(old)
    salvaging.salvage(old)
    with SessionDB(old) as db:
        after = without_store_id(old_store.contents(old))
        assert after.keys() == before.keys()
        for table in before.keys() - {"sessions"}:  # whose messages are counted anew
            assert after[table] == before[table]
        assert len(after["sessions"]) == len(before["sessions"])
        for parent, child in old_store.CONTINUATIONS.items():
            assert db.get_compression_lineage(parent)[-1] == db.get_compression_tip(child)


# Crashes


def test_a_kill_at_any_statement_leaves_the_old_or_the_new(old: Path) -> None:
    before = old_store.contents(old)
    files = {path.name: path.read_bytes() for path in old.parent.iterdir()}
    upgrade = migrations._upgrade
    seen: set[int] = set()
    statement = -2
    while True:
        statement += 3

        def until_killed(limit: int = statement) -> None:
            left = limit

            def count(*_: object) -> bool:
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return True

            def traced(conn: Any) -> None:
                conn.set_exec_trace(count)  # counts the COMMIT too, and dies before it
                upgrade(conn)

            migrations._upgrade = traced
            SessionDB(old)

        kind, value = Child(until_killed).outcome()
        plain = sqlite3.connect(old)
        seen.add(plain.execute("PRAGMA user_version").fetchone()[0])
        plain.close()
        assert without_store_id(old_store.contents(old)) == before
        if kind == "returned":
            break
        assert (kind, value) == ("died", signal.SIGKILL)
        if statement % 9 == 0:
            with SessionDB(old) as db:
                check_upgraded(db, before)
            for path in (*backups(old), *old.parent.glob("state.db*")):
                path.unlink()
            for name, data in files.items():
                (old.parent / name).write_bytes(data)
    assert seen == {0, OWN_SCHEMA_VERSION}
    assert statement > 30
    with SessionDB(old) as db:
        check_upgraded(db, before)


def test_a_kill_during_the_backup_leaves_no_copy_that_looks_whole(old: Path) -> None:
    before = old_store.contents(old)

    def until_killed() -> None:
        pytest.MonkeyPatch().setattr(
            Path, "rename", lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        )
        SessionDB(old)

    assert Child(until_killed).outcome() == ("died", signal.SIGKILL)
    assert [path.suffix for path in backups(old)] == [".partial"]
    with SessionDB(old) as db:
        check_upgraded(db, before)


# Files of newer versions


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize(
    "statement",
    ["UPDATE schema_version SET version = 23", "PRAGMA user_version = 99"],
    ids=["known", "own"],
)
@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
def test_a_newer_file_is_refused_and_not_touched(
    db_path: Path, journal: str, statement: str, crashed: bool
) -> None:
    old_store.build(db_path, journal=journal)

    def make_newer() -> sqlite3.Connection:
        plain = sqlite3.connect(db_path)
        plain.execute(statement)
        plain.commit()
        return plain

    if crashed:

        def die() -> None:
            kept = make_newer()
            assert kept
            os.kill(os.getpid(), signal.SIGKILL)

        Child(die).outcome()
    else:
        make_newer().close()
    names = ("state.db", "state.db-wal")
    before = {name: (db_path.parent / name) for name in names}
    data = {name: path.read_bytes() for name, path in before.items() if path.exists()}
    assert ("state.db-wal" in data) == (crashed and journal == "wal")
    for _ in range(2):
        with pytest.raises(NewerStoreError, match="newer Hermes"):
            SessionDB(db_path)
    for name, content in data.items():
        assert (db_path.parent / name).read_bytes() == content
    assert not backups(db_path)


AGENT = os.environ.get("HERMES_AGENT_PYTHON")


@pytest.mark.skipif(
    not AGENT,
    reason="no interpreter with the old system; pip install hermes-agent==0.19.0 into a venv of"
    " its own and let HERMES_AGENT_PYTHON name its python",
)
def test_a_file_written_by_the_public_system_itself(db_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from hermes_state import SessionDB\n"
        "db = SessionDB(Path(sys.argv[1]))\n"
        "db.create_session('p', 'cli', model='m')\n"
        "db.append_message('p', 'user', [{'type': 'text', 'text': 'hi'}])\n"
        "db.append_message('p', 'assistant', 'hello', tool_calls=[{'id': 'x'}])\n"
        "db.update_token_counts('p', input_tokens=5, model='m', api_call_count=1)\n"
        "db.set_session_title('p', 'Old talk')\n"
        "db.end_session('p', 'compression')\n"
        "db.create_session('q', 'cli', parent_session_id='p')\n"
        "db.append_message('q', 'user', 'summary')\n"
        "db.set_meta('k', 'v')\n"
        "db.close()\n"
    )
    db_path.parent.mkdir()
    subprocess.run([str(AGENT), "-c", script, str(db_path)], check=True, timeout=120)
    before = old_store.contents(db_path)
    with SessionDB(db_path) as db:
        assert without_store_id(old_store.contents(db_path)).items() >= before.items()
        assert db.get_compression_tip("p") == "q"
        assert db.get_messages("p")[0]["content"] == [{"type": "text", "text": "hi"}]
        db.append_message("q", "user", "goes on")
        assert db.delete_conversation("q") == 2
    assert len(backups(db_path)) == 1


def test_a_column_that_was_renamed_keeps_what_it_counted(db_path: Path) -> None:
    with SessionDB(db_path) as db:
        db.begin_turn("s", {"role": "user", "content": "?"}, source="cli", facts={}, leased=True)
        db._execute_write(
            lambda conn: conn.execute("UPDATE turns SET attempts_without_progress = 2")
        )
    with closing(sqlite3.connect(db_path, isolation_level=None)) as plain:
        plain.execute("ALTER TABLE turns RENAME COLUMN attempts_without_progress TO fruitless")
        plain.execute("PRAGMA user_version = 7")
    with SessionDB(db_path) as db:
        turn = db.get_turn("s")
        assert turn is not None and turn["attempts_without_progress"] == 2
        assert "fruitless" not in turn
