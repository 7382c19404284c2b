"""The check-up finds each thing that does not hold, and puts it right without losing a message."""

from __future__ import annotations

import json

import pytest

from hermes_state import SessionDB
from hermes_state.history import OUTCOME_UNKNOWN
from hermes_state.search.check import missing_from_index
from hermes_state.tool_runs import Started
from hermes_state.turn_log import CUT_OFF, Recorded

from .raw import query, tamper

CALLS = [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]


@pytest.fixture
def store(db: SessionDB) -> SessionDB:
    """Every shape that is as it should be: compressed, branched, delegated, routed, mid-turn."""
    db.create_session("a", "cli")
    db.append_message("a", "user", "one")
    db.append_message("a", "assistant", "two", tool_calls=CALLS)
    db.append_message("a", "tool", "three", tool_call_id="c")
    db.append_message("a", "assistant", "four")
    db.rotate_session("a", "a2", [{"role": "user", "content": "sum"}])
    db.branch_session("a2", "b")
    db.create_session("d", "tool", parent_session_id="a2", model_config={"_delegate_from": "a2"})
    db.append_message("d", "user", "help")
    db.save_gateway_routing_entry("key", json.dumps({"session_id": "a2"}))
    db.save_gateway_routing_entry("fresh", json.dumps({"session_id": "not yet"}))
    db.create_session("running", "cli")
    db.append_message("running", "user", "go")
    db.append_message("running", "assistant", "", tool_calls=CALLS)
    db.update_token_counts("a2", 5, 5, model="m")
    lease = begin_turn(db, "turn").lease
    start = [Started("t", "f", "effectful")]
    call = {"role": "assistant", "tool_calls": [{**CALLS[0], "id": "t"}]}
    db.record_step("turn", [call], lease=lease, starts=start)
    for name in ("owed", "sending", "sent"):
        db.add_delivery(name, "text", session_key="k", platform="local", chat_id="1")
    db.begin_delivery("sending")
    db.finish_delivery("sent", "delivered")
    return db


def begin_turn(db: SessionDB, name: str) -> Recorded:
    message = {"role": "user", "content": "go"}
    return db.begin_turn(name, message, source="cli", facts={}, leased=True)


def said(db: SessionDB) -> list[str]:
    return sorted(str(content) for (content,) in query(db, "SELECT content FROM messages"))


def test_a_store_in_order_has_no_findings(store: SessionDB) -> None:
    assert store.check_store() == []
    assert store.fix_store() == {}


