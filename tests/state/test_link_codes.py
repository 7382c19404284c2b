"""Codes that link chats: they end, are few, work once, and cannot be guessed from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_state import AsyncSessionDB, LinkOffer, NoLink, SessionDB, link_codes
from hermes_state.link_codes import CODE_SECONDS, CODES_PER_PERSON, WRONG_TRIES

OFFER = LinkOffer("key", "s", "ann")


def given(db: SessionDB, owner: str = "ann") -> str:
    code = db.offer_link("key", "s", owner)
    assert code is not None
    return code


def later(db: SessionDB, seconds: float) -> None:
    """Let time pass: what is kept is that much older."""

    def age(conn: Any) -> None:
        conn.execute("UPDATE link_codes SET expires_at = expires_at - ?", (seconds,))
        conn.execute("UPDATE state_meta SET value = '[]' WHERE key = 'link:wrong_tries'")

    db._execute_write(age)


def test_a_code_works_once_and_in_another_process(db: SessionDB, db_path: Path) -> None:
    code = given(db)
    with SessionDB(db_path) as other:
        assert other.take_link(f" {code.lower()} ", "bob") == OFFER
    assert db.take_link(code, "bob") is NoLink.WRONG


def test_a_code_ends(db: SessionDB) -> None:
    code = given(db)
    later(db, CODE_SECONDS)
    assert db.take_link(code, "bob") is NoLink.WRONG


def test_only_hashes_are_kept(db: SessionDB) -> None:
    code = given(db)
    kept = db._execute_write(lambda conn: repr(list(conn.execute("SELECT * FROM link_codes"))))
    assert "ann" in kept and code not in kept


def test_a_person_is_given_few_codes_even_if_they_are_used(db: SessionDB, db_path: Path) -> None:
    with SessionDB(db_path) as other:
        for number in range(CODES_PER_PERSON):
            store = (db, other)[number % 2]
            assert store.take_link(given(store), "bob") == OFFER
        assert other.offer_link("key", "s", "ann") is None
    assert db.offer_link("key", "s", "cat") is not None, "others are given theirs"
    later(db, CODE_SECONDS)
    assert db.offer_link("key", "s", "ann") is not None
    count = db._execute_write(
        lambda conn: conn.execute("SELECT COUNT(*) FROM link_codes").fetchone()
    )
    assert count[0] == 1, "what has ended is forgotten"


def test_there_are_few_codes_at_once(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_codes, "CODES_AT_ONCE", 3)
    codes = [given(db, f"person {number}") for number in range(3)]
    assert db.offer_link("key", "s", "ann") is None
    assert isinstance(db.take_link(codes[0], "bob"), LinkOffer)
    assert db.offer_link("key", "s", "ann") is not None


def test_guessing_is_counted_over_all_processes(db: SessionDB, db_path: Path) -> None:
    code = given(db)
    with SessionDB(db_path) as other:
        for number in range(WRONG_TRIES):
            assert (db, other)[number % 2].take_link("WRONG", "bob") is NoLink.WRONG
        assert other.take_link(code, "bob") is NoLink.TOO_MANY_TRIES
    assert db.take_link(code, "bob") is NoLink.TOO_MANY_TRIES
    assert db.take_link(code, "cat") == OFFER, "others may still"


def test_guessing_by_many_is_stopped_too(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_codes, "WRONG_TRIES_OF_ALL", 7)
    code = given(db)
    for number in range(7):
        assert db.take_link("WRONG", f"guesser {number}") is NoLink.WRONG
    assert db.take_link(code, "bob") is NoLink.TOO_MANY_TRIES
    later(db, 0)
    assert db.take_link(code, "bob") == OFFER


async def test_coroutines_give_and_take_them(db: SessionDB) -> None:
    store = AsyncSessionDB(db)
    code = await store.offer_link("key", "s", "ann")
    assert code is not None
    assert await store.take_link(code, "bob") == OFFER
