"""The inbox: what was accepted is waiting or stored, never both and never neither."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hermes_state import SessionDB
from hermes_state.errors import AlreadyTakenError
from hermes_state.inbox import INBOX_ID, KEPT_SECONDS


def begin(db: SessionDB, session_id: str, text: str, inbox_id: str) -> Any:
    message = {"role": "user", "content": text, INBOX_ID: inbox_id}
    return db.begin_turn(session_id, message, source="tui", facts={})


def test_a_message_is_accepted_once(db: SessionDB) -> None:
    assert db.accept_message("telegram:7:1", "s", "hello", source="telegram")
    assert not db.accept_message("telegram:7:1", "s", "hello again", source="telegram")
    assert [one["content"] for one in db.list_waiting()] == ["hello"]


def test_accepting_makes_no_session(db: SessionDB) -> None:
    db.accept_message("a", "later", "hello")
    assert db.get_session("later") is None


def test_a_turn_takes_it_with_the_same_step_that_stores_it(db: SessionDB) -> None:
    db.accept_message("a", "s", "hello", platform_message_id="77", facts={"cwd": "/w"})
    assert db.list_waiting("s")[0]["facts"] == {"cwd": "/w"}
    begin(db, "s", "hello", "a")
    assert db.list_waiting("s") == []
    assert db.has_platform_message_id("s", "77")
    assert [one["content"] for one in db.get_messages("s")] == ["hello"]


def test_a_second_turn_gets_nothing_and_stores_nothing(db: SessionDB) -> None:
    db.accept_message("a", "s", "hello")
    begin(db, "s", "hello", "a")
    with pytest.raises(AlreadyTakenError, match="a was taken"):
        begin(db, "s", "hello", "a")
    with pytest.raises(AlreadyTakenError):
        begin(db, "never accepted", "hello", "b")
    assert [one["content"] for one in db.get_messages("s")] == ["hello"]
    assert db.get_session("never accepted") is None


def test_a_redelivery_after_the_turn_does_nothing(db: SessionDB) -> None:
    db.accept_message("a", "s", "hello")
    begin(db, "s", "hello", "a")
    assert not db.accept_message("a", "s", "hello")
    assert db.list_waiting() == []


def test_one_of_many_that_race_takes_it(db: SessionDB) -> None:
    db.accept_message("a", "s", "hello")
    taken: list[str] = []
    start = threading.Barrier(8)

    def race(name: str) -> None:
        start.wait()
        try:
            begin(db, "s", "hello", "a")
        except AlreadyTakenError:
            return
        taken.append(name)

    threads = [threading.Thread(target=race, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    assert db.message_count("s") == 1


def test_steering_is_taken_with_its_step(db: SessionDB) -> None:
    db.create_session("s", "tui")
    db.accept_message("a", "s", "rather this")
    db.record_step("s", [{"role": "user", "content": "rather this", INBOX_ID: "a"}])
    assert db.list_waiting("s") == []


def test_steering_that_was_taken_back_is_left_out_of_its_step(db: SessionDB) -> None:
    db.create_session("s", "tui")
    for name in ("a", "b"):
        db.accept_message(name, "s", name)
    db.drop_message("a")
    answer = {"role": "assistant", "content": "So far."}
    steering = [{"role": "user", "content": name, INBOX_ID: (name,)} for name in ("a", "b")]
    recorded = db.record_step("s", [answer, *steering])
    assert recorded.left_out == (("a",),)
    assert recorded.others_wrote  # its copy of the conversation would not be what is stored
    assert [one["content"] for one in db.get_messages("s")] == ["So far.", "b"]


def test_the_parts_of_a_message_are_taken_together_or_not_at_all(db: SessionDB) -> None:
    db.create_session("s", "telegram")
    for name in ("a", "b", "c"):
        db.accept_message(name, "s", name, platform_message_id=f"p{name}")
    db.record_step("s", [{"role": "user", "content": "ab", INBOX_ID: ("a", "b")}])
    assert [one["id"] for one in db.list_waiting("s")] == ["c"]
    assert db.has_platform_message_id("s", "pa")
    with pytest.raises(AlreadyTakenError):
        db.record_step("s", [{"role": "user", "content": "cb", INBOX_ID: ("c", "b")}])
    assert [one["id"] for one in db.list_waiting("s")] == ["c"]
    assert db.message_count("s") == 1


def test_what_waits_follows_the_conversation(db: SessionDB) -> None:
    db.create_session("s", "tui")
    db.append_message("s", "user", "one")
    db.accept_message("a", "s", "first")
    db.rotate_session("s", "s2", [{"role": "user", "content": "summary"}])
    db.accept_message("b", "s2", "second")
    assert [one["id"] for one in db.list_waiting("s2")] == ["a", "b"]
    assert [one["id"] for one in db.list_waiting("s")] == ["a", "b"]


def test_what_was_taken_back_cannot_be_taken(db: SessionDB) -> None:
    db.accept_message("a", "s", "hello")
    assert db.drop_message("a")
    assert not db.drop_message("a")
    with pytest.raises(AlreadyTakenError):
        begin(db, "s", "hello", "a")


def test_text_is_not_kept_twice_and_old_rows_go(db: SessionDB) -> None:
    db.accept_message("a", "s", "hello")
    begin(db, "s", "hello", "a")
    db.accept_message("b", "s", "still waiting")

    def look(conn: Any) -> list[Any]:
        return list(conn.execute("SELECT id, content FROM inbox ORDER BY id"))

    assert db._execute_write(look) == [("a", None), ("b", "still waiting")]
    db._execute_write(
        lambda conn: conn.execute("UPDATE inbox SET updated_at = updated_at - ?", (KEPT_SECONDS,))
    )
    db.settle_at_startup()
    assert db._execute_write(look) == [("b", "still waiting")]


def test_a_deleted_session_leaves_nothing_in_the_inbox(db: SessionDB) -> None:
    db.create_session("s", "tui")
    db.accept_message("a", "s", "hello")
    db.delete_session("s")
    assert db.list_waiting() == []


def test_a_command_is_begun_once_and_known_until_it_is_done(db: SessionDB) -> None:
    db.accept_message("a", "s", "/undo", source="local", facts={"source": {"x": 1}})
    assert db.begin_command("a") and not db.begin_command("a")
    assert not db.begin_command("unknown")
    assert db.list_waiting() == [], "it is not run again"
    (left,) = db.list_begun()
    assert (left["content"], left["facts"]) == ("/undo", {"source": {"x": 1}})
    assert not db.accept_message("a", "s", "/undo"), "a redelivery does nothing"
    assert db.drop_message("a")
    assert db.list_begun() == []


def test_what_was_taken_lately_is_still_known(db: SessionDB) -> None:
    assert KEPT_SECONDS >= 14 * 86_400, "platforms deliver again for days"
    db.accept_message("old", "s", "hello")
    db.accept_message("new", "s", "hello")
    db.accept_message("waits", "s", "hello")
    for name in ("old", "new"):
        begin(db, "s", "hello", name)
    age = "UPDATE inbox SET updated_at = updated_at - ? WHERE id {} 'new'"
    db._execute_write(lambda conn: conn.execute(age.format("<>"), (KEPT_SECONDS + 60,)))
    db._execute_write(lambda conn: conn.execute(age.format("="), (KEPT_SECONDS - 60,)))
    db.forget_taken()
    assert not db.accept_message("new", "s", "hello"), "delivered again, and known"
    assert not db.accept_message("waits", "s", "hello"), "however long it waits"
    assert db.accept_message("old", "s", "hello")