BROKEN = {
    "messages_have_a_session": (
        [
            "INSERT INTO messages (session_id, role, content, timestamp)"
            " VALUES ('x', 'user', 'lost', 5)"
        ],
        ("x",),
    ),
    "parents_exist": (["UPDATE sessions SET parent_session_id = 'gone' WHERE id = 'b'"], ("b",)),
    "continued_sessions_exist": (
        ["UPDATE sessions SET continuation_of = 'gone' WHERE id = 'b'"],
        ("b",),
    ),
    "one_continuation": (
        [
            "DROP INDEX idx_sessions_continuation_unique",
            "UPDATE sessions SET continuation_of = 'a', conversation_id = 'a' WHERE id = 'b'",
        ],
        ("a",),
    ),
    "known_facts": (
        ["UPDATE sessions SET conversation_id = NULL, last_active = NULL WHERE id = 'b'"],
        ("b",),
    ),
    "one_tip": (["UPDATE sessions SET conversation_id = 'a' WHERE id = 'b'"], ("a",)),
    "guards": (
        ["DROP INDEX idx_sessions_title_owner_unique"],
        ("idx_sessions_title_owner_unique",),
    ),
    "first_tellings_exist": (["UPDATE messages SET origin_id = 999 WHERE session_id = 'd'"], None),
    "calls_are_answered": (["DELETE FROM messages WHERE role = 'tool'"], ("a",)),
    "leases": (
        [
            "UPDATE turns SET state = 'walking'",
            "INSERT INTO turns VALUES ('gone', 'gone', 'running', 'me', 1, 1, 1, 1, NULL, 0, NULL)",
            "INSERT INTO tool_runs VALUES ('gone', 1, 'c', 'f', 'none', 'started', 1, NULL)",
            "INSERT INTO tool_runs VALUES ('a', 1, 'c', 'f', 'none', 'finished', 1, 1)",
        ],
        ("a", "gone", "turn"),
    ),
    "turns_end": (["UPDATE turns SET started_at = 1, heartbeat_at = 1"], ("turn",)),
    "outbox_settled": (
        ["UPDATE delivery_obligations SET updated_at = 1 WHERE obligation_id = 'sending'"],
        ("sending",),
    ),
    "counts": (["UPDATE sessions SET message_count = 7 WHERE id = 'b'"], ("b",)),
    "usage_has_a_session": (
        ["INSERT INTO session_model_usage (session_id, model) VALUES ('gone', 'm')"],
        ("gone",),
    ),
    "calls_have_a_session": (
        [
            "INSERT INTO model_calls (id, made_at, session_id, task, model, outcome)"
            " VALUES ('call', 1, 'gone', 'turn', 'm', 'complete')"
        ],
        ("gone",),
    ),
    "routes_lead_somewhere": (
        [
            "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at)"
            " VALUES ('', 'lost', '{\"session_id\": \"gone\", \"total_tokens\": 5}', 1)"
        ],
        ("('', 'lost')",),
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_thing_is_found_and_put_right(store: SessionDB, rule: str) -> None:
    statements, concerned = BROKEN[rule]
    tamper(store, *statements)
    before = said(store)
    found = {one.rule: one for one in store.check_store()}
    assert rule in found, found
    if concerned is not None:
        assert found[rule].concerned == concerned
        assert concerned[0] in found[rule].problem
    assert rule in store.fix_store()
    assert store.check_store() == []
    assert store.fix_store() == {}
    assert [one for one in before if one not in said(store)] == []


def test_answers_that_wait_for_days_are_told_and_stay_owed(store: SessionDB) -> None:
    tamper(store, "UPDATE delivery_obligations SET created_at = 1, updated_at = 1")
    found = {one.rule: one for one in store.check_store()}
    assert found["outbox_delivered"].concerned == ("owed",)
    store.fix_store()
    assert [one.rule for one in store.check_store()] == ["outbox_delivered"]
    assert [row["obligation_id"] for row in store.list_deliveries()] == ["owed"]


def test_a_turn_that_nobody_went_on_with_is_closed_visibly(store: SessionDB) -> None:
    tamper(store, *BROKEN["turns_end"][0])
    store.fix_store()
    history = [message["content"] for message in store.get_messages_as_conversation("turn")]
    assert history[-2:] == [OUTCOME_UNKNOWN, CUT_OFF]


def test_a_call_of_a_turn_that_has_ended_wants_its_answer(store: SessionDB) -> None:
    tamper(store, "UPDATE turns SET state = 'ended'", "DELETE FROM tool_runs")
    assert [one.rule for one in store.check_store()] == ["calls_are_answered"]
    store.fix_store()
    assert store.check_store() == []


def test_a_ring_of_continuations_is_opened(store: SessionDB) -> None:
    tamper(store, "UPDATE sessions SET continuation_of = 'a2' WHERE id = 'a'")
    assert [one.rule for one in store.check_store()] == ["one_tip"]
    store.fix_store()
    assert store.check_store() == []
    assert store.get_compression_tip("a") == "a2"


def test_messages_without_a_session_can_be_found_again(store: SessionDB) -> None:
    tamper(store, *BROKEN["messages_have_a_session"][0])
    store.fix_store()
    assert store.get_messages_as_conversation("x")[0]["content"] == "lost"
    assert [hit["session_id"] for hit in store.search_messages("lost")] == ["x"]


def test_a_call_that_may_still_run_is_left_alone(store: SessionDB) -> None:
    assert store.check_store() == []
    store.end_session("running", "cli_close")
    assert [one.concerned for one in store.check_store()] == [("running",)]
    store.fix_store()
    history = store.get_messages_as_conversation("running")
    assert "outcome unknown" in history[-1]["content"]


def test_what_the_index_lacks_is_noticed(store: SessionDB) -> None:
    assert missing_from_index(store.search_index) == []
    wanted = store.search_messages("four")[0]["id"]
    store.search_index._file.run(
        lambda conn: conn.execute("DELETE FROM doc_0 WHERE rowid = ?", (wanted,)) and None
    )
    assert missing_from_index(store.search_index) == [wanted]
    store.rebuild_fts()
    assert missing_from_index(store.search_index) == []
