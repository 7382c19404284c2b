"""Routing and hand-off: a chat finds its own conversation, and never another person's."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_state import InvalidMessageError, SessionDB

START = 1_700_000_000.0
KEY = "agent:main:telegram:dm:42"


def the(db: SessionDB, session_id: str) -> dict[str, Any]:
    session = db.get_session(session_id)
    assert session is not None
    return session


def chat(db: SessionDB, session_id: str, at: float = 0, **facts: Any) -> None:
    db.create_session(session_id, facts.pop("source", "telegram"), started_at=START + at, **facts)


def peer(db: SessionDB, **facts: Any) -> str | None:
    found = db.find_latest_gateway_session_for_peer(**{"source": "telegram", **facts})
    return found["id"] if found else None


def origin(db: SessionDB, chat_id: str = "c", **facts: Any) -> str | None:
    return db.find_session_by_origin(**{"platform": "telegram", **facts}, chat_id=chat_id)


def test_where_a_session_is_reached_from_is_kept(db: SessionDB) -> None:
    db.create_session("s1", "cli", user_id="ada", chat_id="1")
    db.record_gateway_session_peer(
        "s1", source="telegram", session_key=KEY, chat_id="42", chat_type="dm", thread_id="7",
        display_name="Ada", origin_json='{"a": 1}',
    )  # fmt: skip
    names = ("source", "user_id", "session_key", "chat_id", "chat_type", "thread_id")
    assert [the(db, "s1")[name] for name in names] == ["telegram", "ada", KEY, "42", "dm", "7"]
    assert [the(db, "s1")[name] for name in ("display_name", "origin_json")] == ["Ada", '{"a": 1}']
    db.record_gateway_session_peer("s1", source="slack", user_id="bob")
    assert [the(db, "s1")[name] for name in names] == ["slack", "bob", KEY, "42", "dm", "7"]
    db.record_gateway_session_peer("nobody", source="slack")
    assert db.session_count() == 1
    with pytest.raises(InvalidMessageError):
        db.record_gateway_session_peer("s1", source="slack", chat_id=["42"])  # type: ignore[arg-type]


def test_routing_entries(db: SessionDB) -> None:
    assert db.load_gateway_routing_entries() == {}
    db.save_gateway_routing_entry("k1", "{}")
    db.save_gateway_routing_entry("k1", '{"session_id": "s1"}')
    db.save_gateway_routing_entry("k1", '{"session_id": "s9"}', scope="work")
    db.save_gateway_routing_entry("k2", "{}")
    assert db.load_gateway_routing_entries() == {"k1": '{"session_id": "s1"}', "k2": "{}"}
    assert db.load_gateway_routing_entries(scope="work") == {"k1": '{"session_id": "s9"}'}
    db.delete_gateway_routing_entries(["k1", "nothing"])
    assert db.load_gateway_routing_entries() == {"k2": "{}"}
    assert db.load_gateway_routing_entries(scope="work") == {"k1": '{"session_id": "s9"}'}
    db.replace_gateway_routing_entries({"k3": "[]", "k4": "{}"})
    assert db.load_gateway_routing_entries() == {"k3": "[]", "k4": "{}"}
    assert len(db.load_gateway_routing_entries(scope="work")) == 1
    db.replace_gateway_routing_entries({})
    assert db.load_gateway_routing_entries() == {}


def test_replacing_entries_is_all_or_nothing(db: SessionDB) -> None:
    db.save_gateway_routing_entry("k1", "{}")
    with pytest.raises(InvalidMessageError):
        db.replace_gateway_routing_entries({"k2": "{}", "k3": {"not": "text"}})  # type: ignore[dict-item]
    assert db.load_gateway_routing_entries() == {"k1": "{}"}


def test_a_rotation_moves_only_the_entries_that_name_the_session(db: SessionDB) -> None:
    chat(db, "s1")
    entries = {
        "a": '{"session_id": "s1", "note": "ü"}',
        "b": '{"session_id": "s10"}',
        "c": '{"session_id": "s9", "note": "was s1"}',
        "d": "not json, but s1",
        "e": '["s1"]',
    }
    db.replace_gateway_routing_entries(entries)
    db.save_gateway_routing_entry("a", entries["a"], scope="work")
    db.rotate_session("s1", "s2", [])
    after = db.load_gateway_routing_entries()
    assert json.loads(after.pop("a")) == {"session_id": "s2", "note": "ü"}
    assert after == {key: entry for key, entry in entries.items() if key != "a"}
    assert json.loads(db.load_gateway_routing_entries(scope="work")["a"])["session_id"] == "s2"


def test_one_session_per_key_is_listed(db: SessionDB) -> None:
    chat(db, "a1", 0, session_key="a")
    chat(db, "a2", 1, session_key="a")
    chat(db, "b1", 2, session_key="b", source="slack")
    chat(db, "c1", 3, session_key="c")
    chat(db, "no key", 4)
    chat(db, "empty key", 5, session_key="")
    db.end_session("c1", "idle")
    db.end_session("a2", "idle")
    listed = [row["id"] for row in db.list_gateway_sessions()]
    assert listed == ["b1", "a1"]
    assert [row["id"] for row in db.list_gateway_sessions(active_only=False)] == ["c1", "b1", "a2"]
    assert [row["id"] for row in db.list_gateway_sessions(platform="slack")] == ["b1"]
    assert db.list_gateway_sessions(platform="slack")[0]["last_active"] == START + 2
    assert db.list_gateway_sessions(platform="matrix") == []


def test_the_newest_open_session_of_a_chat(db: SessionDB) -> None:
    chat(db, "s1", 1, chat_id="c", user_id="ada")
    chat(db, "s2", 2, chat_id="c", user_id="ada", thread_id="7")
    chat(db, "s3", 3, chat_id="c", user_id="ada")
    chat(db, "other", 9, chat_id="d", user_id="ada")
    chat(db, "slack", 9, chat_id="c", user_id="ada", source="slack")
    db.end_session("s3", "idle")
    assert origin(db) == "s2"
    assert origin(db, thread_id="7") == "s2"
    assert origin(db, thread_id="8") is None
    assert origin(db, user_id="ada") == "s2"
    assert origin(db, "nowhere") is None


def test_nobody_is_led_into_another_persons_session(db: SessionDB) -> None:
    chat(db, "ada1", 1, chat_id="c", user_id="ada")
    chat(db, "bob1", 2, chat_id="c", user_id="bob")
    assert origin(db, user_id="ada") == "ada1"
    assert origin(db, user_id="bob") == "bob1"
    assert origin(db, user_id="eve") is None
    assert origin(db) is None  # whose?
    chat(db, "shared", 3, chat_id="d")
    assert origin(db, "d", user_id="eve") == "shared"  # nobody's in particular
    assert origin(db, "d") == "shared"
    chat(db, "ada2", 1, chat_id="e", user_id="ada")
    chat(db, "open", 2, chat_id="e")
    assert origin(db, "e", user_id="eve") is None
    assert origin(db, "e", user_id="ada") == "ada2"


def test_the_key_decides_which_session_goes_on(db: SessionDB) -> None:
    chat(db, "s1", 1, session_key=KEY, chat_id="42", user_id="ada")
    chat(db, "s2", 2, session_key=KEY, chat_id="42", user_id="ada")
    chat(db, "other", 3, session_key=KEY + "0", chat_id="42", user_id="ada")
    assert peer(db, session_key=KEY) == "s2"
    assert peer(db, session_key="unknown", chat_id="42", user_id="ada") is None
    assert peer(db, session_key=KEY, source="slack") is None


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("agent_close", "s2"),
        ("ws_orphan_reap", "s2"),
        ("session_reset", None),
        ("session_switch", None),
        ("idle", None),
        ("daily", None),
        ("suspended", None),
        ("cli_close", None),
    ],
)
def test_a_session_that_ended_by_accident_goes_on(
    db: SessionDB, reason: str, found: str | None
) -> None:
    chat(db, "s2", 2, session_key=KEY)
    db.end_session("s2", reason)
    assert peer(db, session_key=KEY) == found


def test_after_a_compression_the_continuation_goes_on(db: SessionDB) -> None:
    chat(db, "s1", 1, session_key=KEY, chat_id="42", chat_type="dm", user_id="ada")
    db.rotate_session("s1", "s2", [])
    assert peer(db, session_key=KEY) == "s2"
    assert peer(db, chat_id="42", chat_type="dm", user_id="ada") == "s2"
    assert origin(db, "42", user_id="ada") == "s2"
    db.end_session("s2", "agent_close")
    assert peer(db, session_key=KEY) == "s2"


def test_without_a_key_everything_must_match(db: SessionDB) -> None:
    facts = {"user_id": "ada", "chat_id": "42", "chat_type": "group", "thread_id": "7"}
    chat(db, "s1", 1, **facts)
    assert peer(db, **facts) == "s1"
    for name in facts:
        assert peer(db, **{**facts, name: "other"}) is None
        assert peer(db, **{**facts, name: None}) is None
    assert peer(db) is None
    chat(db, "anybody's", 1)
    assert peer(db) is None  # nothing is known of the one who asks


def test_a_handoff_goes_through_its_states(db: SessionDB) -> None:
    chat(db, "s1")
    assert db.get_handoff_state("s1") is None
    assert db.claim_handoff("s1") is False
    assert db.request_handoff("s1", "telegram") is True
    assert db.request_handoff("s1", "slack") is False  # under way
    assert db.get_handoff_state("s1") == {"state": "pending", "platform": "telegram", "error": None}
    assert [row["id"] for row in db.list_pending_handoffs()] == ["s1"]
    assert db.claim_handoff("s1") is True
    assert db.claim_handoff("s1") is False
    assert db.request_handoff("s1", "slack") is False
    assert db.list_pending_handoffs() == []
    state = db.get_handoff_state("s1")
    assert state and state["state"] == "running"
    db.complete_handoff("s1")
    state = db.get_handoff_state("s1")
    assert state and state["state"] == "completed"
    db.fail_handoff("s1", "too late")
    assert db.get_handoff_state("s1") == state


def test_a_failed_handoff_says_why_and_may_be_tried_again(db: SessionDB) -> None:
    chat(db, "s1")
    db.request_handoff("s1", "telegram")
    db.claim_handoff("s1")
    db.fail_handoff("s1", "no home channel")
    assert db.get_handoff_state("s1") == {
        "state": "failed",
        "platform": "telegram",
        "error": "no home channel",
    }
    assert db.claim_handoff("s1") is False
    assert db.request_handoff("s1", "slack") is True
    assert db.get_handoff_state("s1") == {"state": "pending", "platform": "slack", "error": None}


def test_there_is_no_handoff_of_an_unknown_session(db: SessionDB) -> None:
    assert db.request_handoff("nobody", "telegram") is False
    assert db.claim_handoff("nobody") is False
    assert db.get_handoff_state("nobody") is None


def test_pending_handoffs_are_listed_oldest_first(db: SessionDB) -> None:
    for number in (2, 1, 3):
        chat(db, f"s{number}", number)
        db.request_handoff(f"s{number}", "telegram")
    assert [row["id"] for row in db.list_pending_handoffs()] == ["s1", "s2", "s3"]


def test_a_handoff_moves_along_with_a_rotation(db: SessionDB) -> None:
    chat(db, "s1")
    db.request_handoff("s1", "telegram")
    db.rotate_session("s1", "s2", [])
    assert [row["id"] for row in db.list_pending_handoffs()] == ["s2"]
    assert db.get_handoff_state("s1") is None
    assert db.claim_handoff("s2") is True


def test_one_of_many_claims_a_handoff(db: SessionDB, db_path: Path) -> None:
    chat(db, "s1")
    db.request_handoff("s1", "telegram")
    claimed: list[bool] = []
    barrier = threading.Barrier(4)

    def claim() -> None:
        with SessionDB(db_path) as store:
            barrier.wait()
            claimed.append(store.claim_handoff("s1"))

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == [False, False, False, True]
