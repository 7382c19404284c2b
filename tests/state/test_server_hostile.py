"""A server that others have had their hands on, and addresses that give away a password."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_state import SessionDB, StoreError, StoreUnavailableError
from hermes_state.server_connection import connect
from hermes_state.server_report import examine

from .interleaving import append, chat, live
from .raw import address, check_sound, tamper

pytestmark = pytest.mark.parametrize("database", ["postgres"], indirect=True)

SECRET = "s3cr3tPW"


# Addresses


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}%zz@127.0.0.1:1/db",
        f"postgresql://u:{SECRET}%00@127.0.0.1:1/db",
        f"postgresql://u:a b{SECRET}@127.0.0.1:1/db",
        f"postgresql://u:{SECRET}\n@127.0.0.1:1/db",
        f"postgresql://u:{SECRET}@[::1/db",
        f"postgresql://u:{SECRET}@127.0.0.1:99999/db",
        f"postgresql://u:{SECRET}@127.0.0.1:abc/db",
        f"postgresql://u:a@{SECRET}@127.0.0.1:1/db",
        f"postgresql://u:a/{SECRET}@127.0.0.1:1/db",
        f"postgresql://u:a?{SECRET}@127.0.0.1:1/db",
        f"postgresql://u:{SECRET}#x@127.0.0.1:1/db",
        f"postgresql://u:{SECRET}",
        f"postgresql://u@127.0.0.1:1/db?password={SECRET}&password=%zz",
        f"postgresql://u@127.0.0.1:1/db?password={SECRET}&nonsense=1",
        f"postgresql://u:{SECRET}@127.0.0.1:1/db?connect_timeout=soon",
        f"postgresql://u:{SECRET}@127.0.0.1:1/db?sslmode=perhaps",
        f"postgresql://u:{SECRET}@127.0.0.1:1,127.0.0.1:2/db?target_session_attrs=any",
        f"POSTGRESQL://u:{SECRET}@127.0.0.1:1/db",
        f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/db",
        f"postgresql:/u:{SECRET}@127.0.0.1:1/db",
        f"host=127.0.0.1 port=1 user=u password={SECRET}",
    ],
)
def test_no_address_shows_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError) as error:
        SessionDB(tmp_path / "state.db", server=url)
    assert SECRET not in "".join(traceback.format_exception(error.value))
    remarks = examine(url, 8)
    assert [one.level for one in remarks] == ["wrong"]
    assert SECRET not in str(remarks)


def test_what_is_wrong_with_an_address_is_said() -> None:
    for url, said in {
        "postgresql://u:a%zz@h/db": "a space as %20",
        "postgresql://u:a@b@h/db": "@ as %40",
        "mysql://u@h/db": "must begin with postgresql://",
        "postgresql://u@127.0.0.1:1/db?connect_timeout=soon": "bad value for connect_timeout",
    }.items():
        with pytest.raises(StoreUnavailableError, match=said):
            connect(url, 1.0)


# Tables that are not as we made them


@pytest.fixture
def elsewhere(db: SessionDB) -> Iterator[Any]:
    """A connection of another program to the store's database."""
    with psycopg.connect(address(db), autocommit=True) as connection:
        yield connection


def give_trigger(connection: Any, body: str) -> None:
    connection.execute(
        "CREATE OR REPLACE FUNCTION strange() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN {body}; END$$"
    )
    connection.execute(
        "CREATE OR REPLACE TRIGGER strange BEFORE INSERT ON messages FOR EACH ROW"
        " EXECUTE FUNCTION strange()"
    )


@pytest.mark.parametrize("body", ["RETURN NULL", "RAISE EXCEPTION 'no'", "RAISE unique_violation"])
def test_a_trigger_that_drops_a_message_is_told(db: SessionDB, elsewhere: Any, body: str) -> None:
    chat(db, "s")
    give_trigger(elsewhere, body)
    with pytest.raises(StoreError):
        append(db, "s")
    assert live(db, "s") == ["one", "two"]
    assert (db.get_session("s") or {})["message_count"] == 2
    elsewhere.execute("DROP TRIGGER strange ON messages")
    assert append(db, "s")
    check_sound(db)


def test_a_check_tells_of_strange_triggers_rules_and_policies(
    db: SessionDB, elsewhere: Any
) -> None:
    def wrong() -> str:
        return " ".join(one.text for one in examine(address(db), 8) if one.level == "wrong")

    assert "which Hermes did not create" not in wrong()
    give_trigger(elsewhere, "RETURN NEW")
    elsewhere.execute("CREATE RULE quiet AS ON DELETE TO sessions DO INSTEAD NOTHING")
    elsewhere.execute("ALTER TABLE turns ENABLE ROW LEVEL SECURITY")
    said = wrong()
    for what in ("trigger strange on messages", "rule quiet on sessions", "row security on turns"):
        assert what in said


def test_tables_that_a_newer_hermes_changes_beside_us(db: SessionDB, elsewhere: Any) -> None:
    """Statements that were prepared before are prepared anew, and nobody notices."""
    chat(db, "s")
    message = {"role": "user", "content": "x"}

    def work() -> None:
        lease = db.begin_turn("s", message, source="cli", facts={}, leased=True).lease
        assert lease is not None and db.get_turn("s") is not None
        assert db.get_session("s") is not None and db.get_messages("s")
        assert db.list_abandoned_turns() == []
        db.end_turn(lease)

    for _ in range(6):  # more often than it takes until they are prepared
        work()
    for number in range(3):
        for table in ("turns", "sessions", "messages", "inbox"):
            elsewhere.execute(f"ALTER TABLE {table} ADD COLUMN of_tomorrow{number} text")
        work()
    check_sound(db)


def test_a_table_that_is_gone_is_told_in_a_sentence(db: SessionDB) -> None:
    chat(db, "s")
    tamper(db, "ALTER TABLE messages RENAME TO hidden")
    try:
        with pytest.raises(StoreError, match=r"messages.* does not exist"):
            append(db, "s")
    finally:
        tamper(db, "ALTER TABLE hidden RENAME TO messages")
    assert append(db, "s")
