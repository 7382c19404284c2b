"""What is said about a server: rights, settings, poolers, versions; and that a dump comes back."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_state import NewerStoreError, SessionDB, StoreUnavailableError, server_schema
from hermes_state.server_report import Remark, examine

from .. import postgres
from .writers import await_state

pytestmark = pytest.mark.both_databases


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """A server with settings as they should be."""
    with postgres.own_server(
        fsync="on", full_page_writes="on", synchronous_commit="on", autovacuum="on"
    ) as running:
        yield running


def run_as_admin(server: postgres.Server, *statements: str, database: str = "postgres") -> None:
    with psycopg.connect(url(server, database), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


def url(server: postgres.Server, database: str, user: str = "hermes") -> str:
    return server.url(database).replace("hermes@", f"{user}@")


@pytest.fixture
def made(server: postgres.Server) -> Iterator[str]:
    """The name of a database made as the page says."""
    run_as_admin(
        server,
        "DROP DATABASE IF EXISTS made WITH (FORCE)",
        "DROP ROLE IF EXISTS maker",
        "DROP ROLE IF EXISTS worker",
        "CREATE ROLE maker LOGIN",
        "CREATE ROLE worker LOGIN",
        "CREATE DATABASE made OWNER maker TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C'"
        " LC_CTYPE 'C'",
        "REVOKE ALL ON DATABASE made FROM PUBLIC",
        "GRANT CONNECT ON DATABASE made TO worker",
    )
    yield "made"
    run_as_admin(server, "DROP DATABASE made WITH (FORCE)")


def wrong(remarks: list[Remark]) -> str:
    return " ".join(one.text for one in remarks if one.level == "wrong")


def test_a_role_that_may_only_change_rows_is_enough(
    server: postgres.Server, made: str, tmp_path: Path
) -> None:
    owner, worker = url(server, made, "maker"), url(server, made, "worker")
    assert "may not create tables" in wrong(examine(worker, 8))
    with pytest.raises(StoreUnavailableError, match="Open it once with the role that owns"):
        SessionDB(tmp_path / "w.db", server=worker)
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(
            "ALTER DEFAULT PRIVILEGES FOR ROLE maker IN SCHEMA public"
            " GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO worker"
        )
    SessionDB(tmp_path / "o.db", server=owner).close()
    assert wrong(examine(worker, 8)) == ""
    with SessionDB(tmp_path / "w.db", server=worker) as db:
        db.create_session("s1", "cli")
        db.append_message("s1", "user", "something to be found")
        message = {"role": "user", "content": "more"}
        begun = db.begin_turn("s1", message, source="cli", facts={}, leased=True)
        assert begun.lease is not None
        db.end_turn(begun.lease)
        db.rotate_session("s1", "s2", [{"role": "user", "content": "a summary"}])
        db.accept_message("i1", "s2", "hello", source="telegram")
        db.add_delivery("d1", "text", session_key="k", platform="telegram", chat_id="1")
        assert db.search_messages("found")
        db.clear_messages("s2")
        assert db.check_store() == []
        db.fix_store()
        db.vacuum()
        assert db.delete_conversation("s1") == 2
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("REVOKE DELETE ON turns FROM worker")
        connection.execute("REVOKE EXECUTE ON FUNCTION hermes_lock FROM PUBLIC")
    said = wrong(examine(worker, 8))
    assert "DELETE on turns" in said
    assert "EXECUTE on hermes_lock(text)" in said


def test_an_upgrade_is_left_to_the_role_that_owns_the_tables(
    server: postgres.Server, made: str, tmp_path: Path
) -> None:
    owner, worker = url(server, made, "maker"), url(server, made, "worker")
    SessionDB(tmp_path / "o.db", server=owner).close()
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO worker"
        )
        set_number(connection, server_schema.SCHEMA_KEY, 1)
    assert any("upgrades it when it opens it" in one.text for one in examine(worker, 8))
    with pytest.raises(StoreUnavailableError, match="made or upgraded, which this role may not do"):
        SessionDB(tmp_path / "w.db", server=worker)
    SessionDB(tmp_path / "o.db", server=owner).close()
    SessionDB(tmp_path / "w.db", server=worker).close()


def set_number(connection: psycopg.Connection[Any], key: str, number: int) -> None:
    connection.execute("UPDATE state_meta SET value = %s WHERE key = %s", (str(number), key))


def test_versions_side_by_side_are_told_and_newer_ones_refused(
    server: postgres.Server, made: str, tmp_path: Path
) -> None:
    owner = url(server, made, "maker")
    SessionDB(tmp_path / "o.db", server=owner).close()
    with psycopg.connect(owner, autocommit=True) as connection:
        set_number(connection, server_schema.SCHEMA_KEY, 9999)
        assert any("may still work with" in one.text for one in examine(owner, 8))
        SessionDB(tmp_path / "o.db", server=owner).close()
        set_number(connection, server_schema.READER_KEY, 9999)
    assert "newer Hermes" in wrong(examine(owner, 8))
    with pytest.raises(NewerStoreError):
        SessionDB(tmp_path / "o.db", server=owner)


def test_what_cannot_hold_a_store_is_said(server: postgres.Server, made: str) -> None:
    run_as_admin(
        server,
        "DROP DATABASE IF EXISTS odd",
        "CREATE DATABASE odd TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'",
    )
    try:
        assert "SQL_ASCII" in wrong(examine(url(server, "odd"), 8))
        assert "does not exist" in wrong(examine(url(server, "nothing"), 8))
        assert "cannot be reached" in wrong(examine("postgresql://me@127.0.0.1:1/db", 8))
    finally:
        run_as_admin(server, "DROP DATABASE odd")


def test_settings_that_lose_data_and_few_connections_are_said(
    server: postgres.Server, made: str
) -> None:
    address = f"{url(server, made, 'maker')}&options=-c%20synchronous_commit%3Doff"
    assert "synchronous_commit is off" in wrong(examine(address, 8))
    remarks = examine(url(server, made, "maker"), 500)
    assert any("lower store_connections" in one.advice for one in remarks)
    run_as_admin(server, "ALTER ROLE maker CONNECTION LIMIT 12")
    address = url(server, made, "maker")
    # The server notices a moment later that the connections before were closed.
    await_state(
        lambda: any(one.text.startswith("1 of 12 connections") for one in examine(address, 8))
    )


# A pooler


class Pooler:
    """Passes everything on; names its own process, as a pooler does, unless it is plain."""

    def __init__(self, target: str, is_plain: bool = False) -> None:
        self._target = target
        self._is_plain = is_plain
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                for source, sink, change in (
                    (client, server, False),
                    (server, client, not self._is_plain),
                ):
                    threading.Thread(
                        target=self._pass, args=(source, sink, change), daemon=True
                    ).start()

    def _pass(self, source: socket.socket, sink: socket.socket, change: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                place = data.find(b"K\0\0\0\x0c") if change else -1
                if place >= 0:
                    data = data[: place + 5] + struct.pack(">I", 4711) + data[place + 9 :]
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


def test_a_pooler_is_refused_with_the_reason(
    server: postgres.Server, made: str, tmp_path: Path
) -> None:
    pooler = Pooler(str(server.folder / ".s.PGSQL.5432"))
    try:
        through = (
            f"postgresql://maker@127.0.0.1:{pooler.port}/{made}?sslmode=disable&gssencmode=disable"
        )
        with pytest.raises(StoreUnavailableError, match="pooler such as PgBouncer"):
            SessionDB(tmp_path / "p.db", server=through)
        assert "store_connections" in wrong(examine(through, 8))
    finally:
        pooler.close()


def test_a_way_to_another_machine_without_encryption_is_wrong(
    server: postgres.Server, made: str
) -> None:
    way = Pooler(str(server.folder / ".s.PGSQL.5432"), is_plain=True)
    try:
        here = f"postgresql://maker@127.0.0.1:{way.port}/{made}?gssencmode=disable"
        assert wrong(examine(here, 8)) == "", "nobody else hears what is said to oneself"
        elsewhere = here.replace("127.0.0.1", "db.example.org") + "&hostaddr=127.0.0.1"
        assert "The connection to db.example.org is not encrypted" in wrong(examine(elsewhere, 8))
    finally:
        way.close()


# A dump


def test_a_dump_comes_back_and_everything_holds(
    server: postgres.Server, made: str, tmp_path: Path
) -> None:
    dump_program = server.programs / "pg_dump"
    if not dump_program.exists():
        pytest.skip("the programs of PostgreSQL are there without pg_dump")
    owner = url(server, made, "maker")
    with SessionDB(tmp_path / "o.db", server=owner) as db:
        db.create_session("s1", "cli")
        for number in range(20):
            db.append_message("s1", "user", f"number {number} \0 \ue000")
        db.rotate_session("s1", "s2", [{"role": "user", "content": "a summary"}])
        before = list(db.export_all())
    dump = tmp_path / "hermes.dump"
    call(dump_program, "--format=custom", f"--file={dump}", owner)
    run_as_admin(
        server,
        "DROP DATABASE IF EXISTS restored",
        "CREATE DATABASE restored OWNER maker TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C'"
        " LC_CTYPE 'C'",
    )
    restored = url(server, "restored", "maker")
    call(
        server.programs / "pg_restore", "--exit-on-error", "--single-transaction",
        f"--dbname={restored}", str(dump),
    )  # fmt: skip
    with SessionDB(tmp_path / "r.db", server=restored) as db:
        assert list(db.export_all()) == before
        assert db.check_store() == []
        assert len(db.search_messages("number", limit=50)) == 20
        db.append_message("s2", "user", "and it goes on")
    assert wrong(examine(restored, 8)) == ""
    run_as_admin(server, "DROP DATABASE restored WITH (FORCE)")


def call(program: Path, *arguments: str) -> None:
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
