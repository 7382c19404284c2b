"""Approvals in the store: decided once, in time, with the token; kept as a record."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hermes_state import SUB_AGENT, SessionDB
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


def test_whoever_asked_gets_the_answer_that_counts(chat: SessionDB) -> None:
    new = ask(chat)
    own = chat.settle_approval(new.id, "session", "ada")
    assert own and (own["choice"], own["how"], own["decided_by"]) == ("session", "person", "ada")
    first = ask(chat)
    assert chat.decide_approval(first.id, first.token, "deny", "bob")
    found = chat.settle_approval(first.id, "once", "ada")
    assert found and (found["state"], found["decided_by"]) == ("denied", "bob")
    late = ask(chat, ttl_seconds=-1.0)
    found = chat.settle_approval(late.id, "once", "ada")
    assert found and (found["state"], found["choice"], found["how"]) == (
        "expired", "deny", "timeout",
    )  # fmt: skip
    assert chat.settle_approval("apr_none", "once") is None


def test_a_token_is_renewed_for_its_owner_and_the_old_one_is_void(
    chat: SessionDB, db_path: Any
) -> None:
    new = ask(chat)
    with SessionDB(db_path) as front_end:  # after a restart: the old token is nowhere any more
        (pending,) = front_end.list_pending_approvals(user_id="ada")
        for stranger in ("bob", "", None):
            assert front_end.renew_approval_token(pending["id"], stranger) is None
        renewed = front_end.renew_approval_token(pending["id"], "ada")
        assert renewed is not None and renewed.expires_at == new.expires_at
        assert not front_end.decide_approval(new.id, new.token, "once", "ada")
        assert front_end.decide_approval(renewed.id, renewed.token, "once", "ada")
        assert not front_end.decide_approval(renewed.id, renewed.token, "once", "ada")
        assert front_end.renew_approval_token(new.id, "ada") is None


def test_nothing_is_renewed_that_is_over(chat: SessionDB) -> None:
    late, stopped = ask(chat, ttl_seconds=-1.0), ask(chat)
    chat.cancel_approval(stopped.id)
    assert chat.renew_approval_token(late.id, "ada") is None
    assert chat.renew_approval_token(stopped.id, "ada") is None
    assert chat.settle_at_startup()["approvals_expired"] == 1
    assert chat.get_approval(late.id)["how"] == "timeout"  # type: ignore[index]


def test_renewing_is_safe_against_deciding(chat: SessionDB, db_path: Any) -> None:
    """Of an answer with the old token and a renewal, one wins: never both, never neither."""
    new = ask(chat)
    chat.close()
    jobs: list[Any] = [
        lambda store: ("decided", store.decide_approval(new.id, new.token, "once", "ada")),
        lambda store: ("renewed", store.renew_approval_token(new.id, "ada") is not None),
    ]
    outcomes = race(jobs, prepare=lambda: SessionDB(db_path))
    assert sorted(won for _, won in outcomes) == [False, True]


def question(**given: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "session_id": "s",
        "command": "rm -r x",
        "description": "Delete",
        "pattern_keys": ["recursive-delete"],
        "user_id": "ada",
    }
    return {**facts, **given}


@pytest.mark.parametrize("choice", ["once", "always", "deny"])
def test_an_answer_for_which_nobody_waited_counts_once(chat: SessionDB, choice: str) -> None:
    new = ask(chat)
    assert chat.decide_approval(new.id, new.token, choice, "ada")
    others: list[dict[str, Any]] = [
        {"command": "rm -r y"}, {"description": "Other"}, {"pattern_keys": ["delete"]},
        {"user_id": "bob"}, {"user_id": None}, {"session_id": "nobody"},
    ]  # fmt: skip
    for other in others:
        assert chat.take_late_answer(**question(**other)) is None
    found = chat.take_late_answer(**question())
    assert found and (found["id"], found["choice"]) == (new.id, choice)
    assert chat.take_late_answer(**question()) is None


def test_a_late_answer_follows_the_conversation_and_lapses(chat: SessionDB) -> None:
    kept, old = ask(chat), ask(chat, command="old", ttl_seconds=60.0)
    for one in (kept, old):
        assert chat.decide_approval(one.id, one.token, "once", "ada")
    chat._execute_write(
        lambda conn: conn.execute("UPDATE approvals SET decided_at = decided_at - 61")
    )
    chat.rotate_session("s", "s2", [{"role": "user", "content": "summary"}])
    assert chat.take_late_answer(**question(session_id="s2", command="old")) is None
    assert chat.take_late_answer(**question(session_id="s2")) is not None


def test_an_answer_that_was_waited_for_is_not_there_again(chat: SessionDB) -> None:
    for _ in range(2):
        new = ask(chat)
        chat.decide_approval(new.id, new.token, "once", "ada")
        chat.settle_approval(new.id, "deny")
    stopped = ask(chat)
    chat.decide_approval(stopped.id, stopped.token, "once", "ada")
    assert not chat.cancel_approval(stopped.id)  # the turn was stopped in the same moment
    chat.record_approval(**question(approved=True, how="off"))
    assert chat.take_late_answer(**question()) is None


def test_a_decision_nobody_was_asked_about_is_kept(chat: SessionDB) -> None:
    assert chat.record_approval(**question(approved=True, how="off"))
    assert chat.record_approval(
        **question(approved=False, how="smart", choice="smart_deny", command="x" * 50_000)
    )
    assert not chat.record_approval(**question(session_id="nobody", approved=True, how="off"))
    second, first = chat.list_approvals("s", "ada")
    assert (first["state"], first["how"], first["choice"]) == ("approved", "off", None)
    assert (second["state"], second["choice"]) == ("denied", "smart_deny")
    assert len(second["command"]) < 21_000 and "30,000 characters more" in second["command"]
    assert chat.list_pending_approvals() == []
    assert not chat.decide_approval(first["id"], "", "deny")
    assert chat.list_approvals("s", limit=1) == [second]
    assert chat.list_approvals(user_id="bob") == []


def test_a_deleted_session_takes_its_approvals_along(chat: SessionDB) -> None:
    chat.create_session("t", "cli", user_id="ada")
    chat.create_session("d", "tool", parent_session_id="s", model_config={"_delegate_from": "s"})
    for session in ("s", "t", "d"):
        ask(chat, session_id=session)
    chat.delete_session("s")
    assert {one["session_id"] for one in chat.list_approvals()} == {"t"}
    chat.delete_conversation("t")
    assert chat.list_approvals() == []


def test_whoever_is_in_the_conversation_may_answer_and_nobody_else(chat: SessionDB) -> None:
    chat.create_session("other", "cli", user_id="ada")
    new = ask(chat)
    assert chat.list_asked_approvals("other") == []
    assert not chat.decide_asked_approval(new.id, "other", "once", "ada")
    assert not chat.decide_asked_approval(new.id, "unknown", "once", "ada")
    assert not chat.decide_asked_approval("apr_none", "s", "once", "ada")
    assert [asked["id"] for asked in chat.list_asked_approvals("s")] == [new.id]
    chat.rotate_session("s", "s2", [{"role": "user", "content": "so far"}])
    assert [asked["id"] for asked in chat.list_asked_approvals("s2")] == [new.id]
    assert not chat.decide_asked_approval(new.id, "s2", "always", "bob")  # it would be ada's
    assert chat.decide_asked_approval(new.id, "s2", "session", "bob")
    assert not chat.decide_asked_approval(new.id, "s2", "deny", "ada")
    decided = chat.settle_approval(new.id, "deny", "ada")
    assert decided and (decided["choice"], decided["decided_by"]) == ("session", "bob")
    assert chat.list_asked_approvals("s2") == []
    mine = ask(chat, session_id="s2")
    assert chat.decide_asked_approval(mine.id, "s2", "always", "ada")
    with pytest.raises(ValueError, match="choice must be"):
        chat.decide_asked_approval(mine.id, "s2", "perhaps", "ada")


def test_what_a_sub_agent_asks_is_asked_in_the_conversation_it_works_for(chat: SessionDB) -> None:
    chat.create_session("helper", SUB_AGENT, user_id="ada", parent_session_id="s")
    chat.create_session("helper2", SUB_AGENT, user_id="ada", parent_session_id="helper")
    chat.create_session("branch", "cli", user_id="ada", parent_session_id="s")
    new = ask(chat, session_id="helper2")
    ask(chat, session_id="branch")
    assert [asked["id"] for asked in chat.list_asked_approvals("s")] == [new.id]
    assert chat.decide_asked_approval(new.id, "s", "once", "ada")


def test_one_of_many_answers_counts(chat: SessionDB, db_path: Any) -> None:
    new = ask(chat)
    chat.close()

    def answer(choice: str) -> Any:
        return lambda store: store.decide_asked_approval(new.id, "s", choice, "ada")

    answers = race([answer("once"), answer("deny"), answer("session")],
                   prepare=lambda: SessionDB(db_path))  # fmt: skip
    assert sorted(answers) == [False, False, True]
