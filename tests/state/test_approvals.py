"""Approvals in the store: decided once, in time, with the token; kept as a record."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hermes_state import SessionDB
from hermes_state.approvals import NewApproval

from .children import killed, race


@pytest.fixture
def chat(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli", user_id="ada")
    return db


def ask(db: SessionDB, **given: Any) -> NewApproval:
    facts: dict[str, Any] = {
        "session_id": "s",
        "command": "rm -r x",
        "description": "Delete",
        "pattern_keys": ["recursive-delete"],
        "user_id": "ada",
    }
    return db.create_approval(**{**facts, **given})


def test_a_question_is_kept_until_it_is_decided(chat: SessionDB, db_path: Any) -> None:
    new = ask(chat)
    with SessionDB(db_path) as other:  # after a restart, or from another process
        (pending,) = other.list_pending_approvals("s")
        assert (pending["id"], pending["pattern_keys"]) == (new.id, ["recursive-delete"])
        assert "token_hash" not in pending and new.token not in str(pending)
        assert other.decide_approval(new.id, new.token, "session", "ada")
    found = chat.get_approval(new.id)
    assert found is not None
    assert (found["state"], found["choice"], found["decided_by"]) == ("approved", "session", "ada")
    assert chat.list_pending_approvals() == []


def test_it_is_decided_once_with_the_right_token(chat: SessionDB) -> None:
    new = ask(chat)
    assert not chat.decide_approval(new.id, "guess", "once")
    assert not chat.decide_approval("apr_other", new.token, "once")
    with pytest.raises(ValueError, match="choice must be"):
        chat.decide_approval(new.id, new.token, "maybe")
    assert chat.decide_approval(new.id, new.token, "deny")
    assert not chat.decide_approval(new.id, new.token, "once")
    assert chat.get_approval(new.id)["state"] == "denied"  # type: ignore[index]


def test_nobody_answering_in_time_is_a_denial(chat: SessionDB) -> None:
    new = ask(chat, ttl_seconds=-1.0)
    assert chat.get_approval(new.id)["state"] == "expired"  # type: ignore[index]
    assert not chat.decide_approval(new.id, new.token, "once")
    assert chat.expire_approvals() == 1
    found = chat.get_approval(new.id)
    assert found and (found["state"], found["choice"]) == ("expired", "deny")
    assert chat.expire_approvals() == 0


def test_a_withdrawn_question_cannot_be_answered(chat: SessionDB) -> None:
    new = ask(chat)
    assert chat.cancel_approval(new.id)
    assert not chat.cancel_approval(new.id)
    assert not chat.decide_approval(new.id, new.token, "once")


def test_of_many_who_answer_one_decides(chat: SessionDB, db_path: Any) -> None:
    new = ask(chat)
    wins: list[bool] = []
    barrier = threading.Barrier(8)

    def race(choice: str) -> None:
        with SessionDB(db_path) as other:
            barrier.wait()
            wins.append(other.decide_approval(new.id, new.token, choice))

    threads = [
        threading.Thread(target=race, args=(choice,))
        for choice in ("once", "deny")
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == [False] * 7 + [True]


def test_each_person_sees_their_own(chat: SessionDB) -> None:
    ask(chat)
    chat.create_session("t", "cli", user_id="bob")
    ask(chat, session_id="t", user_id="bob")
    assert [a["session_id"] for a in chat.list_pending_approvals(user_id="bob")] == ["t"]
    assert len(chat.list_pending_approvals()) == 2


def test_always_is_remembered_and_can_be_taken_back(chat: SessionDB) -> None:
    chat.grant_patterns(["a", "b", "a"], "ada")
    assert chat.list_granted_patterns() == ["a", "b"]
    assert chat.revoke_pattern("a")
    assert not chat.revoke_pattern("a")
    assert chat.list_granted_patterns() == ["b"]


def test_of_eight_processes_one_decides(chat: SessionDB, db_path: Any) -> None:
    new = ask(chat)
    chat.close()  # nothing that is open may cross a fork

    def answer(choice: str) -> Any:
        return lambda store: (choice, store.decide_approval(new.id, new.token, choice, choice))

    answers = [answer(choice) for choice in ("once", "session", "always", "deny") * 2]
    outcomes = race(answers, prepare=lambda: SessionDB(db_path))
    (winner,) = [choice for choice, won in outcomes if won]
    with SessionDB(db_path) as store:
        found = store.get_approval(new.id)
    assert found is not None and (found["choice"], found["decided_by"]) == (winner, winner)


def test_a_question_outlives_the_process_that_asked(db_path: Any) -> None:
    def die_asking() -> SessionDB:
        store = SessionDB(db_path)
        store.create_session("s", "cli", user_id="ada")
        ask(store, command="kept")
        ask(store, command="late", ttl_seconds=0.0)
        return store

    killed(die_asking)
    with SessionDB(db_path) as store:
        (pending,) = store.list_pending_approvals("s")
        assert pending["command"] == "kept"
        assert store.expire_approvals() == 1
        assert store.expire_approvals(now=pending["expires_at"]) == 1  # in its time: a denial
        assert store.get_approval(pending["id"])["choice"] == "deny"  # type: ignore[index]


def test_always_is_a_matter_of_each_person(chat: SessionDB) -> None:
    chat.grant_patterns(["a"], "ada")
    chat.grant_patterns(["a", "b"], "bob")
    chat.grant_patterns(["c"], None)
    assert chat.list_patterns_granted_by("ada") == ["a"]
    assert chat.list_patterns_granted_by("bob") == ["a", "b"]
    assert chat.list_patterns_granted_by(None) == ["c"]
    assert chat.list_patterns_granted_by("eve") == []
    assert chat.list_granted_patterns() == ["a", "b", "c"]
    assert chat.revoke_pattern("a")
    assert chat.list_patterns_granted_by("bob") == ["b"]
