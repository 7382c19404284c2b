"""What a server may refuse, or be unfit for: each is told by the store's own error, in a sentence.

Nothing is written then, and the store goes on when the server does.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_state import (
    NewerStoreError,
    SessionDB,
    StoreBusyError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from hermes_state.schema import OWN_SCHEMA_VERSION
from hermes_state.server_schema import OLDEST_READER

from .. import postgres
from .children import race
from .interleaving import Pair, append, chat, live
from .raw import address, check_sound, query, tamper

pytestmark = pytest.mark.parametrize("database", ["postgres"], indirect=True)


@pytest.fixture
def made() -> Iterator[list[str]]:
    """Databases and roles that a test makes on the server of the run; deleted with it."""
    names: list[str] = []
    yield names
    for kind, name in (one.split() for one in reversed(names)):
        force = " WITH (FORCE)" if kind == "DATABASE" else ""
        postgres.connect().execute(f"DROP {kind} IF EXISTS {name}{force}")


def make_database(made: list[str], name: str, how: str = "") -> str:
    postgres.connect().execute(f"CREATE DATABASE {name} TEMPLATE template0 {how}")
    made.append(f"DATABASE {name}")
    return postgres.address_of(name)


def as_user(url: str, user: str) -> str:
    return url.replace("//hermes@", f"//{user}@")


def is_sentence(error: pytest.ExceptionInfo[Exception]) -> bool:
    """Whether people are told something, by the store and not by a library."""
    text = str(error.value)
    return bool(re.search(r"[.)'\"]$", text)) and "Traceback" not in text and "psycopg" not in text


# What the server is


def test_an_encoding_that_cannot_hold_every_text(
    made: list[str], tmp_path: Path, database: str
) -> None:
    url = make_database(made, "latin", "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(StoreUnavailableError, match=r"encoding LATIN1.*needs UTF8") as error:
        SessionDB(tmp_path / "state.db", server=url)
    assert is_sentence(error) or "LC_CTYPE 'C'" in str(error.value)


@pytest.mark.parametrize(
    "how",
    [
        "LOCALE_PROVIDER icu ICU_LOCALE 'en' LC_COLLATE 'C' LC_CTYPE 'C'",
        "LC_COLLATE 'en_US.UTF-8' LC_CTYPE 'C'",
        "LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'",
    ],
)
def test_an_order_of_texts_that_is_not_a_files(
    made: list[str], tmp_path: Path, database: str, how: str
) -> None:
    try:
        url = make_database(made, "ordered", f"ENCODING 'UTF8' {how}")
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.WrongObjectType) as error:
        pytest.skip(f"this server has no such order of texts: {error}")
    except psycopg.errors.InvalidParameterValue as error:
        pytest.skip(f"this system has no such locale: {error}")
    with pytest.raises(StoreUnavailableError, match=r"collation .*needs UTF8, C and C"):
        SessionDB(tmp_path / "state.db", server=url)


# Who we are


def test_an_unknown_database_or_user(tmp_path: Path, database: str) -> None:
    for url in (
        postgres.address_of("nowhere"),
        as_user(postgres.address_of("postgres"), "nobody_knows"),
    ):
        with pytest.raises(StoreUnavailableError, match="Check user, password and rights") as error:
            SessionDB(tmp_path / "state.db", server=url)
        assert is_sentence(error)


def test_a_wrong_password(tmp_path: Path, database: str) -> None:
    with postgres.own_server() as server:
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
            rules = server.data / "pg_hba.conf"
            rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")
            connection.execute("SELECT pg_reload_conf()")
        url = as_user(server.url("postgres"), "guarded:wr0ng")
        with pytest.raises(StoreUnavailableError, match=r"refuses.*password") as error:
            SessionDB(tmp_path / "state.db", server=url)
        assert is_sentence(error) and "wr0ng" not in str(error.value)


def test_rights_that_are_missing(made: list[str], tmp_path: Path, database: str) -> None:
    url = make_database(made, "foreign_store", "LC_COLLATE 'C' LC_CTYPE 'C'")
    postgres.connect().execute("CREATE ROLE stranger LOGIN")
    made.insert(0, "ROLE stranger")
    with pytest.raises(StoreUnavailableError, match="which this role may not do"):
        SessionDB(tmp_path / "state.db", server=as_user(url, "stranger"))
    SessionDB(tmp_path / "state.db", server=url).close()
    with pytest.raises(StoreUnavailableError, match="permission denied"):
        SessionDB(tmp_path / "state.db", server=as_user(url, "stranger"))


def test_a_server_that_is_not_there(tmp_path: Path, database: str) -> None:
    for url in (
        f"postgresql://hermes@/x?host={tmp_path}",
        "postgresql://hermes@127.0.0.1:1/x",
    ):
        with pytest.raises(StoreUnavailableError, match="cannot be reached") as error:
            SessionDB(tmp_path / "state.db", server=url)
        assert is_sentence(error)


# What it has no room for


def _connect_when_free(url: str) -> psycopg.Connection:
    """Connect once the server has noticed that a connection was closed."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return psycopg.connect(url)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def test_too_many_connections(made: list[str], tmp_path: Path, database: str) -> None:
    url = make_database(made, "crowded", "LC_COLLATE 'C' LC_CTYPE 'C'")
    postgres.connect().execute("CREATE ROLE crowd LOGIN CONNECTION LIMIT 2")
    postgres.connect().execute("ALTER DATABASE crowded OWNER TO crowd")
    made.insert(0, "ROLE crowd")
    url = as_user(url, "crowd")
    with SessionDB(tmp_path / "state.db", server=url, busy_timeout=0.3) as db:
        chat(db, "s")
        with psycopg.connect(url):
            with pytest.raises(StoreBusyError, match="no connection left for us") as error:
                SessionDB(tmp_path / "state.db", server=url)
            assert is_sentence(error)
            append(db, "s")  # on the connection that it has
            db._database._drop_idle()  # type: ignore[union-attr]
            with _connect_when_free(url), pytest.raises(StoreBusyError, match="no connection left"):
                append(db, "s")
        append(db, "s")
        assert live(db, "s") == ["one", "two", "late", "late"]


