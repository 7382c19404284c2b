"""Pairing: a stranger's code lets in exactly that stranger, for a while, and cannot be guessed."""

from __future__ import annotations

from typing import Any

from hermes_state import SessionDB
from hermes_state.pairing import CODES_PER_HOUR, WAITING_AT_ONCE, WRONG_TRIES


def test_a_code_lets_its_owner_in(db: SessionDB) -> None:
    code = db.offer_pairing("telegram", "42", "Ann")
    assert code is not None
    assert not db.is_paired("telegram", "42")
    assert db.approve_pairing(f" {code.lower()} ") == ("telegram", "42", "Ann")
    assert db.is_paired("telegram", "42")
    assert not db.is_paired("matrix", "42")
    assert db.approve_pairing(code) is None, "a code is good once"


def test_the_code_itself_is_not_kept(db: SessionDB) -> None:
    code = db.offer_pairing("telegram", "42")

    def everything(conn: Any) -> str:
        return repr(list(conn.execute("SELECT * FROM pairing_codes")))

    assert code is not None
    assert code not in db._execute_write(everything)


def test_codes_are_given_sparingly(db: SessionDB) -> None:
    given = [db.offer_pairing("telegram", "42") for _ in range(CODES_PER_HOUR + 2)]
    assert sum(code is not None for code in given) == CODES_PER_HOUR
    for number in range(WAITING_AT_ONCE):
        db.offer_pairing("telegram", f"flood{number}")
    assert db.offer_pairing("telegram", "late") is None
    assert db.offer_pairing("telegram", "") is None


def test_codes_grow_old(db: SessionDB) -> None:
    code = db.offer_pairing("telegram", "42")
    assert code is not None
    db._execute_write(lambda conn: conn.execute("UPDATE pairing_codes SET expires_at = 1"))
    assert db.approve_pairing(code) is None
    assert db.offer_pairing("telegram", "42") is not None


def test_guessing_stops_even_a_right_code_for_a_while(db: SessionDB) -> None:
    code = db.offer_pairing("telegram", "42")
    assert code is not None
    for _ in range(WRONG_TRIES):
        assert db.approve_pairing("WRONG") is None
    assert db.approve_pairing(code) is None

    def hour_later(conn: Any) -> None:
        conn.execute("UPDATE state_meta SET value = '1.0:10' WHERE key = 'pairing:wrong_tries'")

    db._execute_write(hour_later)
    assert db.approve_pairing(code) is not None


def test_who_was_let_in_can_be_put_out(db: SessionDB) -> None:
    code = db.offer_pairing("telegram", "42", "Ann")
    db.offer_pairing("telegram", "43", "Bob")
    assert code is not None
    db.approve_pairing(code)
    assert [(one["user_name"], one["waiting"]) for one in db.list_paired()] == [
        ("Ann", False),
        ("Bob", True),
    ]
    assert db.revoke_pairing("telegram", "42")
    assert not db.revoke_pairing("telegram", "42")
    assert not db.is_paired("telegram", "42")
