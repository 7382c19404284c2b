"""The family of a conversation, and what goes on in a store, as people see them."""

from __future__ import annotations

import time

from hermes_state import SessionDB


def test_every_member_has_the_same_family(db: SessionDB) -> None:
    db.create_session("a", "cli", started_at=1.0)
    db.append_message("a", "user", "one")
    db.rotate_session("a", "a2", [{"role": "user", "content": "sum"}])
    db.branch_session("a2", "b")
    db.create_session("d", "tool", parent_session_id="b", model_config={"_delegate_from": "b"})
    db.create_session("other", "cli")
    shape = [
        ("a", None, "root"),
        ("a2", "a", "continuation"),
        ("b", "a2", "branch"),
        ("d", "b", "delegate"),
    ]
    for member in ("a", "a2", "b", "d"):
        family = db.get_family(member)
        assert [(m["id"], m["parent_session_id"], m["relation"]) for m in family] == shape
    assert [one["id"] for one in db.get_family("other")] == ["other"]
    assert db.get_family("nobody") == []


def test_a_ring_of_parents_ends(db: SessionDB) -> None:
    for one in ("a", "b"):
        db.create_session(one, "cli")
    db._execute_write(
        lambda conn: conn.execute(
            "UPDATE sessions SET parent_session_id = CASE id WHEN 'a' THEN 'b' ELSE 'a' END"
        ).fetchall()
    )
    assert sorted(one["id"] for one in db.get_family("a")) == ["a", "b"]


def test_activity_counts_by_local_day_and_hour(db: SessionDB) -> None:
    noon = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))  # a Wednesday
    db.create_session("s", "cli", started_at=noon)
    db.append_message("s", "user", "hi", timestamp=noon)
    db.append_message("s", "assistant", "ho", timestamp=noon + 1)
    db.append_message("s", "tool", "x", tool_call_id="c", tool_name="terminal", timestamp=noon + 2)
    db.append_message("s", "user", "later", timestamp=noon + 86_400)
    db.update_token_counts("s", 5, 7, model="m", estimated_cost_usd=0.5, api_call_count=1)
    found = db.activity_since(noon - 5)
    assert found["days"]["2026-03-04"]["messages"] == 2
    assert found["days"]["2026-03-05"]["messages"] == 1
    today = time.strftime("%Y-%m-%d")
    assert found["days"][today] == {"messages": 0, "tokens": 12, "cost_usd": 0.5}
    assert found["hours"] == {12: 2}
    assert found["weekdays"] == {3: 1, 4: 1}
    assert found["tools"] == {"terminal": 1}
    assert db.activity_since(noon - 5, source="telegram")["days"] == {}


def test_the_store_in_numbers(db: SessionDB) -> None:
    assert db.store_stats()["sessions"] == 0
    db.create_session("a", "cli")
    db.append_message("a", "user", "one")
    db.rotate_session("a", "a2", [{"role": "user", "content": "sum"}])
    found = db.store_stats()
    assert (found["conversations"], found["sessions"], found["messages"]) == (1, 2, 2)
    assert found["sources"] == [{"source": "cli", "sessions": 2, "messages": 2}]
    assert found["bytes"] > 0
