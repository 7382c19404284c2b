"""Moving a store from a file to a server and back: every row of every table, also after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state import (
    SessionDB,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    move,
    schema,
)
from hermes_state.move import move_store, tables

from .. import postgres, seeds

pytestmark = pytest.mark.both_databases


def silent(what: str, done: int, total: int) -> None:
    """Nobody watches."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    yield postgres.database_for(tmp_path / "server", str(tmp_path))
    postgres.give_back(str(tmp_path))


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move, "BATCH", 2)


def dump(db: SessionDB) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table that is moved, with its hidden number where that matters."""

    def read(conn: Any) -> dict[str, list[tuple[Any, ...]]]:
        return {
            table: sorted(
                conn.execute(
                    f"SELECT {', '.join(move._columns(table))} FROM {table}"
                    + (f" WHERE {move._filter(table)}" if move._filter(table) else "")
                ).fetchall(),
                key=repr,
            )
            for table in tables()
        }

    return db._database.read(read)


def stored(path: Path, address: str | None = None) -> dict[str, list[tuple[Any, ...]]]:
    with SessionDB(path, server=address) as db:
        return dump(db)


# What is drawn

texts = st.text(
    st.one_of(
        st.sampled_from("\0\ue00001ab'\"?$%\\ \n"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=6,
)
cells = {
    "TEXT": texts | st.just('\0json:"\\ud800"') | st.just("\ue0000"),
    "INTEGER": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "REAL": st.floats(allow_nan=False) | st.just(-0.0),
}
UNIQUE = {"sessions": ("title", "continuation_of"), "web_devices": ("key_hash",)}
OWN = {"sessions": "id", "messages": "id", "search_changes": "seq"}


@st.composite
def filled(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Rows for every table, whatever their columns take."""
    found: dict[str, list[dict[str, Any]]] = {}
    for table in tables():
        keys = {*move._KEYS[table], *UNIQUE.get(table, ()), OWN.get(table, "")} - {"rowid"}
        if table in move._NUMBERED_ROWS:
            keys.add(next(iter(schema.TABLES[table][0])))
        count = draw(st.integers(0, 3))
        if table in move._DEPENDENT and not found["sessions"]:
            count = 0
        rows = []
        for number in range(count):
            row: dict[str, Any] = {}
            for name, kind in schema.TABLES[table][0].items():
                type_, _, rest = kind.partition(" ")
                if "NOT NULL" not in rest and name not in keys and draw(st.booleans()):
                    row[name] = None
                elif name in keys and type_ == "INTEGER":
                    row[name] = number + 1 + draw(st.integers(0, 5)) * 10
                elif name in keys:
                    row[name] = f"{draw(texts)}~{number}"
                else:
                    row[name] = draw(cells[type_])
            if table in move._DEPENDENT:
                row["session_id"] = draw(st.sampled_from(found["sessions"]))["id"]
            if table == "sessions":
                above = draw(st.sampled_from([None, *(one["id"] for one in rows)]))
                row["parent_session_id"] = above
            rows.append(row)
        found[table] = rows
    return found


