"""Objects in an S3-compatible store: signed as it wants, and never half there."""

from __future__ import annotations

import hashlib
import logging
import os
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_state import (
    CHUNK_BYTES,
    BucketSettings,
    ObjectLostError,
    SessionDB,
    StoreUnavailableError,
)
from tools import objects
from tools.objects.bucket import EMPTY_DIGEST, Bucket, sign

from ..state.raw import query, tamper
from . import s3_server as s3_server_module
from .s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server, s3_server

pytestmark = pytest.mark.postgres

AWS = BucketSettings(
    "https://s3.amazonaws.com", "", "us-east-1", "",
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)  # fmt: skip


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.objects.bucket._PAUSE", 0.0)


def settings_of(server: S3Server, **more: object) -> BucketSettings:
    given = BucketSettings(
        server.url, server.bucket, REGION, "my files/é+/", ACCESS_KEY, SECRET_KEY
    )
    return given._replace(**more)  # type: ignore[arg-type]


@pytest.fixture
def db(server: S3Server, tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as opened:
        opened.bucket = settings_of(server)
        opened.create_session("s", "cli")
        yield opened


def put(db: SessionDB, home: Path, data: bytes, name: str = "uploads/a.txt") -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    assert objects.put_file(db, home, path, "s")
    return path


@pytest.mark.parametrize(
    ("method", "path", "headers", "digest", "signature"),
    [
        (
            "GET", "/test.txt", {"range": "bytes=0-9"}, EMPTY_DIGEST,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT", "/test%24file.text",
            {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            hashlib.sha256(b"Welcome to Amazon S3.").hexdigest(),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET", "/?lifecycle=", {}, EMPTY_DIGEST,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
    ],
    ids=["get", "put", "query"],
)  # fmt: skip
def test_signatures_are_those_of_the_published_examples(
    method: str, path: str, headers: dict[str, str], digest: str, signature: str
) -> None:
    url = f"https://examplebucket.s3.amazonaws.com{path}"
    signed = sign(AWS, method, url, headers, digest, datetime(2013, 5, 24, tzinfo=UTC))
    assert signed["authorization"].endswith(f"Signature={signature}")


def test_what_is_put_is_there_and_can_be_deleted(server: S3Server) -> None:
    bucket = Bucket(settings_of(server))
    bucket.put("key", [b"ab", b"c"], hashlib.sha256(b"abc").hexdigest(), 3)
    assert server.objects == {"my files/é+/key": b"abc"}
    assert b"".join(bucket.get("key")) == b"abc"
    bucket.delete("key")
    bucket.delete("key")
    with pytest.raises(ObjectLostError, match="does not have key"):
        list(bucket.get("key"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"secret_key": "wrong"}, "403 SignatureDoesNotMatch"),
        ({"access_key": "wrong"}, "403 InvalidAccessKeyId"),
        ({"region": "elsewhere"}, "403 AuthorizationHeaderMalformed"),
        ({"bucket": "another"}, "404 NoSuchBucket"),
        ({"endpoint": "http://127.0.0.1:1"}, "ConnectError"),
    ],
)
def test_what_is_refused_is_told_without_the_key(
    server: S3Server, caplog: pytest.LogCaptureFixture, change: dict[str, str], told: str
) -> None:
    settings = settings_of(server, **change)
    bucket = Bucket(settings)
    with caplog.at_level(logging.DEBUG), pytest.raises(StoreUnavailableError, match=told) as error:
        bucket.put("key", [b"a"], hashlib.sha256(b"a").hexdigest(), 1)
    for shown in (str(error.value), caplog.text, repr(settings)):
        assert settings.secret_key not in shown
    with pytest.raises(StoreUnavailableError, match=told):
        list(bucket.get("key"))
    with pytest.raises(StoreUnavailableError, match=told):
        bucket.delete("key")


def test_bytes_that_are_others_are_refused(server: S3Server) -> None:
    with pytest.raises(StoreUnavailableError, match="400 XAmzContentSHA256Mismatch"):
        Bucket(settings_of(server)).put("key", [b"b"], hashlib.sha256(b"a").hexdigest(), 1)
    assert server.objects == {}


def test_a_passing_failure_is_tried_again_and_a_lasting_one_told(server: S3Server) -> None:
    bucket = Bucket(settings_of(server))
    server.failures = [503, 500]
    bucket.put("key", [b"a"], hashlib.sha256(b"a").hexdigest(), 1)
    server.failures = [503]
    assert b"".join(bucket.get("key")) == b"a"
    server.failures = [503, 503, 503]
    with pytest.raises(StoreUnavailableError, match="503 SlowDown"):
        list(bucket.get("key"))
    server.failures = [503]
    with pytest.raises(StoreUnavailableError, match="503 SlowDown"):
        bucket.delete("key")


def test_files_are_in_the_bucket_and_had_on_another_machine(
    db: SessionDB, server: S3Server, tmp_path: Path
) -> None:
    path = put(db, tmp_path / "one", b"dig here")
    assert list(server.objects.values()) == [b"dig here"]
    assert query(db, "SELECT * FROM object_chunks") == []
    there = objects.find_file(db, tmp_path / "two", f"/lost/uploads/{path.name}", "s")
    assert there is not None
    assert there.read_bytes() == b"dig here"
    put(db, tmp_path / "one", b"dig here", "uploads/again.txt")
    assert len(server.objects) == 1, "the same content is kept once"


def test_a_large_file_takes_little_memory(db: SessionDB, server: S3Server, tmp_path: Path) -> None:
    """The server of the test keeps all of it, in this process: what it keeps is not counted."""
    size, piece = 30 << 20, os.urandom(1 << 20)
    path = tmp_path / "one" / "uploads" / "film.bin"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for _ in range(30):
            file.write(piece)
    tracemalloc.start()
    try:
        objects.put_file(db, tmp_path / "one", path, "s")
        objects.find_file(db, tmp_path / "two", "/lost/uploads/film.bin", "s")
        taken = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(False, str(Path(s3_server_module.__file__)))]
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(trace.size for trace in taken.traces) < 12 * CHUNK_BYTES
    assert peak < 2 * size + 12 * CHUNK_BYTES, "what the server has twice for a moment, and ours"
    with (tmp_path / "two/uploads/film.bin").open("rb") as file:
        assert (
            hashlib.file_digest(file, "sha256").hexdigest()
            == hashlib.sha256(piece * 30).hexdigest()
        )