def test_all_connections_of_the_process_are_in_use(db: SessionDB) -> None:
    chat(db, "s")
    database: Any = db._database
    database.busy_timeout = 0.1
    with contextlib.ExitStack() as held:
        for _ in range(database.connections):
            held.enter_context(database._connection())
        with pytest.raises(StoreBusyError, match=r"All connections to .* were in use") as error:
            db.get_messages("s")
        assert is_sentence(error)
    assert live(db, "s") == ["one", "two"]


def test_a_full_disk(made: list[str], tmp_path: Path, database: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="hermes-tiny-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("needs root, to mount a file system that is small enough to be filled")
    try:
        with postgres.own_server() as server:
            os.chown(folder, server.data.stat().st_uid, server.data.stat().st_gid)
            with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
                connection.execute(f"CREATE TABLESPACE tiny LOCATION '{folder}'")
                connection.execute("CREATE DATABASE x TEMPLATE template0 TABLESPACE tiny")
            with SessionDB(tmp_path / "state.db", server=server.url("x")) as db:
                # What making the tables changed is on disk before there is no more room for it.
                with psycopg.connect(server.url("x"), autocommit=True) as connection:
                    connection.execute("CHECKPOINT")
                fill(db)
                room = ["mount", "-o", "remount,size=96m", str(folder)]
                subprocess.run(room, check=True)
                assert append(db, "s")
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def fill(db: SessionDB) -> None:
    """Write until there is no room, and see that nothing is half there."""
    chat(db, "s")
    told = 2
    with pytest.raises(StoreFullError, match="No room left") as error:
        for _ in range(100):
            db.append_message("s", "user", os.urandom(500_000).hex())
            told += 1
    assert is_sentence(error)
    assert db.message_count("s") == told
    assert (db.get_session("s") or {})["message_count"] == told
    check_sound(db)


# What it does not let us do


def test_a_store_that_is_set_to_read_only(db: SessionDB) -> None:
    chat(db, "s")
    name = psycopg.conninfo.conninfo_to_dict(address(db))["dbname"]
    postgres.connect().execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        with SessionDB(db.db_path) as store:
            with pytest.raises(StoreReadOnlyError, match="takes no writes") as error:
                append(store, "s")
            assert is_sentence(error)
            assert live(store, "s") == ["one", "two"]
    finally:
        postgres.connect().execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


def test_a_standby(tmp_path: Path, database: str) -> None:
    with postgres.own_server() as server:
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE x TEMPLATE template0")
        with SessionDB(tmp_path / "state.db", server=server.url("x")) as db:
            chat(db, "s")
        server.kill()
        (server.data / "standby.signal").touch()
        server.start()
        with SessionDB(tmp_path / "state.db", server=server.url("x")) as db:
            assert live(db, "s") == ["one", "two"]
            with pytest.raises(StoreReadOnlyError, match="it is a standby"):
                append(db, "s")
        with pytest.raises(StoreUnavailableError):
            SessionDB(tmp_path / "state.db", server=server.url("postgres"))


def test_a_lock_that_another_holds_for_long(pair: Pair) -> None:
    chat(pair.one, "s")
    held = pair.hold(lambda db: append(db, "s"))
    with SessionDB(pair.one.db_path, busy_timeout=0.2) as impatient:
        with pytest.raises(StoreBusyError, match="Another process is writing") as error:
            append(impatient, "s")
        assert is_sentence(error)
        with pytest.raises(StoreBusyError, match="Another process is writing"):
            impatient.delete_session("s")
        chat(impatient, "other")  # another conversation is another matter
    assert held.let_go().result
    assert live(pair.one, "s") == ["one", "two", "late"]


def test_a_statement_that_takes_too_long(db: SessionDB) -> None:
    chat(db, "s")
    impatient = f"{address(db)}&options=-c%20statement_timeout%3D100"
    with SessionDB(db.db_path, server=impatient) as store:

        def slow(conn: Any) -> None:
            conn.execute("UPDATE sessions SET title = 'half' WHERE id = 's'")
            conn.execute("SELECT pg_sleep(30)")

        with pytest.raises(StoreBusyError, match="took too long over one statement") as error:
            store._execute_write(slow, "s")
        assert is_sentence(error)
        with pytest.raises(StoreBusyError, match="took too long"):
            store._database.read(lambda conn: conn.execute("SELECT pg_sleep(30)"))
        assert append(store, "s")
    assert db.get_session_title("s") is None


# Versions


def set_numbers(db: SessionDB, own: int, oldest_reader: int) -> None:
    tamper(
        db,
        f"UPDATE state_meta SET value = '{own}' WHERE key = 'own_schema_version'",
        f"UPDATE state_meta SET value = '{oldest_reader}' WHERE key = 'oldest_reader'",
    )


def test_a_store_of_a_newer_hermes_is_left_alone(db: SessionDB) -> None:
    chat(db, "s")
    set_numbers(db, OWN_SCHEMA_VERSION + 2, OWN_SCHEMA_VERSION + 1)
    with pytest.raises(NewerStoreError, match=r"newer Hermes .*Upgrade Hermes") as error:
        SessionDB(db.db_path)
    assert is_sentence(error)
    assert query(db, "SELECT value FROM state_meta WHERE key = 'own_schema_version'") == [
        (str(OWN_SCHEMA_VERSION + 2),)
    ]


def test_two_versions_of_hermes_work_side_by_side(db: SessionDB) -> None:
    chat(db, "s")
    set_numbers(db, OWN_SCHEMA_VERSION + 2, OLDEST_READER)
    tamper(db, "ALTER TABLE sessions ADD COLUMN from_the_future text")
    with SessionDB(db.db_path) as older:
        append(older, "s")
        older.rotate_session("s", "s2", [{"role": "user", "content": "sum"}])
        assert live(older, "s") == ["sum"]
    # It is not taken back to what the older one knows.
    assert query(db, "SELECT value FROM state_meta WHERE key = 'own_schema_version'") == [
        (str(OWN_SCHEMA_VERSION + 2),)
    ]


def test_an_older_store_is_upgraded_by_one_of_those_who_open_it(db: SessionDB) -> None:
    chat(db, "s")
    before = db.get_messages("s")
    path = db.db_path
    set_numbers(db, OWN_SCHEMA_VERSION - 1, OWN_SCHEMA_VERSION - 1)
    tamper(
        db,
        "ALTER TABLE sessions DROP COLUMN profile_name",
        "DROP INDEX idx_sessions_title_owner_unique",
        "DROP TABLE approval_grants",
        "DROP FUNCTION instr",
    )
    db.close()

    def open_it(number: int) -> Any:
        def work() -> int:
            with SessionDB(path) as store:
                store.create_session(f"new{number}", "cli", profile_name="p")
                return store.append_message(f"new{number}", "user", "hello")

        return work

    assert len(set(race([open_it(number) for number in range(4)]))) == 4
    with SessionDB(path) as store:
        assert store.get_messages("s") == before
        assert (store.get_session("new1") or {})["profile_name"] == "p"
        assert store.list_grants() == []
        assert store.check_store() == []
        numbers = dict(query(store, "SELECT key, value FROM state_meta"))
        assert numbers["own_schema_version"] == str(OWN_SCHEMA_VERSION)
        assert numbers["oldest_reader"] == str(OLDEST_READER)