def put(path: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    def write(conn: Any) -> None:
        for table, of_table in rows.items():
            for row in of_table:
                places = ", ".join("?" * len(row))
                conn.execute(
                    f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", tuple(row.values())
                )

    with SessionDB(path) as db:
        db._execute_write(write)


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=seeds.examples(8))
@given(rows=filled())
def test_everything_is_the_same_there_and_back(
    rows: dict[str, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("moved")
    put(folder / "state.db", rows)
    address = postgres.database_for(folder / "server", str(folder))
    try:
        before = stored(folder / "state.db")
        report = move_store(folder / "state.db", address, silent)
        assert report.rows == {table: len(of_table) for table, of_table in before.items()}
        assert repr(stored(folder / "x.db", address)) == repr(before)
        move_store(address, folder / "back.db", silent)
        of_files = before | {table: [] for table in move._OF_SERVERS}
        assert repr(stored(folder / "back.db")) == repr(of_files)
        assert repr(stored(folder / "state.db")) == repr(before), "the source was changed"
    finally:
        postgres.give_back(str(folder))


def lived_in(path: Path, messages: int = 9) -> None:
    """A store in which something happened, all through its own functions."""
    with SessionDB(path) as db:
        db.create_session("zz", "cli", user_id="me")
        for number in range(messages):
            db.append_message("zz", "user", f"message {number}\0 with \ue000")
        db.append_message("zz", "user", "half of a pair: \ud800")
        db.append_message("zz", "user", [{"type": "text", "text": "a part"}])
        db.rotate_session("zz", "aa", [{"role": "user", "content": "a summary"}])
        db.append_message("aa", "user", "gone soon")
        db.set_session_title("aa", "A title")
        db.create_session("late", "cli", parent_session_id="zz")
        db.append_message("late", "user", "the newest, and deleted: its number is not used again")
        db.delete_session("late")
        db.set_meta("a key", "a value")


def test_counters_go_on_and_what_is_odd_is_counted(tmp_path: Path, server: str) -> None:
    path = tmp_path / "state.db"
    lived_in(path)
    report = move_store(path, server, silent)
    assert report.texts_with_half_pairs == 1
    assert report.texts_with_nul == 11  # nine, and two that are kept as JSON
    with SessionDB(path) as db:
        wanted = db.append_message("aa", "user", "next")
    move_store(server, tmp_path / "back.db", silent)
    with SessionDB(tmp_path / "x.db", server=server) as db:
        assert db.append_message("aa", "user", "next") == wanted
        assert db.check_store() == []
    with SessionDB(tmp_path / "back.db") as db:
        assert db.append_message("aa", "user", "next") == wanted
        assert db.check_store() == []
        said = db.get_messages("zz", include_inactive=True)
        assert said[9]["content"] == "half of a pair: \ud800"


def test_rows_that_are_read_in_their_order_stay_in_it(tmp_path: Path, server: str) -> None:
    path = tmp_path / "state.db"

    def in_order(db: SessionDB) -> list[str]:
        return [message["id"] for message in db.list_waiting()]

    with SessionDB(path) as db:
        db.create_session("s1", "cli")
        for name in ("c", "a", "b"):
            db.accept_message(name, "s1", name, source="telegram")
        db._execute_write(lambda conn: conn.execute("UPDATE inbox SET received_at = 1"))
        assert in_order(db) == ["c", "a", "b"]
    move_store(path, server, silent)
    with SessionDB(tmp_path / "x.db", server=server) as db:
        assert in_order(db) == ["c", "a", "b"]
        db.accept_message("0", "s1", "later", source="telegram")
        db._execute_write(lambda conn: conn.execute("UPDATE inbox SET received_at = 1"))
        assert in_order(db) == ["c", "a", "b", "0"]
    move_store(server, tmp_path / "back.db", silent)
    with SessionDB(tmp_path / "back.db") as db:
        assert in_order(db) == ["c", "a", "b", "0"]


def test_a_store_moves_from_one_server_to_another(tmp_path: Path, server: str) -> None:
    other = postgres.database_for(tmp_path / "other", str(tmp_path))
    lived_in(tmp_path / "state.db")
    move_store(tmp_path / "state.db", server, silent)
    move_store(server, other, silent)
    assert stored(tmp_path / "x.db", other) == stored(tmp_path / "state.db")


KILL = """
import os, signal, sys
from pathlib import Path
from hermes_state import move
move.BATCH = 2
source, target, what, at = sys.argv[1:]
def show(doing, done, total):
    if doing == what and done >= int(at):
        os.kill(os.getpid(), signal.SIGKILL)
ends = [one if "://" in one else Path(one) for one in (source, target)]
move.move_store(*ends, show)
"""


def kill_in_the_middle(source: object, target: object, what: str, at: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILL, str(source), str(target), what, str(at)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize(("what", "at"), [("Copying", 1), ("Copying", 8), ("Comparing", 5)])
@pytest.mark.usefixtures("small_batches")
def test_a_move_that_was_killed_goes_on(tmp_path: Path, server: str, what: str, at: int) -> None:
    path = tmp_path / "state.db"
    lived_in(path)
    before = stored(path)
    kill_in_the_middle(path, server, what, at)
    with pytest.raises(StoreUnavailableError, match="was begun and is not finished"):
        SessionDB(tmp_path / "x.db", server=server)
    report = move_store(path, server, silent)
    assert report.resumed >= min(at, 2)
    assert stored(tmp_path / "x.db", server) == before
    # And back, killed at the same place.
    back = tmp_path / "back.db"
    kill_in_the_middle(server, back, what, at)
    assert not back.exists()
    assert move_store(server, back, silent).resumed >= min(at, 2)
    assert stored(back) == before


@pytest.mark.usefixtures("small_batches")
def test_a_store_that_was_used_between_two_attempts_is_copied_as_it_is_now(
    tmp_path: Path, server: str
) -> None:
    path = tmp_path / "state.db"
    lived_in(path)
    kill_in_the_middle(path, server, "Comparing", 1)
    with SessionDB(path) as db:
        db.append_message("aa", "user", "said in between")
        db.set_session_title("aa", "Another title")
        db.clear_messages("zz")
    move_store(path, server, silent)
    assert stored(tmp_path / "x.db", server) == stored(path)


def test_a_target_with_anything_in_it_is_refused(tmp_path: Path, server: str) -> None:
    path = tmp_path / "state.db"
    lived_in(path)
    with SessionDB(tmp_path / "x.db", server=server) as db:
        db.create_session("other", "cli")
        before = dump(db)
    with pytest.raises(StoreUnavailableError, match=r"is not empty: there are rows in sessions"):
        move_store(path, server, silent)
    assert stored(tmp_path / "x.db", server) == before
    there = tmp_path / "there.db"
    lived_in(there)
    with pytest.raises(StoreUnavailableError, match="is there already"):
        move_store(server, there, silent)


def test_a_move_of_another_store_does_not_go_on_with_this_one(tmp_path: Path, server: str) -> None:
    lived_in(tmp_path / "one.db")
    lived_in(tmp_path / "two.db")
    kill_in_the_middle(tmp_path / "one.db", server, "Copying", 5)
    with pytest.raises(StoreUnavailableError, match="of another store"):
        move_store(tmp_path / "two.db", server, silent)
    move_store(tmp_path / "one.db", server, silent)


def test_a_server_that_others_use_is_refused(tmp_path: Path, server: str) -> None:
    path = tmp_path / "state.db"
    lived_in(path)
    with SessionDB(tmp_path / "x.db", server=server) as db:
        db.session_count()
        with pytest.raises(StoreBusyError, match="Hermes has 1 other connections"):
            move_store(path, server, silent)
    move_store(path, server, silent)
    with SessionDB(tmp_path / "x.db", server=server) as db:
        db.session_count()
        with pytest.raises(StoreBusyError, match="End every Hermes"):
            move_store(server, tmp_path / "back.db", silent)


def test_nobody_writes_to_the_source_meanwhile(tmp_path: Path, server: str) -> None:
    path = tmp_path / "state.db"
    lived_in(path)
    tried: list[str] = []

    def write_elsewhere(what: str, done: int, total: int) -> None:
        if not tried:
            with SessionDB(path, busy_timeout=0.05) as db, pytest.raises(StoreBusyError):
                db.append_message("aa", "user", "meanwhile")
            tried.append("a file")

    move_store(path, server, write_elsewhere)

    def write_there(what: str, done: int, total: int) -> None:
        if len(tried) == 1:
            with (
                SessionDB(tmp_path / "x.db", server=server, busy_timeout=0.05) as db,
                pytest.raises(StoreBusyError),
            ):
                db.append_message("aa", "user", "meanwhile")
            tried.append("a server")

    move_store(server, tmp_path / "back.db", write_there)
    assert tried == ["a file", "a server"]


def test_what_a_server_cannot_hold_is_named(tmp_path: Path, server: str) -> None:
    path = tmp_path / "state.db"
    lived_in(path)

    def break_(conn: Any) -> None:
        conn.execute("UPDATE messages SET token_count = 'many' WHERE id = 1").fetchall()

    with SessionDB(path) as db:
        db._execute_write(break_)
    with pytest.raises(StoreError, match=r"Rows of messages could not be copied.*hermes doctor"):
        move_store(path, server, silent)
    with SessionDB(path) as db:
        db._execute_write(
            lambda conn: conn.execute("UPDATE messages SET token_count = 1, content = x'00'")
        )
    with pytest.raises(StoreError, match="messages holds bytes where text belongs"):
        move_store(path, server, silent)


def test_strangers_tables_are_told_and_left_behind(tmp_path: Path, server: str) -> None:
    path = tmp_path / "state.db"
    lived_in(path)
    with SessionDB(path) as db:
        db._execute_write(lambda conn: conn.execute("CREATE TABLE mine (a)"))
        db._execute_write(lambda conn: conn.execute("ALTER TABLE sessions ADD COLUMN extra TEXT"))
    report = move_store(path, server, silent)
    assert report.left_behind == ["table mine", "column sessions.extra"]


def test_every_table_is_moved_and_has_its_key() -> None:
    assert {*tables(), "schema_version", *move._OBJECTS} == set(schema.TABLES)
    assert set(move._KEYS) == set(tables())
    from hermes_state.server_schema import MOVING_KEY as MARK
    from hermes_state.server_schema import NUMBERED_ROWS, READER_KEY, SCHEMA_KEY

    assert set(move._NUMBERED_ROWS) == NUMBERED_ROWS
    assert {SCHEMA_KEY, READER_KEY, MARK} <= set(move._NOT_MOVED)


def test_a_parent_that_is_not_there_is_told_before_anything_is_copied(
    tmp_path: Path, server: str
) -> None:
    path = tmp_path / "state.db"
    lived_in(path)
    import apsw

    connection = apsw.Connection(str(path))  # without our settings: keys are not enforced
    connection.execute("UPDATE sessions SET parent_session_id = 'nobody' WHERE id = 'aa'")
    connection.close()
    with pytest.raises(StoreError, match=r"1 sessions of .* name a parent that is not there"):
        move_store(path, server, silent)


def test_a_server_that_pauses_in_the_middle_of_a_move(tmp_path: Path) -> None:
    source = tmp_path / "from" / "state.db"
    with SessionDB(source) as db:
        for number in range(10):
            db.create_session(f"s{number}", "cli")
            db.append_messages(f"s{number}", [{"role": "user", "content": "x"}] * 100)
        before = list(db.export_all())
    with postgres.own_server() as running:
        running.create("target")
        pauses: list[threading.Timer] = []

        def pause(*_: object) -> None:
            if len(pauses) < 3:
                pauses.append(threading.Timer(0.3, running.signal_all, (signal.SIGCONT,)))
                running.signal_all(signal.SIGSTOP)
                pauses[-1].start()

        report = move_store(source, running.url("target"), pause)
        assert report.rows["messages"] == 1000 and len(pauses) == 3
        for timer in pauses:
            timer.join()
        with SessionDB(tmp_path / "to" / "state.db", server=running.url("target")) as db:
            assert list(db.export_all()) == before
