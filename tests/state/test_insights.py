"""What was used in a stretch of time: whose, where, since when."""

from __future__ import annotations

from hermes_state import ModelCall, SessionDB


def test_counts_one_owners_use_since_then(db: SessionDB) -> None:
    for name, owner, source, at in (
        ("ada", "1", "telegram", 1000.0),
        ("ada before", "1", "telegram", 10.0),
        ("helper", "1", "tool", 1001.0),
        ("bob", "2", "telegram", 1000.0),
    ):
        db.create_session(name, source, user_id=owner, started_at=at)
        db.append_message(name, "user", "hello", timestamp=at)
        db.append_message(name, "tool", "done", tool_call_id="c", timestamp=at)
    db.update_token_counts("ada", 5, 7, model="m", estimated_cost_usd=0.5, api_call_count=1)
    db.update_token_counts("helper", 1, 1, model="m", api_call_count=1)
    db.update_token_counts("bob", 9, 9, model="other", api_call_count=1)

    own = db.usage_since(500.0, user_id="1")
    assert (own["conversations"], own["messages"], own["tool_calls"]) == (1, 4, 2)
    assert own["models"] == [
        {"model": "m", "api_calls": 2, "input_tokens": 6, "output_tokens": 8, "cost_usd": 0.5}
    ]
    there = db.usage_since(500.0, user_id="1", source="telegram")
    assert (there["conversations"], there["messages"]) == (1, 2)
    assert db.usage_since(500.0)["conversations"] == 2
    assert db.usage_since(0.0)["conversations"] == 3
    nothing = db.usage_since(9e9, user_id="1")
    assert (nothing["conversations"], nothing["tool_calls"]) == (0, 0)


def test_what_a_compression_carried_over_counts_once(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "hello")
    db.rotate_session("s", "later", [{"role": "user", "content": "hello"}])
    found = db.usage_since(0.0)
    assert (found["conversations"], found["messages"]) == (1, 1)


def test_what_was_used_is_told_by_chat(db: SessionDB) -> None:
    for name, key, owner in (("a", "k1", "1"), ("b", "k2", "2"), ("c", None, "1")):
        db.create_session(name, "telegram", user_id=owner, session_key=key)
        db.append_message(name, "user", "hello")
        for cost in (0.5, 0.25) if name == "b" else (0.5,):
            call = ModelCall("turn", "m", input_tokens=2, output_tokens=3, cost_usd=cost)
            db.settle_call(name, call)
    chats = db.usage_since(0.0)["chats"]
    assert [(chat["session_key"], chat["api_calls"], chat["cost_usd"]) for chat in chats] == [
        ("k2", 2, 0.75), ("k1", 1, 0.5),
    ]  # fmt: skip
    own = db.usage_since(0.0, user_id="1")["chats"]
    assert [chat["session_key"] for chat in own] == ["k1"]
