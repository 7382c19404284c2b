"""Imports: ids are names, and somebody who is not the operator imports for themselves."""

from typing import Any

import pytest

from hermes_state import SessionDB

UNSAFE = [
    "../../x", "..", "/etc/passwd", "a/b", "a\\b", "C:\\x", ".hidden", "-rf", "~root", "a\0b",
    "a\nb", "x" * 300, "a..b",
]  # fmt: skip


def exported(session_id: str, **facts: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hello"}]
    return {"id": session_id, "source": "cli", "messages": messages, **facts}


@pytest.mark.parametrize("unsafe", UNSAFE)
def test_an_id_that_is_no_name_is_replaced(db: SessionDB, unsafe: str) -> None:
    child = exported("child", parent_session_id=unsafe)
    report = db.import_sessions([exported(unsafe), child])
    assert report["ok"], report
    new = report["renamed"][unsafe]
    assert report["imported_ids"] == [new, "child"]
    assert new.startswith("imported_") and new.isidentifier()
    assert db.get_session(unsafe) is None
    assert db.message_count(new) == 1
    row = db.get_session("child")
    assert row is not None and row["parent_session_id"] == new
    again = db.import_sessions([exported(unsafe)])
    assert (again["imported"], again["skipped"]) == (0, 1)


@pytest.mark.parametrize("name", ["20261116_140755_bb8ae0", "cron_a_1", "a b", "agent:x@y", "日本"])
def test_an_ordinary_id_is_kept(db: SessionDB, name: str) -> None:
    report = db.import_sessions([exported(name)])
    assert report["imported_ids"] == [name] and report["renamed"] == {}


def test_the_operator_brings_owners_along(db: SessionDB) -> None:
    db.import_sessions([exported("s", user_id="ada")])
    row = db.get_session("s")
    assert row is not None and row["user_id"] == "ada"


def test_somebody_elses_import_is_their_own(db: SessionDB) -> None:
    db.create_session("secret", "telegram", user_id="ada")
    db.append_message("secret", "user", "a secret")
    payload = [
        exported("mine", user_id="ada", title="Plan"),
        exported("secret", user_id="ada"),
        exported("child", user_id="ada", parent_session_id="secret"),
        exported("orphan", parent_session_id="nowhere"),
    ]
    report = db.import_sessions(payload, user_id="eve")
    assert report["ok"] and report["imported"] == 4 and report["skipped"] == 0
    assert [row["user_id"] for row in db.search_sessions() if row["id"] != "secret"] == ["eve"] * 4
    assert db.message_count("secret") == 1
    own = report["renamed"]["secret"]
    child = db.get_session("child")
    assert child is not None and child["parent_session_id"] == own


def test_nothing_is_hung_on_another_owners_session(db: SessionDB) -> None:
    db.create_session("secret", "telegram", user_id="ada")
    theirs = db.import_sessions([exported("x", parent_session_id="secret")], user_id="eve")
    nobodys = db.import_sessions([exported("y", parent_session_id="nowhere")], user_id="eve")
    assert theirs["detached"] == nobodys["detached"] == 1
    assert {row["id"] for row in db.get_family("secret")} == {"secret"}
