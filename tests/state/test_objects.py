"""Objects: names for bytes that never change, kept while a conversation has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_state import SessionDB, StoreError, StoreUnavailableError, object_names
from hermes_state.inbox import INBOX_ID
from tools import objects

from .cut_proxy import CutProxy
from .interleaving import Outcome, Pair
from .raw import address, query, tamper

on_server = pytest.mark.parametrize("database", ["postgres"], indirect=True)


def put(db: SessionDB, name: str, content: bytes, session_id: str | None = None) -> str:
    """An object, as whoever brings its bytes makes it; returns its blob."""
    blob = f"{name}:{content.hex()}"
    db.begin_blob(blob, content.hex(), len(content))
    db.add_chunk(blob, 0, content)
    assert db.put_object(name, blob, session_id)
    return blob


def make_old(db: SessionDB) -> None:
    tamper(db, "UPDATE objects SET put_at = 1", "UPDATE object_blobs SET changed_at = 1")


def take(db: SessionDB, name: str) -> Any:
    """A message with a file is taken from the inbox by its conversation."""
    content = f"[Attached file: /home/media/t/1/{name}]"
    message = {"role": "user", "content": content, INBOX_ID: name}
    return db.begin_turn(name, message, source="telegram", facts={}, leased=True)


def accept(db: SessionDB, name: str) -> None:
    put(db, f"media/t/1/{name}", name.encode())
    path = f"/home/media/t/1/{name}"
    db.accept_message(name, name, "", source="telegram", facts={"media": [path]})


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/h/media/telegram/42/7-plan.pdf", ["media/telegram/42/7-plan.pdf"]),
        ("/h/uploads/a.txt", ["uploads/a.txt"]),
        ("/h/tool-output/c/a.txt", ["tool-output/c/a.txt"]),
        ("/media/h/uploads/a.txt", ["media/h/uploads/a.txt", "uploads/a.txt"]),
        ("/h/uploads/b/a.txt", []),
        ("/h/uploads/..", []),
        ("/h/media/../42/a", []),
        ("/h/media//42/a", []),
        ("uploads/a.txt", []),
        ("", []),
    ],
)
def test_names_by_paths(path: str, names: list[str]) -> None:
    assert object_names(path) == names


def test_what_is_put_is_what_is_had(db: SessionDB) -> None:
    blob = put(db, "uploads/a", b"\x00\xff bytes")
    found = db.get_object("uploads/a")
    assert found is not None
    assert found[:5] == ("uploads/a", blob, b"\x00\xff bytes".hex(), 8, "")
    assert db.read_chunk(blob, 0) == b"\x00\xff bytes"
    assert db.read_chunk(blob, 1) is None
    assert db.get_object("uploads/b") is None
    assert [known.name for known in db.list_objects()] == ["uploads/a"]
    assert db.list_objects("uploads/a") == []


def test_other_content_takes_the_place_of_the_old(db: SessionDB) -> None:
    old = put(db, "uploads/a", b"old")
    new = put(db, "uploads/a", b"new")
    assert [going.id for going in db.list_going_blobs()] == [old]
    assert not db.put_object("uploads/b", old), "its bytes may be gone at any moment"
    assert db.find_blob(b"old".hex(), 3) is None
    assert db.find_blob(b"new".hex(), 3) == new
    db.drop_blob(old)
    db.drop_blob(new)
    assert db.read_chunk(old, 0) is None
    assert db.read_chunk(new, 0) == b"new", "it is kept"


@on_server
def test_a_conversation_has_its_files_under_whichever_session(db: SessionDB) -> None:
    for name in ("a", "b"):
        db.create_session(name, "cli")
    put(db, "uploads/x", b"x", "a")
    db.rotate_session("a", "a2", [{"role": "user", "content": "sum"}])
    db.branch_session("a2", "c")
    assert db.get_object("uploads/x", "a2") is not None
    assert db.get_object("uploads/x", "c") is not None
    assert db.get_object("uploads/x", "b") is None
    assert db.get_object("uploads/x", "unknown") is None
    make_old(db)
    db.delete_conversation("a2")
    assert db.release_objects() == 0, "the branch has it"
    db.delete_session("c")
    assert db.release_objects() == 1


@on_server
def test_what_is_adopted_brings_its_files_along(db: SessionDB) -> None:
    """A session that is found to go on from another was a conversation of its own until then."""
    db.create_session("a", "cli")
    db.append_message("a", "user", "one")
    db.create_session("b", "cli", parent_session_id="a")
    put(db, "uploads/x", b"x", "b")
    db.end_session("a", "compression")
    assert db.get_conversation_root("b") == "a"
    assert db.get_object("uploads/x", "b") is not None


@on_server
def test_a_file_is_kept_whether_its_message_is_taken_before_or_after_it_is_looked_at(
    pair: Pair,
) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        accept(db, name)
        make_old(db)

    def release(db: SessionDB, name: str) -> Any:
        return db.release_objects()

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert not first.is_error
        assert not second.is_error
        assert db.get_object(f"media/t/1/{name}", name) is not None

    pair.every_way(prepare, release, take, check)


@on_server
def test_bytes_that_are_put_under_another_name_meanwhile_are_kept_or_brought_anew(
    pair: Pair,
) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        put(db, f"uploads/{name}", name.encode())
        make_old(db)

    def release(db: SessionDB, name: str) -> Any:
        return db.release_objects()

    def again(db: SessionDB, name: str) -> Any:
        blob = db.find_blob(name.encode().hex(), len(name))
        return blob is not None and db.put_object(f"uploads/{name}-2", blob)

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        found = db.get_object(f"uploads/{name}-2")
        assert (found is not None) == second.result
        going = {blob.id for blob in db.list_going_blobs()}
        assert found is None or found.blob not in going

    pair.every_way(prepare, release, again, check)


@on_server
def test_of_two_that_sweep_each_object_is_deleted_once(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        put(db, f"uploads/{name}", name.encode())
        make_old(db)

    def sweep(db: SessionDB, name: str) -> Any:
        return objects.sweep(db)

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert first.result + second.result == 1
        assert query(db, "SELECT * FROM object_blobs") == []
        assert query(db, "SELECT * FROM object_chunks") == []

    pair.every_way(prepare, sweep, sweep, check)


# Connections that are cut


@pytest.fixture
def proxy(db: SessionDB) -> Iterator[CutProxy]:
    host = psycopg.conninfo.conninfo_to_dict(address(db))["host"]
    cutting = CutProxy(Path(str(host)))
    yield cutting
    cutting.close()


def through(db: SessionDB, proxy: CutProxy) -> SessionDB:
    name = psycopg.conninfo.conninfo_to_dict(address(db))["dbname"]
    return SessionDB(db.db_path, server=proxy.url(str(name)), busy_timeout=0.3)


@on_server
@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_connection_that_is_cut_while_bytes_are_brought(
    db: SessionDB, proxy: CutProxy, tmp_path: Path, cut: str
) -> None:
    path = tmp_path / "uploads" / "a"
    path.parent.mkdir()
    path.write_bytes(b"x" * 3_000_000)
    with through(db, proxy) as store:
        add_chunk = store.add_chunk

        def cutting(blob: str, number: int, content: bytes) -> None:
            proxy.cut = cut if number == 1 else ""
            add_chunk(blob, number, content)

        store.add_chunk = cutting  # type: ignore[method-assign]
        assert objects.put_file(store, tmp_path, path, "s")
    assert proxy.cuts == 1
    (known,) = db.list_objects()
    objects.check(db, known)


@on_server
def test_a_server_that_is_away_takes_and_gives_nothing(
    db: SessionDB, proxy: CutProxy, tmp_path: Path
) -> None:
    """What was half brought is deleted later, and the file is put when the server is back."""
    path = tmp_path / "uploads" / "a"
    path.parent.mkdir()
    path.write_bytes(b"x" * 3_000_000)
    with through(db, proxy) as store:
        add_chunk = store.add_chunk

        def cutting(blob: str, number: int, content: bytes) -> None:
            if number == 1:
                proxy.cut, proxy.stay_away = "before", True
            add_chunk(blob, number, content)

        store.add_chunk = cutting  # type: ignore[method-assign]
        with pytest.raises(StoreError):
            objects.put_file(store, tmp_path, path, "s")
        with pytest.raises(StoreUnavailableError):
            objects.find_file(store, tmp_path / "other", "/lost/uploads/a", "s")
    assert db.list_objects() == []
    assert objects.put_file(db, tmp_path, path, "s")
    tamper(db, "UPDATE object_blobs SET changed_at = 1")
    objects.sweep(db)
    assert len(query(db, "SELECT * FROM object_blobs")) == 1
    assert len(query(db, "SELECT * FROM object_chunks")) == 3
