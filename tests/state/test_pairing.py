"""Pairing: a stranger's code lets in exactly that stranger, for a while, and cannot be guessed."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_state import SessionDB, pairing
from hermes_state.pairing import CODE_PAUSE, SHOWN, WRONG_TRIES


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
    first, *more = [db.offer_pairing("telegram", "42") for _ in range(5)]
    assert first is not None and more == [None] * 4
    assert db.offer_pairing("telegram", "") is None

    def later(conn: Any) -> None:
        conn.execute("UPDATE pairing_codes SET created_at = created_at - ?", (CODE_PAUSE,))

    db._execute_write(later)
    assert db.offer_pairing("telegram", "42") not in (None, first)
    assert db.approve_pairing(first) is not None, "the first is still good"


def test_a_flood_of_strangers_keeps_nobody_out(db: SessionDB) -> None:
    def flood(conn: Any, name: str) -> None:
        for number in range(1000):
            assert pairing.offer_pairing(conn, "telegram", f"{name}{number}") is not None
            assert pairing.offer_pairing(conn, "telegram", f"{name}{number}") is None

    db._execute_write(lambda conn: flood(conn, "before"))
    code = db.offer_pairing("telegram", "42", "Ann")
    db._execute_write(lambda conn: flood(conn, "after"))
    assert code is not None
    assert len([one for one in db.list_paired() if one["waiting"]]) == SHOWN
    assert db.approve_pairing(code) == ("telegram", "42", "Ann")


def test_what_a_flood_leaves_is_bounded(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "KEPT_PER_PLATFORM", 20)
    elsewhere = db.offer_pairing("matrix", "42")
    lost = db.offer_pairing("telegram", "early")
    for number in range(50):
        db.offer_pairing("telegram", f"flood{number}")
    latest = db.offer_pairing("telegram", "late")

    def count(conn: Any) -> int:
        found = conn.execute("SELECT COUNT(*) FROM pairing_codes WHERE platform = 'telegram'")
        return int(next(iter(found))[0])

    assert db._execute_write(count) == 20
    assert lost is not None and latest is not None and elsewhere is not None
    assert db.approve_pairing(latest) and db.approve_pairing(elsewhere)
    assert db.approve_pairing(lost) is None
    assert db.offer_pairing("telegram", "early") is not None, "whose code was lost gets another"


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
    assert 3500 < db.pairing_pause() <= 3600

    def hour_later(conn: Any) -> None:
        conn.execute("UPDATE state_meta SET value = '1.0:10' WHERE key = 'pairing:wrong_tries'")

    db._execute_write(hour_later)
    assert db.pairing_pause() == 0
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


def test_nothing_goes_on_for_somebody_who_was_put_out(db: SessionDB) -> None:
    """Their jobs and goals wait; those of somebody who comes by another door as well go on."""
    for number in ("42", "43"):
        code = db.offer_pairing("telegram", number, f"P{number}")
        assert code is not None and db.approve_pairing(code) is not None
        person = db.ensure_person(f"telegram:{number}").id
        db.add_job(
            f"j{number}", user_id=person, name="tea", schedule="daily 09:00", timezone="UTC",
            settings={}, next_due=2**40, next_at=2.0**40,
        )  # fmt: skip
        db.create_session(f"s{number}", "telegram", user_id=person)
        db.set_goal(f"s{number}", "Go on", "go on", by=person)
    db.join_door("api_server:key", "telegram:43")
    for number in ("42", "43"):
        assert db.revoke_pairing("telegram", number)
    states = [
        (job["state"], goal["status"])
        for number in ("42", "43")
        if (job := db.get_job(f"j{number}")) and (goal := db.get_goal(f"s{number}"))
    ]
    assert states == [("paused", "paused"), ("active", "active")]
