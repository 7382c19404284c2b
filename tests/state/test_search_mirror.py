"""The mirror of a store on a server: what is committed is found, whenever and by whomever."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pytest

from hermes_state import SessionDB
from hermes_state.errors import StoreUnavailableError
from hermes_state.search import follow, server_rows
from hermes_state.search.check import missing_from_index
from hermes_state.search.source import MOST_BYTES
from hermes_state.server_connection import ServerConnection

from .. import postgres
from . import raw
from .children import Child, race
from .test_search_index import empty, garbage, half, scratched

pytestmark = pytest.mark.parametrize("database", ["postgres"], indirect=True)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_rows, "BATCH_ROWS", 10)
    monkeypatch.setattr(server_rows, "SESSIONS_PER_BATCH", 2)
    monkeypatch.setattr(server_rows, "CHANGES_PER_BATCH", 3)


def mirror_path(db: SessionDB) -> Path:
    return db.db_path.with_name("search-mirror.db")


def found(db: SessionDB, query: str, **options: Any) -> list[int]:
    return sorted(hit["id"] for hit in db.search_messages(query, limit=1000, **options))


def fill(db: SessionDB, count: int = 25, session_id: str = "s1") -> list[int]:
    db.create_session(session_id, "cli", user_id="ann")
    return [db.append_message(session_id, "user", f"apple number{n}") for n in range(count)]


class Transaction:
    """A transaction of somebody else, held open."""

    def __init__(self, db: SessionDB) -> None:
        assert db._database.is_server
        self._connection = ServerConnection(db._database.connect())
        self._connection.run_script("SET idle_in_transaction_session_timeout = 0; BEGIN")

    def execute(self, sql: str, values: Any = ()) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def append(self, session_id: str, content: str) -> int:
        ((message_id,),) = self.execute(
            "INSERT INTO messages (session_id, role, content, timestamp)"
            " VALUES (?, 'user', ?, 5) RETURNING id",
            (session_id, content),
        )
        return int(message_id)

    def end(self, how: str = "COMMIT") -> None:
        self._connection.run_script(how)
        self._connection.raw.close()


@contextlib.contextmanager
def mirror_of(db: SessionDB) -> Iterator[apsw.Connection]:
    """The mirror's file, for whoever means it harm."""
    connection = apsw.Connection(str(mirror_path(db)))
    yield connection
    connection.close()


# Commits that come late


