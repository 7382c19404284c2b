"""`hermes store check` and `move`, and pruning, with files that messages name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.store import find_store, open_place
from hermes_state import SessionDB
from tools import objects

from .. import postgres
from ..state.raw import query, tamper
from ..tools.s3_server import ACCESS_KEY, REGION, SECRET_KEY, s3_server

pytestmark = pytest.mark.both_databases


ROME, GARDEN = "20260101_101010_aaaaaa", "20260102_101010_bbbbbb"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A database without a store in it."""
    yield postgres.database_for(tmp_path / "server", str(tmp_path))
    postgres.give_back(str(tmp_path))


def write(home: Path, name: str, data: bytes) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def with_files(rome: Any) -> Any:
    """The home of `rome`, with files that its messages name, and one that none does."""
    plan = write(rome.home, "media/telegram/42/7-plan.pdf", b"the plan")
    output = write(rome.home, f"tool-output/{GARDEN}/x-1.txt", b"long" * 9)
    write(rome.home, "uploads/1a-unnamed.txt", b"nobody's")
    with rome.store() as db:
        db.append_message(ROME, "user", f"[Attached file: {plan}]")
        db.append_message(GARDEN, "tool", f"read_file {output} shows all", tool_call_id="c")
    return rome


def files_of(cli: Any) -> list[str]:
    """What is said of the files; the server of these tests has other faults."""
    remarks = json.loads(cli("store", "check", "--json").out)["remarks"]
    said = [f"{remark['level']} {remark['text']}".partition(" (")[0] for remark in remarks]
    return [text for text in said if "files" in text or "bucket" in text]


def test_files_that_messages_name_move_to_a_server_and_back(with_files: Any, address: str) -> None:
    home: Path = with_files.home
    said = with_files("store", "move", "--to", address, "--yes")
    assert said.code == 0, said
    assert "2 files that messages name went along" in said.out
    for folder in ("media", "tool-output", "uploads"):
        (home / folder).rename(home / f"{folder}.lost")
    with SessionDB(home / "x.db", server=address) as db:
        plan = "/elsewhere/media/telegram/42/7-plan.pdf"
        assert objects.find_file(db, home / "other", plan, GARDEN) is None
        there = objects.find_file(db, home / "other", plan, ROME)
        assert there is not None
        assert there.read_bytes() == b"the plan"
    checked = with_files("store", "check")
    assert "2 of 2 files that messages name are as they were put" in checked.out
    said = with_files("store", "move", "--to", "file", "--yes")
    assert said.code == 0, said
    assert "2 files that messages name were fetched" in said.out
    assert (home / "media/telegram/42/7-plan.pdf").read_bytes() == b"the plan"
    assert (home / f"tool-output/{GARDEN}/x-1.txt").read_bytes() == b"long" * 9
    with SessionDB(home / "state.db") as db:
        assert list(objects.walk_objects(db)) == [], "beside a file they are files"


def configure_bucket(home: Path, server: Any) -> None:
    config = (home / "config.yaml").read_text() if (home / "config.yaml").exists() else ""
    kept = [line for line in config.splitlines() if not line.startswith("store_objects")]
    kept.append(
        f"store_objects: {{place: s3, endpoint: '{server.url}', bucket: {server.bucket},"
        f" region: {REGION}}}"
    )
    (home / "config.yaml").write_text("\n".join(kept) + "\n")
    (home / ".env").write_text(
        f"HERMES_OBJECTS_ACCESS_KEY={ACCESS_KEY}\nHERMES_OBJECTS_SECRET_KEY={SECRET_KEY}\n"
    )


