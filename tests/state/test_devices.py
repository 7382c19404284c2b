"""Web devices: let in by a code that works once, known by a key that is not kept, revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_state import EVERYONE, NOBODY, OPERATOR, NewDevice, NoLink, PersonError, SessionDB
from hermes_state.link_codes import LONG_CODES_PER_PERSON, WRONG_TRIES
from hermes_state.schema import TABLES

from .raw import query


def made(db: SessionDB, person_id: str, name: str = "phone", scope: str = "full") -> NewDevice:
    code = db.offer_device_code(person_id, scope)
    assert code is not None
    new = db.make_device(code, name, "127.0.0.1")
    assert isinstance(new, NewDevice)
    return new


def test_a_code_lets_one_device_in_and_its_key_says_who_comes(db: SessionDB) -> None:
    ada = db.ensure_person("telegram:1", "Ada")
    code = db.offer_device_code(ada.id, "read")
    assert code is not None and len(code) == 26
    new = db.make_device(f" {code.lower()} ", "  my\nphone ", "10.0.0.1")
    assert isinstance(new, NewDevice)
    assert (new.device.name, new.device.scope, new.device.person) == ("my phone", "read", ada)
    assert db.make_device(code, "another", "10.0.0.1") is NoLink.WRONG
    assert db.find_device(new.key) == db.get_device(new.device.id) == new.device
    assert db.find_device(new.key + "x") is None and db.find_device("") is None
    assert db.find_person(new.device.door) == ada
    assert db.list_doors(ada.id) == ["telegram:1", new.device.door]


def test_the_operator_has_devices_without_any_set_up(db: SessionDB) -> None:
    new = made(db, OPERATOR)
    assert new.device.person.is_operator and new.device.person.id == OPERATOR
    assert db.list_devices(OPERATOR) == [new.device]
    assert db.find_device(new.key) == new.device


def test_neither_key_nor_code_is_kept(db: SessionDB) -> None:
    code = db.offer_device_code(OPERATOR)
    new = made(db, OPERATOR)
    for table in TABLES:
        kept = str(query(db, f"SELECT * FROM {table}"))
        assert new.key not in kept and str(code) not in kept, table


def test_revoked_is_gone_and_only_one_s_own_can_be(db: SessionDB) -> None:
    ada, bob = db.ensure_person("telegram:1", "Ada"), db.ensure_person("telegram:2", "Bob")
    new, other = made(db, ada.id), made(db, bob.id)
    assert db.list_devices(ada.id) == [new.device]
    assert db.list_devices(EVERYONE) == [new.device, other.device]
    assert db.list_devices(NOBODY) == []
    assert not db.revoke_device(new.device.id, bob.id), "another's is as one that is not there"
    assert not db.revoke_device("nothing", bob.id)
    assert not db.rename_device(new.device.id, "mine", bob.id)
    assert db.rename_device(new.device.id, "tablet", ada.id)
    renamed = db.find_device(new.key)
    assert renamed is not None and renamed.name == "tablet"
    assert db.revoke_device(new.device.id, ada.id)
    assert db.find_device(new.key) is None and db.find_person(new.device.door) is None
    assert db.revoke_device(other.device.id, EVERYONE), "the operator revokes anybody's"
    assert db.list_devices(EVERYONE) == []


def test_a_device_follows_its_person_through_merges_and_goes_with_them(db: SessionDB) -> None:
    ada, bob = db.ensure_person("telegram:1", "Ada"), db.ensure_person("telegram:2", "Bob")
    new = made(db, bob.id)
    waiting = db.offer_device_code(bob.id)
    assert waiting is not None
    merge = db.merge_persons(bob.id, ada.id)
    device = db.find_device(new.key)
    assert device is not None and device.person == ada
    assert db.make_device(waiting, "late", "x") is NoLink.WRONG, "a code of who is gone"
    db.unmerge_persons(merge.id)
    device = db.find_device(new.key)
    assert device is not None and device.person.name == "Bob"
    db.remove_person(bob.id)
    assert db.find_device(new.key) is None and db.list_devices(EVERYONE) == []
    assert query(db, "SELECT * FROM web_devices") == []


def test_what_a_role_is_holds_at_the_next_look(db: SessionDB) -> None:
    ada = db.ensure_person("telegram:1", "Ada")
    new = made(db, ada.id)
    db.set_person_role(ada.id, "guest")
    device = db.find_device(new.key)
    assert device is not None and device.person.role == "guest"


def test_short_codes_are_few_and_not_guessed(db: SessionDB) -> None:
    code = db.offer_device_code(OPERATOR, typed=True)
    assert code is not None and len(code) == 8
    for _ in range(WRONG_TRIES):
        assert db.make_device("WRONGONE", "x", "10.0.0.1") is NoLink.WRONG
    assert db.make_device(code, "x", "10.0.0.1") is NoLink.TOO_MANY_TRIES
    assert isinstance(db.make_device(code, "x", "10.0.0.2"), NewDevice), "others are not held up"
    person_code = db.offer_person_code(OPERATOR)
    assert person_code is not None, "nor are people who link their chats"
    given = [db.offer_device_code(OPERATOR, typed=True) for _ in range(5)]
    assert given[-1] is None
    assert db.offer_device_code(OPERATOR) is not None


def test_long_codes_hold_two_minutes(db: SessionDB) -> None:
    code = db.offer_device_code(OPERATOR)
    assert code is not None
    db._execute_write(
        lambda conn: conn.execute("UPDATE link_codes SET expires_at = expires_at - 120")
    )
    assert db.make_device(code, "x", "y") is NoLink.WRONG
    for _ in range(LONG_CODES_PER_PERSON):
        assert db.offer_device_code(OPERATOR) is not None
    assert db.offer_device_code(OPERATOR) is None


def test_what_cannot_be_is_refused(db: SessionDB) -> None:
    with pytest.raises(PersonError, match="no person"):
        db.offer_device_code("telegram:9")
    with pytest.raises(PersonError, match="one of full, read"):
        db.offer_device_code(OPERATOR, "everything")


def test_last_used_is_written_seldom_and_another_process_sees_all(
    db: SessionDB, db_path: Path
) -> None:
    new = made(db, OPERATOR)
    assert new.device.used_at is None
    with SessionDB(db_path) as other:
        other.note_device_used(new.device.id)
        first = db.find_device(new.key)
        assert first is not None and first.used_at is not None
        other.note_device_used(new.device.id)
        assert db.find_device(new.key) == first
        other.revoke_device(new.device.id, OPERATOR)
    assert db.find_device(new.key) is None