def test_a_message_that_is_committed_late_is_found(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.create_session("s2", "cli")
    late = Transaction(db)
    low = late.append("s1", "a late apple")
    high = []
    for number in range(5):  # each search moves the cursor on, past the open transaction
        high.append(db.append_message("s2", "user", f"an apple in time {number}"))
        assert found(db, "apple") == high
        assert found(db, "late") == []
    assert low < high[0]
    late.end()
    assert found(db, "late") == [low]
    assert found(db, "apple") == [low, *high]
    assert found(db, "apple", until=6) == [low]
    assert missing_from_index(db.search_index) == []


def test_several_open_transactions_end_in_another_order(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    held = [Transaction(db) for _ in range(4)]
    ids = [one.append("s1", f"apple held{number}") for number, one in enumerate(held)]
    seen: list[int] = []
    for number in (2, 0, 3, 1):
        seen.append(db.append_message("s1", "user", "apple"))
        held[number].end("ROLLBACK" if number == 3 else "COMMIT")
        seen += [] if number == 3 else [ids[number]]
        assert found(db, "apple") == sorted(seen)
        assert found(db, f"held{number}") == ([] if number == 3 else [ids[number]])


def test_a_savepoint_belongs_to_its_transaction(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    late = Transaction(db)
    late.execute("SAVEPOINT one")
    kept = late.append("s1", "kept apple")
    late.execute("SAVEPOINT two")
    late.append("s1", "apple taken back")
    late.execute("ROLLBACK TO two")
    other = db.append_message("s1", "user", "apple")
    assert found(db, "apple") == [other]
    late.end()
    assert found(db, "apple") == [kept, other]


def test_what_changes_late_is_followed_too(db: SessionDB) -> None:
    hidden, *_, gone = ids = fill(db, 6)
    db.create_session("s2", "cli", user_id="bob")
    db.create_session("s3", "cli")
    assert found(db, "apple") == ids
    late = Transaction(db)
    late.execute("UPDATE messages SET active = 0 WHERE id = ?", (hidden,))
    late.execute("DELETE FROM messages WHERE id = ?", (gone,))
    late.execute("UPDATE sessions SET title = 'Orchard', user_id = 'eve' WHERE id = 's1'")
    for kind in ("session", "title"):
        late.execute("INSERT INTO search_changes (session_id, kind) VALUES ('s1', ?)", (kind,))
    other = db.append_message("s2", "user", "apple")
    assert found(db, "apple") == [*ids, other]
    assert found(db, "apple", user_id="ann") == ids
    assert found(db, "orchard") == []
    late.end()
    assert found(db, "apple") == [*ids[1:-1], other]
    assert found(db, "apple", user_id="ann") == []
    assert found(db, "apple", user_id="eve") == ids[1:-1]
    assert [hit["match"] for hit in db.search_messages("orchard")] == ["title"]
    assert found(db, "apple", include_inactive=True) == [*ids[:-1], other]


def test_an_old_transaction_keeps_nothing_from_being_settled(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "WIDE", 3)
    db.create_session("s1", "cli")
    open_one = Transaction(db)
    low = open_one.append("s1", "apple")
    ids = []
    for _ in range(6):
        ids.append(db.append_message("s1", "user", "apple"))
        assert found(db, "apple") == ids
    open_one.end("ROLLBACK")
    assert found(db, "apple") == ids and low not in ids
    with mirror_of(db) as mirror:
        ((snapshot,),) = mirror.execute("SELECT snapshot FROM mirrored").fetchall()
    assert server_rows.Snapshot(snapshot).width < 3


def test_processes_find_what_they_have_written(db: SessionDB, db_path: Path) -> None:
    """Each commits and searches at once, on one mirror, while a transaction is open."""
    db.create_session("s1", "cli")
    late = Transaction(db)
    low = late.append("s1", "apple late")

    def write_and_search(name: str) -> list[int]:
        mine: list[int] = []
        with SessionDB(db_path) as store:
            store.create_session(name, "cli")
            for number in range(12):
                mine.append(store.append_message(name, "user", f"apple {name}x{number}"))
                assert found(store, f"{name}x{number}") == mine[-1:]
                assert set(mine) <= set(found(store, "apple"))
        return mine

    results = race([lambda name=name: write_and_search(name) for name in ("p", "q", "r")])
    expected = sorted(one for mine in results for one in mine)
    assert found(db, "apple") == expected
    late.end()
    assert found(db, "apple") == [low, *expected]


# The file


def test_the_file_is_private(db: SessionDB) -> None:
    fill(db)
    old_mask = os.umask(0)
    try:
        assert len(found(db, "apple")) == 25
    finally:
        os.umask(old_mask)
    files = list(db.db_path.parent.glob("search*"))
    assert len(files) == 6
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.parametrize("ending", ["", "-wal", "*"])
def test_a_file_that_is_deleted_while_open_is_made_anew(db: SessionDB, ending: str) -> None:
    ids = fill(db)
    assert found(db, "apple") == ids
    for path in db.db_path.parent.glob(f"search-mirror.db{ending}"):
        path.unlink()
    assert found(db, "apple") == ids
    ids.append(db.append_message("s1", "user", "one more apple"))
    assert found(db, "apple") == ids


@pytest.mark.parametrize("damage", [garbage, half, empty, scratched])
def test_a_damaged_file_is_made_anew(
    db: SessionDB, db_path: Path, damage: Callable[[Path], None]
) -> None:
    ids = fill(db, 200)
    assert found(db, "apple") == ids
    db.search_index.close()
    db._close_search()
    damage(mirror_path(db))
    assert found(db, "apple") == ids
    ids.append(db.append_message("s1", "user", "one more apple"))
    assert found(db, "apple") == ids


def test_damage_that_the_search_itself_meets(db: SessionDB) -> None:
    ids = fill(db, 300)
    assert found(db, "apple") == ids
    with mirror_of(db) as mirror:
        mirror.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        root = mirror.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'")
        ((page,),) = root.fetchall()
    db._close_search()
    with mirror_path(db).open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(os.urandom(4096))
    assert found(db, "apple") == ids


@pytest.mark.usefixtures("small_batches")
def test_killed_while_copying_it_goes_on_where_it_was(db: SessionDB, db_path: Path) -> None:
    ids = fill(db, 35)
    for number in range(5):
        db.create_session(f"empty{number}", "cli")
        db.set_session_title(f"empty{number}", f"Basket {number}")

    def copy_and_die() -> None:
        with SessionDB(db_path) as store:
            store.search_index.catch_up(lambda done, _: os._exit(9) if done >= 10 else None)

    assert Child(copy_and_die).outcome()[0] == "died"
    with mirror_of(db) as mirror:
        ((count,),) = mirror.execute("SELECT count(*) FROM messages").fetchall()
        assert mirror.execute("SELECT * FROM state_meta").fetchall() == []
    assert 10 <= count < 35
    steps: list[tuple[int, int]] = []
    db.search_index.catch_up(lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps[-1] == (35, 35)
    assert found(db, "apple") == ids
    assert len(db.search_messages("basket")) == 5


@pytest.mark.usefixtures("small_batches")
def test_much_at_once_comes_in_batches(db: SessionDB) -> None:
    ids = fill(db, 3)
    assert found(db, "apple") == ids
    others = [one for name in ("a", "b", "c", "d") for one in fill(db, 12, name)]
    for name in ("a", "b", "c", "d"):
        db.set_session_title(name, f"Basket {name}")
    db.clear_messages("s1")
    db.delete_session("b")
    left = others[:12] + others[24:]
    assert found(db, "apple") == left
    assert len(db.search_messages("basket")) == 3
    db.rewind_to_message("c", others[30])
    assert found(db, "apple") == [one for one in left if one not in others[30:36]]
    assert missing_from_index(db.search_index) == []


@pytest.mark.usefixtures("small_batches")
def test_processes_that_copy_at_once(db: SessionDB, db_path: Path) -> None:
    ids = fill(db, 120)

    def search() -> list[int]:
        with SessionDB(db_path) as store:
            return found(store, "apple")

    assert race([search] * 3) == [ids] * 3


def test_a_search_while_another_process_rebuilds(db: SessionDB, db_path: Path) -> None:
    ids = fill(db, 60)
    assert found(db, "apple") == ids

    def rebuild() -> None:
        with SessionDB(db_path) as store:
            for _ in range(3):
                store.rebuild_fts()

    def search() -> int:
        with SessionDB(db_path) as store:
            for _ in range(15):
                found(store, "apple")  # may see the copy half made, but must not fail
            return len(found(store, "apple"))

    race([rebuild, search])
    assert found(db, "apple") == ids


def test_of_a_huge_message_the_beginning_is_kept(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    text = "early " + "é" * (MOST_BYTES // 2) + " late"
    number = db.append_message("s1", "user", text)
    assert found(db, "early") == [number]
    assert found(db, "late") == []
    with mirror_of(db) as mirror:
        ((size,),) = mirror.execute("SELECT octet_length(content) FROM messages").fetchall()
    assert MOST_BYTES - 4 <= size <= MOST_BYTES


def test_a_closed_store_searches_no_more(db: SessionDB) -> None:
    fill(db)
    index = db.search_index
    assert len(index.search_messages("apple", limit=100)) == 25
    db.close()
    with pytest.raises(StoreUnavailableError):
        index.search_messages("apple")


# What the mirror lacks


def test_what_the_mirror_lacks_is_noticed(db: SessionDB) -> None:
    ids = fill(db)
    assert missing_from_index(db.search_index) == []
    with mirror_of(db) as mirror:
        mirror.execute("DELETE FROM messages WHERE id = ?", (ids[3],))
    assert missing_from_index(db.search_index) == [ids[3]]
    db.rebuild_fts()
    assert missing_from_index(db.search_index) == []
    assert found(db, "apple") == ids


def test_what_is_deleted_by_hand_is_not_found(db: SessionDB) -> None:
    ids = fill(db)
    assert found(db, "apple") == ids
    by_hand = Transaction(db)
    by_hand.execute("DELETE FROM messages WHERE id < ?", (ids[10],))
    by_hand.end()
    assert found(db, "apple") == ids[10:]


def test_nobody_is_shown_the_numbers_of_transactions(db: SessionDB) -> None:
    ids = fill(db, 3)
    shown: list[Any] = [
        db.get_session("s1"),
        *db.get_messages("s1"),
        *db.list_sessions_rich(),
        *db.search_sessions(),
        db.export_session("s1"),
        *db.export_all(),
        *db.get_messages_around("s1", ids[1])["window"],
    ]
    assert "'tx'" not in repr(shown)


# Another past


def test_another_database_in_the_same_place(db: SessionDB, db_path: Path, tmp_path: Path) -> None:
    fill(db)
    assert len(found(db, "apple")) == 25
    db.close()
    with SessionDB(tmp_path / "other" / "state.db") as other:
        address = raw.address(other)
    with SessionDB(db_path, server=address) as store:
        store.create_session("s1", "cli")
        pears = [store.append_message("s1", "user", "pear") for _ in range(40)]
        assert found(store, "pear") == pears
        assert found(store, "apple") == []


def test_a_restored_copy(db: SessionDB, db_path: Path) -> None:
    """The same store as it was some time ago; its numbers go on from there, and are others."""
    fill(db, 10)
    assert len(found(db, "apple")) == 10
    name = urlsplit(raw.address(db)).path.lstrip("/")
    db.close()
    postgres.disconnect(name)
    postgres.connect().execute(f"CREATE DATABASE {name}_kept TEMPLATE {name}")
    with SessionDB(db_path) as store:
        for _ in range(10):
            store.append_message("s1", "user", "lost")
        assert len(found(store, "lost")) == 10
    postgres.connect().execute(f"DROP DATABASE {name} WITH (FORCE)")
    postgres.connect().execute(f"ALTER DATABASE {name}_kept RENAME TO {name}")
    with SessionDB(db_path) as store:
        new = [store.append_message("s1", "user", "kept") for _ in range(20)]
        assert found(store, "kept") == new
        assert found(store, "lost") == []
        assert len(found(store, "apple")) == 10


@pytest.mark.parametrize(
    "sign",
    [
        "UPDATE mirrored SET snapshot = '900000000000:900000000000:'",
        "UPDATE mirrored SET past = past || '0'",
        "UPDATE messages SET timestamp = 1",
        "DELETE FROM mirrored",
        "PRAGMA user_version = 99",
    ],
)
def test_signs_of_another_past(db: SessionDB, sign: str) -> None:
    ids = fill(db)
    assert found(db, "apple") == ids
    with mirror_of(db) as mirror:
        mirror.execute("DELETE FROM messages WHERE id < ?", (ids[5],))
        mirror.execute(sign)
    assert found(db, "apple") == ids


def test_rows_with_numbers_of_another_server(db: SessionDB) -> None:
    """A dump brings the numbers of the server it is from, which may be far ahead."""
    ids = fill(db)
    restored = Transaction(db)
    restored.execute("ALTER TABLE messages DISABLE TRIGGER hermes_tx")
    restored.execute("UPDATE messages SET tx = '900000000000'")
    restored.execute("ALTER TABLE messages ENABLE TRIGGER hermes_tx")
    restored.end()
    assert found(db, "apple") == ids
    seen = server_rows.Snapshot(_snapshot(db))
    head = db._database.read(lambda conn: server_rows.read_head(conn, seen))
    assert not head.news  # and not read again with each search
    ids.append(db.append_message("s1", "user", "apple"))
    assert found(db, "apple") == ids
    assert missing_from_index(db.search_index) == []


def _snapshot(db: SessionDB) -> str:
    with mirror_of(db) as mirror:
        ((snapshot,),) = mirror.execute("SELECT snapshot FROM mirrored").fetchall()
    return str(snapshot)


def test_a_server_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    with postgres.own_server() as server:
        with contextlib.closing(_connect_to(server)) as connection:
            connection.execute("CREATE DATABASE hermes TEMPLATE template0")
        path = tmp_path / "state.db"
        db = SessionDB(path, server=server.url("hermes"), busy_timeout=0.5)
        ids = fill(db, 5)
        assert found(db, "apple") == ids
        server.kill()
        with pytest.raises(StoreUnavailableError):
            db.search_messages("apple")
        server.start()
        assert found(db, "apple") == ids
        db.close()


def test_a_fail_over_that_lost_commits(tmp_path: Path) -> None:
    """Another server goes on from some time ago, with the same ids and transactions' numbers."""
    with postgres.own_server() as server:
        with contextlib.closing(_connect_to(server)) as connection:
            connection.execute("CREATE DATABASE hermes TEMPLATE template0")
        path, address = tmp_path / "state.db", server.url("hermes")
        with SessionDB(path, server=address) as db:
            ids = fill(db, 10)
        standby = server.folder / "standby"
        server.kill()
        subprocess.run(["cp", "-a", server.data, standby], check=True)
        server.start()
        with SessionDB(path, server=address) as db:
            lost = [db.append_message("s1", "user", "lost") for _ in range(5)]
            assert found(db, "lost") == lost
        server.kill()
        shutil.rmtree(server.data)
        standby.rename(server.data)
        (server.data / "standby.signal").touch()
        server.start()
        with contextlib.closing(_connect_to(server)) as connection:
            connection.execute("SELECT pg_promote()")
        with SessionDB(path, server=address) as db:
            new = [db.append_message("s1", "user", "kept") for _ in range(20)]
            assert set(lost) & set(new)
            assert found(db, "kept") == new
            assert found(db, "lost") == []
            assert found(db, "apple") == ids


def _connect_to(server: postgres.Server) -> Any:
    import psycopg

    return psycopg.connect(server.url("postgres"), autocommit=True)