def test_files_move_into_a_bucket(
    with_files: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home: Path = with_files.home
    with s3_server() as server:
        monkeypatch.setattr("tools.objects.bucket._PAUSE", 0.0)
        configure_bucket(home, server)
        said = with_files("store", "move", "--to", address, "--yes")
        assert said.code == 0, said
        assert sorted(server.objects.values()) == sorted([b"the plan", b"long" * 9])
        assert files_of(with_files) == ["fine 2 of 2 files that messages name are as they were put"]
        assert len(server.objects) == 2, "nothing of the look is left"
        kept = dict(server.objects)
        server.objects.clear()
        found = files_of(with_files)
        assert [text for text in found if "does not have" in text] == found[:2]
        assert found[2:] == ["fine 0 of 2 files that messages name are as they were put"]
        server.objects.update(kept)
        server.bucket = "another"
        said = with_files("store", "check")
        assert said.code == 1
        assert "404 NoSuchBucket" in said.out
        assert SECRET_KEY not in said.out + said.err


def test_a_move_whose_files_cannot_be_put_says_so(
    with_files: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home: Path = with_files.home
    monkeypatch.setattr("tools.objects.bucket._PAUSE", 0.0)
    (home / "config.yaml").write_text(
        "store_objects: {place: s3, endpoint: 'http://127.0.0.1:1', bucket: b, access_key: a,"
        " secret_key: hush-hush}\n"
    )
    said = with_files("store", "move", "--to", address, "--yes")
    assert said.code == 1
    assert "Files that messages name are on this machine only" in said.out
    assert "hush" not in said.out + said.err
    assert find_store(home).server == address, "the conversations are there"
    said = with_files("store", "put-files")
    assert said.code == 2 and "Run it again" in said.err
    with s3_server() as server:
        configure_bucket(home, server)
        said = with_files("store", "put-files")
        assert (said.code, said.out) == (
            0, "2 files of this machine that messages name are in the store.\n",
        )  # fmt: skip
        assert sorted(server.objects.values()) == sorted([b"the plan", b"long" * 9])


def test_what_a_bucket_has_lost_is_put_again_by_a_machine_that_has_it(
    with_files: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home: Path = with_files.home
    monkeypatch.setattr("tools.objects.bucket._PAUSE", 0.0)
    copy = write(home, "media/telegram/42/8-plan.pdf", b"the plan")
    with with_files.store() as db:
        db.append_message(GARDEN, "user", f"[Attached file: {copy}]")
    with s3_server() as server:
        configure_bucket(home, server)
        assert with_files("store", "move", "--to", address, "--yes").code == 0
        (plan,) = (key for key, data in server.objects.items() if data == b"the plan")
        server.objects[plan] = b"the prank"
        (output,) = server.objects.keys() - {plan}
        del server.objects[output]
        (home / "tool-output").rename(home / "tool-output.lost")
        said = with_files("store", "put-files")
        assert said.code == 1
        assert "2 files that were lost there have been put again." in said.out
        assert "x-1.txt" in said.out and "This machine does not have it." in said.out
        (home / "tool-output.lost").rename(home / "tool-output")
        assert with_files("store", "put-files").code == 0
        assert files_of(with_files) == ["fine 2 of 2 files that messages name are as they were put"]
        with open_place(find_store(home)) as db:
            there = objects.find_file(db, home / "other", f"/a/{copy.relative_to(home)}", GARDEN)
            assert there is not None and there.read_bytes() == b"the plan"
            objects.sweep(db)


def test_without_a_server_there_is_nothing_to_put(with_files: Any) -> None:
    said = with_files("store", "put-files")
    assert said.code == 2 and "kept in a file" in said.err


def test_damaged_files_are_named(with_files: Any, address: str) -> None:
    assert with_files("store", "move", "--to", address, "--yes").code == 0
    with SessionDB(with_files.home / "x.db", server=address) as db:
        tamper(db, "UPDATE object_chunks SET content = 'the prank' WHERE content = 'the plan'")
    said = with_files("store", "check")
    assert said.code == 1
    assert "✗ media/telegram/42/7-plan.pdf is damaged in the store" in said.out
    assert "1 of 2 files" in said.out
    (with_files.home / "media").rename(with_files.home / "media.lost")
    said = with_files("store", "move", "--to", "file", "--yes")
    assert said.code == 0, said
    assert "Left behind: media/telegram/42/7-plan.pdf is damaged" in said.out


def test_pruning_deletes_files_that_no_conversation_has(with_files: Any, address: str) -> None:
    assert with_files("store", "move", "--to", address, "--yes").code == 0
    with SessionDB(with_files.home / "x.db", server=address) as db:
        db.end_session(ROME, "cli_close")
        tamper(
            db,
            "UPDATE sessions SET started_at = 1, ended_at = 2, last_active = 2"
            f" WHERE id = '{ROME}'",
            "UPDATE objects SET put_at = 1 WHERE name LIKE 'media/%'",
        )
    said = with_files("sessions", "prune", "--older-than", "30", "--yes")
    assert "Deleted 1 sessions" in said.out, said
    with SessionDB(with_files.home / "x.db", server=address) as db:
        assert [known.name for known in objects.walk_objects(db)] == [
            f"tool-output/{GARDEN}/x-1.txt"
        ]
        assert len(query(db, "SELECT * FROM object_chunks")) == 1
