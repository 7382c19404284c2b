"""The index file: fed, followed, deleted, damaged, replaced, shared."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes_state.errors import (
    StoreClosedError,
    StoreCorruptedError,
    StoreUnavailableError,
)
from hermes_state.search import batch as search_batch
from hermes_state.search import feed as search_feed
from hermes_state.search.engine import SearchIndex
from hermes_state.search.index import FORMAT

from .children import Child, race
from .search_store import SearchStore


@pytest.fixture
def store(tmp_path: Path, database: str) -> Iterator[SearchStore]:
    store = SearchStore(tmp_path, database)
    yield store
    store.close()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_batch, "BATCH_ROWS", 10)
    monkeypatch.setattr(search_feed, "BATCH_ROWS", 10)
    monkeypatch.setattr(search_feed, "CHANGES_PER_BATCH", 3)


def fill(store: SearchStore, count: int = 25) -> list[int]:
    store.session("s1", title="Fruit")
    return [store.message("s1", f"apple number{n}") for n in range(count)]


def test_a_search_is_never_stale(store: SearchStore) -> None:
    store.session("s1")
    for n in range(5):
        number = store.message("s1", f"word{n}")
        assert store.ids(f"word{n}") == [number]


def test_catching_up_reads_each_message_once(store: SearchStore) -> None:
    assert store.index.catch_up() == 0
    fill(store)
    assert store.index.catch_up() == 25
    assert store.index.catch_up() == 0
    store.message("s1", "pear")
    assert store.index.catch_up() == 1


@pytest.mark.sqlite
@pytest.mark.usefixtures("small_batches")
def test_progress_rises_to_the_total(store: SearchStore) -> None:
    fill(store)
    seen: list[tuple[int, int]] = []
    assert store.index.catch_up(lambda done, total: seen.append((done, total))) == 25
    assert seen == [(10, 25), (20, 25), (25, 25)]
    seen.clear()
    assert store.index.rebuild(lambda done, total: seen.append((done, total))) == 25
    assert seen[-1] == (25, 25)
    assert len(store.found("apple")) == 25


@pytest.mark.sqlite
def test_batches_are_bounded_by_bytes(store: SearchStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_batch, "BATCH_BYTES", 1000)
    store.session("s1")
    for _ in range(6):
        store.message("s1", "apple " * 100)
    steps: list[int] = []
    store.index.catch_up(lambda done, _: steps.append(done))
    assert steps == [2, 4, 6]


@pytest.mark.sqlite
@pytest.mark.usefixtures("small_batches")
def test_killed_while_feeding_it_goes_on_where_it_was(store: SearchStore) -> None:
    numbers = fill(store)
    store.close()

    def feed_and_die() -> None:
        index = SearchIndex(store.state_path, store.search_path)
        index.catch_up(lambda done, _: os._exit(9) if done >= 20 else None)

    assert Child(feed_and_die).outcome()[0] == "died"
    index = SearchIndex(store.state_path, store.search_path)
    assert index.catch_up() == 5
    assert {hit["id"] for hit in index.search_messages("apple", limit=100)} == set(numbers)
    index.close()


def test_the_file_is_private(store: SearchStore) -> None:
    fill(store)
    old_mask = os.umask(0)
    try:
        store.index.catch_up()
    finally:
        os.umask(old_mask)
    for path in store.search_path.parent.glob("search.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.sqlite
def test_the_store_is_never_written(store: SearchStore) -> None:
    fill(store)
    before = store.db.pragma("data_version")
    store.index.search_messages("apple")
    store.index.rebuild()
    store.index.optimize()
    assert store.db.pragma("data_version") == before


def test_a_deleted_file_is_rebuilt(store: SearchStore) -> None:
    fill(store)
    assert len(store.found("apple")) == 25
    store.search_path.unlink()  # while it is open
    assert len(store.found("apple")) == 25
    store.index.close()
    for path in store.search_path.parent.glob("search.db*"):
        path.unlink()
    store.index = store.open_index()
    assert len(store.found("apple")) == 25
    assert store.found("fruit", "title")


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 11)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def scratched(path: Path) -> None:
    with path.open("r+b") as file:
        for page in range(2, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(os.urandom(600))


def without_tables(path: Path) -> None:
    conn = apsw.Connection(str(path))
    for name in ("doc_0", "word"):
        conn.execute(f"DROP TABLE {name}")
    conn.close()


def other_format(path: Path) -> None:
    conn = apsw.Connection(str(path))
    conn.execute(f"PRAGMA user_version = {FORMAT + 1}")
    conn.close()


@pytest.mark.parametrize("damage", [garbage, half, empty, scratched, without_tables, other_format])
def test_a_damaged_file_is_rebuilt(
    store: SearchStore, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    fill(store, 400)
    store.index.catch_up()
    store.index.close()
    damage(store.search_path)
    store.index = store.open_index()
    with caplog.at_level(logging.INFO):
        assert len(store.found("apple")) == 400
    assert "damaged" in caplog.text or "from nothing" in caplog.text
    assert store.index.catch_up() == 0


@pytest.mark.sqlite
def test_damage_to_the_store_itself_is_reported_as_such(store: SearchStore) -> None:
    fill(store, 2000)
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    root = store.db.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'messages'"
    ).fetchall()[0][0]
    store.close()
    with store.state_path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(os.urandom(4096))
    index = SearchIndex(store.state_path, store.search_path)
    with pytest.raises(StoreCorruptedError, match=r"state\.db"):
        index.search_messages("apple")
    index.close()


@pytest.mark.sqlite
def test_another_store_in_the_same_place(store: SearchStore, tmp_path: Path) -> None:
    fill(store)
    assert store.found("apple")
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = SearchStore(other_folder, store_id="store-2")
    other.session("s1")
    pears = {other.message("s1", "pear") for _ in range(40)}
    other.close()
    store.db.close()
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    other.state_path.rename(store.state_path)  # while the index is open
    assert store.found("pear") == pears
    assert store.found("apple") == set()


@pytest.mark.sqlite
def test_a_restored_backup(store: SearchStore) -> None:
    fill(store, 10)
    store.db.execute("VACUUM INTO ?", (str(store.state_path) + ".backup",))
    for _ in range(10):
        store.message("s1", "lost")
    assert len(store.found("lost")) == 10
    store.close()
    for path in store.state_path.parent.glob("state.db-*"):
        path.unlink()
    Path(f"{store.state_path}.backup").replace(store.state_path)
    store.db = apsw.Connection(str(store.state_path))
    store.index = store.open_index()
    store.clock += 1000
    kept = {store.message("s1", "kept") for _ in range(20)}
    assert store.found("kept") == kept
    assert store.found("lost") == set()
    assert len(store.found("apple")) == 10


@pytest.mark.usefixtures("small_batches")
def test_changes_are_followed(store: SearchStore) -> None:
    first, *_ = fill(store)
    store.session("s2", user_id="ann", title="Nuts")
    gone = store.message("s2", "walnut")
    assert store.found("walnut") == {gone}
    store.db.execute("UPDATE messages SET content = 'cherry' WHERE id = ?", (first,))
    store.changed("s1")
    assert store.found("cherry") == {first}
    assert first not in store.found("apple")
    assert len(store.found("apple")) == 24
    for n in range(10):  # more changes than one batch takes
        store.changed(f"s{n % 3}", "title")
    store.db.execute("DELETE FROM messages WHERE session_id = 's2'")
    store.db.execute("DELETE FROM sessions WHERE id = 's2'")
    assert store.found("walnut") == set()  # at once, even before the index hears of it
    store.changed("s2")
    store.index.catch_up()
    index = apsw.Connection(str(store.search_path))
    words = "SELECT count(*) FROM doc_0 WHERE doc_0 MATCH 'walnut'"
    assert index.execute(words).fetchall() == [(0,)]
    assert index.execute("SELECT session_id FROM title").fetchall() == [("s1",)]
    index.close()


def test_a_copy_that_becomes_the_original(store: SearchStore) -> None:
    store.session("s1")
    store.session("s2")
    original = store.message("s1", "acorn")
    copy = store.message("s2", "acorn", origin_id=original, timestamp=5.0)
    store.message("s2", "later")
    assert store.found("acorn") == {original}
    store.db.execute("DELETE FROM messages WHERE id = ?", (original,))
    store.db.execute("UPDATE messages SET origin_id = NULL WHERE id = ?", (copy,))
    store.changed("s1")
    store.changed("s2")
    assert store.found("acorn") == {copy}
    assert store.found("acorn", since=4, until=6) == {copy}


def test_a_message_that_moved_to_another_session(store: SearchStore) -> None:
    store.session("s1", user_id="ann")
    store.session("s2", user_id="bob")
    number = store.message("s1", "acorn")
    assert store.found("acorn", user_id="ann") == {number}
    store.db.execute("UPDATE messages SET session_id = 's2', content = 'walnut'")
    store.changed("s2")
    assert store.found("walnut", user_id="bob") == {number}
    assert store.found("acorn") == set()


def test_deleted_messages_at_the_end_are_not_waited_for(store: SearchStore) -> None:
    numbers = fill(store)
    store.db.execute("DELETE FROM messages WHERE id > ?", (numbers[-3],))
    assert store.index.catch_up() == 23
    assert store.index.catch_up() == 0
    assert len(store.found("apple")) == 23


def test_what_is_known_of_an_index_that_was_rebuilt_is_forgotten(store: SearchStore) -> None:
    store.session("s1")
    store.session("s2")
    for n in range(100):  # the oldest first, then one that moves among them
        store.message("s1", "apple", timestamp=1e6 + 5000 * n)
    moved = store.message("s2", "apple", timestamp=1.0)
    assert len(store.ids("apple", limit=1000)) == 101
    store.db.execute("UPDATE messages SET timestamp = 3e6 WHERE id = 1")
    store.index.rebuild()  # as far as before, and otherwise
    assert store.ids("apple", sort="newest", limit=1) == [1]
    assert store.ids("apple", sort="oldest", limit=1) == [moved]


def test_ids_far_apart(store: SearchStore) -> None:
    store.session("s1")
    numbers = [store.message("s1", "apple", id=number) for number in (7, 131_072, 9_000_000)]
    assert store.ids("apple", sort="newest") == numbers[::-1]
    assert store.ids("apple", sort="oldest") == numbers
    assert len(store.ids("apple")) == 3
    assert store.index.optimize() == 5  # three of messages, titles, words
    assert len(store.ids("apple")) == 3


def test_optimizing_changes_no_result(store: SearchStore) -> None:
    fill(store, 300)
    for n in range(20):
        store.message("s1", f"apple again{n}")
        store.index.catch_up()
    before = store.index.search_messages("apple", limit=1000)
    assert store.index.optimize() > 0
    assert store.index.search_messages("apple", limit=1000) == before


def test_threads_search_while_others_write(store: SearchStore) -> None:
    fill(store, 200)
    failures: list[BaseException] = []
    counts: list[list[int]] = []

    def search() -> None:
        mine: list[int] = []
        try:
            while not mine or mine[-1] < 260:
                mine.append(len(store.index.search_messages("apple", limit=1000)))
        except BaseException as error:  # noqa: BLE001 - reported by the test itself
            failures.append(error)
        counts.append(mine)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(60):
        store.message("s1", f"apple late{n}")
    for thread in threads:
        thread.join()
    assert not failures
    assert all(mine == sorted(mine) and mine[-1] == 260 for mine in counts)


@pytest.mark.sqlite
@pytest.mark.usefixtures("small_batches")
def test_processes_that_feed_at_once(store: SearchStore) -> None:
    fill(store, 300)
    store.close()

    def feed() -> tuple[int, int]:
        index = SearchIndex(store.state_path, store.search_path)
        read = index.catch_up()
        found = len(index.search_messages("apple", limit=1000))
        index.close()
        return read, found

    results = race([feed] * 4)
    assert sum(read for read, _ in results) == 300  # each message was read by one of them
    assert [found for _, found in results] == [300] * 4
    index = apsw.Connection(str(store.search_path))
    assert index.execute("SELECT count(*) FROM doc_0_docsize").fetchall() == [(300,)]
    assert index.pragma("integrity_check") == "ok"
    index.close()


@pytest.mark.sqlite
@pytest.mark.usefixtures("small_batches")
def test_a_search_while_another_process_rebuilds(store: SearchStore) -> None:
    fill(store, 300)
    store.index.catch_up()
    store.close()

    def rebuild() -> list[int]:
        index = SearchIndex(store.state_path, store.search_path)
        return [index.rebuild() for _ in range(3)][:0]

    def search() -> list[int]:
        index = SearchIndex(store.state_path, store.search_path)
        return [len(index.search_messages("apple", limit=1000)) for _ in range(20)]

    _, counts = race([rebuild, search])
    assert counts == [300] * 20


def test_a_closed_index_says_so(store: SearchStore) -> None:
    fill(store)
    store.index.close()
    store.index.close()
    with pytest.raises(StoreClosedError):
        store.index.search_messages("apple")


@pytest.mark.sqlite
def test_without_a_store(tmp_path: Path) -> None:
    index = SearchIndex(tmp_path / "state.db", tmp_path / "search.db")
    assert index.search_messages("  ") == []
    with pytest.raises(StoreUnavailableError, match="no session store"):
        index.search_messages("apple")


@pytest.mark.sqlite
def test_where_no_index_can_be_made(store: SearchStore, tmp_path: Path) -> None:
    fill(store)
    (tmp_path / "folder.db").mkdir()
    index = SearchIndex(store.state_path, tmp_path / "folder.db")
    with pytest.raises(StoreUnavailableError):
        index.search_messages("apple")
    index.close()


@pytest.mark.sqlite
def test_odd_folder_names(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%41 'é"
    folder.mkdir()
    store = SearchStore(folder)
    store.session("s1")
    number = store.message("s1", "apple")
    assert store.ids("apple") == [number]
    store.close()
    names: set[str] = {path.name for path in folder.iterdir()}
    assert {"state.db", "search.db"} <= names


def test_a_search_that_takes_too_long_gives_the_newest(
    store: SearchStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.session("s1")
    old = store.message("s1", "apple", id=1)
    new = store.message("s1", "apple", id=9_000_000)
    store.index.close()
    store.index = store.open_index(budget=-1.0)
    with caplog.at_level(logging.INFO):
        assert store.ids("apple") == [new]
    assert "too long" in caplog.text
    everything: dict[str, Any] = {"sort": "oldest", "limit": 1}
    assert store.ids("apple", **everything) == [old]
