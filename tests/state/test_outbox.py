"""What is owed to chats: kept with its answer, delivered by one, remembered until it is settled."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hermes_state import SessionDB
from hermes_state.outbox import KEPT_SECONDS, OUTBOX

TO = {"session_key": "k", "platform": "local", "chat_id": "1", "thread_id": None}


def states(db: SessionDB) -> dict[str, str]:
    every = ("pending", "sending", "delivered", "failed")
    return {one["obligation_id"]: one["state"] for one in db.list_deliveries(every)}


def test_an_answer_and_what_is_owed_are_one_step(db: SessionDB) -> None:
    db.create_session("s", "local")
    message = {"role": "assistant", "content": "the answer", OUTBOX: {"id": "t:1", "to": TO}}
    db.record_step("s", [message])
    assert db.get_messages("s")[0]["content"] == "the answer"
    (row,) = db.list_deliveries()
    assert (row["content"], row["chat_id"], row["state"]) == ("the answer", "1", "pending")


def test_an_answer_that_cannot_be_stored_is_not_owed(db: SessionDB) -> None:
    message = {"role": "assistant", "content": "x", OUTBOX: {"id": "t:1", "to": TO}}
    with pytest.raises(LookupError):
        db.record_step("nowhere", [message])
    assert db.list_deliveries() == []


def test_the_same_delivery_is_owed_once(db: SessionDB) -> None:
    assert db.add_delivery("a", "x", **TO)
    assert not db.add_delivery("a", "x", **TO)
    assert len(db.list_deliveries()) == 1


def test_one_of_many_sends_it(db: SessionDB) -> None:
    db.add_delivery("a", "x", **TO)
    won: list[bool] = []
    start = threading.Barrier(8)

    def race() -> None:
        start.wait()
        won.append(db.begin_delivery("a"))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]


def test_the_way_of_a_delivery(db: SessionDB) -> None:
    db.add_delivery("a", "x", **TO)
    db.begin_delivery("a")
    db.finish_delivery("a", "pending", "busy")
    assert states(db) == {"a": "pending"}
    db.begin_delivery("a")
    db.finish_delivery("a", "delivered")
    assert states(db) == {"a": "delivered"}
    db.finish_delivery("a", "failed", "too late")
    assert states(db) == {"a": "delivered"}
    assert not db.begin_delivery("a")
    with pytest.raises(ValueError, match="cannot become"):
        db.finish_delivery("a", "lost")


def test_order_and_chat_are_kept(db: SessionDB) -> None:
    for number in range(3):
        db.add_delivery(f"a{number}", "x", **TO)
    db.add_delivery("b", "x", **{**TO, "session_key": "other"})
    assert [one["obligation_id"] for one in db.list_deliveries(session_key="k")] == [
        "a0", "a1", "a2",
    ]  # fmt: skip


def test_settled_ones_are_forgotten_late(db: SessionDB) -> None:
    db.add_delivery("done", "x", **TO)
    db.finish_delivery("done", "delivered")
    db.add_delivery("owed", "x", **TO)
    db.forget_delivered()
    assert set(states(db)) == {"done", "owed"}

    def age(conn: Any) -> None:
        conn.execute("UPDATE delivery_obligations SET updated_at = updated_at - ?", (KEPT_SECONDS,))

    db._execute_write(age)
    db.forget_delivered()
    assert set(states(db)) == {"owed"}


def test_what_was_delivered_lately_is_still_known(db: SessionDB) -> None:
    assert KEPT_SECONDS >= 3 * 86_400
    for name in ("old", "new"):
        db.add_delivery(name, "text", **TO)
        db.begin_delivery(name)
        db.finish_delivery(name, "delivered")
    age = "UPDATE delivery_obligations SET updated_at = updated_at - ? WHERE obligation_id = ?"
    for name, seconds in (("old", KEPT_SECONDS + 60), ("new", KEPT_SECONDS - 60)):
        db._execute_write(lambda conn, name=name, s=seconds: conn.execute(age, (s, name)))
    db.forget_delivered()
    assert states(db) == {"new": "delivered"}


def test_what_is_held_waits_for_its_person(db: SessionDB) -> None:
    for name in ("sending", "delivered", "other"):
        db.add_delivery(name, "text", **TO)
    db.begin_delivery("sending")
    db.begin_delivery("delivered")
    db.finish_delivery("delivered", "delivered")
    assert db.hold_delivery("sending", "24 hours") and db.hold_delivery("delivered", "too late")
    assert not db.hold_delivery("nothing", "x") and not db.reject_delivery("other", "x")
    assert [row["obligation_id"] for row in db.list_due_deliveries()] == ["other"]
    assert set(states(db).values()) == {"pending"}
    assert db.release_deliveries(TO["platform"], "another chat") == []
    assert db.release_deliveries(TO["platform"], TO["chat_id"]) == [TO["session_key"]]
    assert db.release_deliveries(TO["platform"], TO["chat_id"]) == [], "once"
    assert len(db.list_due_deliveries(TO["session_key"])) == 3
    assert db.begin_delivery("sending"), "its owner is whoever begins it"
    db.finish_delivery("sending", "delivered")
    assert db.reject_delivery("sending", "nobody is there")
    assert states(db)["sending"] == "failed"
    assert not db.hold_delivery("sending", "x"), "it was given up"