def test_a_bucket_that_is_away_refuses_the_file_and_nothing_of_it_stays(
    db: SessionDB, server: S3Server, tmp_path: Path
) -> None:
    path = tmp_path / "uploads" / "a.txt"
    path.parent.mkdir()
    path.write_bytes(b"dig here")
    server.failures = [503] * 3
    with pytest.raises(StoreUnavailableError, match="503"):
        objects.put_file(db, tmp_path, path, "s")
    assert list(objects.walk_objects(db)) == []
    tamper(db, "UPDATE object_blobs SET changed_at = 0")
    objects.sweep(db)
    assert query(db, "SELECT * FROM object_blobs") == []


def test_files_are_deleted_from_the_bucket_when_it_can_be_reached(
    db: SessionDB, server: S3Server, tmp_path: Path
) -> None:
    put(db, tmp_path, b"dig here")
    db.delete_session("s")
    tamper(db, "UPDATE objects SET put_at = 0")
    server.failures = [503]
    assert objects.sweep(db) == 1
    assert len(server.objects) == 1, "it is left for the next time"
    assert len(query(db, "SELECT * FROM object_blobs WHERE state = 'going'")) == 1
    assert objects.sweep(db) == 0
    assert server.objects == {}
    assert query(db, "SELECT * FROM object_blobs") == []


def test_what_is_just_being_deleted_is_brought_anew(
    db: SessionDB, server: S3Server, tmp_path: Path
) -> None:
    """The old bytes may go at any moment, so nothing new relies on them."""
    put(db, tmp_path, b"same")
    (old,) = server.objects
    tamper(db, "UPDATE objects SET put_at = 0", "DELETE FROM object_links")
    assert db.release_objects() == 1
    put(db, tmp_path, b"same", "uploads/b.txt")
    objects.sweep(db)
    assert list(server.objects.values()) == [b"same"]
    assert old not in server.objects


@pytest.mark.parametrize("harm", ["missing", "other bytes", "fewer bytes"])
def test_damage_in_the_bucket_is_told(
    db: SessionDB, server: S3Server, tmp_path: Path, harm: str
) -> None:
    put(db, tmp_path / "one", b"dig here")
    (key,) = server.objects
    if harm == "missing":
        server.objects.clear()
    else:
        server.objects[key] = b"dig hers" if harm == "other bytes" else b"dig"
    with pytest.raises(ObjectLostError):
        objects.find_file(db, tmp_path / "two", "/lost/uploads/a.txt", "s")
    assert not (tmp_path / "two/uploads/a.txt").exists()


def test_what_is_in_one_place_is_found_when_another_is_set(
    db: SessionDB, server: S3Server, tmp_path: Path
) -> None:
    put(db, tmp_path / "one", b"in the bucket")
    db.bucket = settings_of(server, is_used=False)
    put(db, tmp_path / "one", b"in the database", "uploads/b.txt")
    assert list(server.objects.values()) == [b"in the bucket"]
    for name, content in (("a", b"in the bucket"), ("b", b"in the database")):
        there = objects.find_file(db, tmp_path / "two", f"/lost/uploads/{name}.txt", "s")
        assert there is not None
        assert there.read_bytes() == content
    db.bucket = None
    with pytest.raises(StoreUnavailableError, match="store_objects"):
        objects.find_file(db, tmp_path / "three", "/lost/uploads/a.txt", "s")
