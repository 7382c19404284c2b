"""Token and cost counters: the session's totals and the table per model tell the same story."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state import SessionDB
from hermes_state.dialect import rows

TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
COUNTERS = (*TOKENS, "api_call_count")
COSTS = ("estimated_cost_usd", "actual_cost_usd")


@pytest.fixture
def chat(db: SessionDB) -> SessionDB:
    db.create_session("s1", "cli", model="m1")
    return db


def the(db: SessionDB, session_id: str = "s1") -> dict[str, Any]:
    session = db.get_session(session_id)
    assert session is not None
    return session


def per_model(db: SessionDB, session_id: str = "s1") -> list[dict[str, Any]]:
    statement = "SELECT * FROM session_model_usage WHERE session_id = ?"
    return db._database.read(lambda conn: rows(conn, statement, (session_id,)))


def test_usage_adds_up(chat: SessionDB) -> None:
    chat.update_token_counts("s1", 10, 5, api_call_count=1, estimated_cost_usd=0.5)
    chat.update_token_counts(
        "s1", 20, 7, cache_read_tokens=3, cache_write_tokens=2, reasoning_tokens=1, api_call_count=1
    )
    session = the(chat)
    assert [session[name] for name in COUNTERS] == [30, 12, 3, 2, 1, 2]
    assert (session["estimated_cost_usd"], session["actual_cost_usd"]) == (0.5, None)
    (usage,) = per_model(chat)
    assert [usage[name] for name in COUNTERS] == [30, 12, 3, 2, 1, 2]
    assert (usage["model"], usage["task"], usage["estimated_cost_usd"]) == ("m1", "", 0.5)
    assert usage["first_seen"] <= usage["last_seen"]


def test_each_model_and_route_is_counted_apart(chat: SessionDB) -> None:
    chat.update_token_counts("s1", 1)
    chat.update_token_counts("s1", 2, model="m2")
    chat.update_token_counts("s1", 4, model="m2", billing_provider="p", billing_base_url="u")
    chat.update_token_counts("s1", 8, model="m2", billing_provider="p", billing_mode="batch")
    assert {
        (one["model"], one["billing_provider"], one["billing_base_url"], one["billing_mode"]): one[
            "input_tokens"
        ]
        for one in per_model(chat)
    } == {
        ("m1", "", "", ""): 1,
        ("m2", "", "", ""): 2,
        ("m2", "p", "u", ""): 4,
        ("m2", "p", "u", "batch"): 8,  # the route the session knows completes what is not given
    }
    session = the(chat)
    assert (session["model"], session["billing_provider"]) == ("m1", "p")  # known first, kept


def test_absolute_counts_replace_the_totals(chat: SessionDB) -> None:
    chat.update_token_counts("s1", 10, 5, api_call_count=3, estimated_cost_usd=1.0)
    chat.update_token_counts(
        "s1", 7, 9, model="m2", api_call_count=4, estimated_cost_usd=0.25, absolute=True
    )
    session = the(chat)
    assert [session[name] for name in COUNTERS] == [7, 9, 0, 0, 0, 4]
    assert session["estimated_cost_usd"] == 0.25
    usage = {one["model"]: one for one in per_model(chat)}
    assert [usage["m1"][name] for name in COUNTERS] == [10, 5, 0, 0, 0, 3]
    assert [usage["m2"][name] for name in COUNTERS] == [-3, 4, 0, 0, 0, 1]
    chat.update_token_counts("s1", 7, 9, api_call_count=4, absolute=True)  # the same again
    assert [the(chat)[name] for name in COUNTERS] == [7, 9, 0, 0, 0, 4]
    assert the(chat)["estimated_cost_usd"] == 0.25  # not given, not changed


def test_costs_and_where_they_come_from(chat: SessionDB) -> None:
    chat.update_token_counts(
        "s1", 1, actual_cost_usd=0.1, cost_status="exact", cost_source="api", pricing_version="v1"
    )
    chat.update_token_counts("s1", 1, actual_cost_usd=0.2, cost_status="estimated")
    session = the(chat)
    assert session["actual_cost_usd"] == pytest.approx(0.3)
    assert [session[name] for name in ("cost_status", "cost_source", "pricing_version")] == [
        "estimated",
        "api",
        "v1",
    ]
    (usage,) = per_model(chat)
    assert usage["actual_cost_usd"] == pytest.approx(0.3)
    assert (usage["cost_status"], usage["cost_source"]) == ("estimated", "api")


def test_what_a_provider_does_not_report_counts_as_nothing(chat: SessionDB) -> None:
    chat.update_token_counts("s1", 10, 5, reasoning_tokens=2, api_call_count=1)
    chat.update_token_counts("s1", None, None, reasoning_tokens=None, api_call_count=1)  # type: ignore[arg-type]
    assert [the(chat)[name] for name in COUNTERS] == [10, 5, 0, 0, 2, 2]
    assert sum(one["input_tokens"] for one in per_model(chat)) == 10


def test_usage_without_a_known_model_is_counted_all_the_same(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.update_token_counts("s1", 10)
    db.update_token_counts("s1", 15, model="m1", absolute=True)
    assert the(db)["input_tokens"] == 15
    assert {one["model"]: one["input_tokens"] for one in per_model(db)} == {"unknown": 10, "m1": 5}


def test_the_model_is_learnt_and_never_overwritten(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.update_token_counts("s1", 1, model="m1", billing_provider="p")
    db.update_token_counts("s1", 1, model="m2", billing_provider="q")
    assert (the(db)["model"], the(db)["billing_provider"]) == ("m1", "p")


def test_a_call_without_usage_makes_no_row(chat: SessionDB) -> None:
    chat.update_token_counts("s1", model="m1")
    assert per_model(chat) == []


def test_side_calls_are_counted_apart_from_the_totals(chat: SessionDB) -> None:
    chat.update_token_counts("s1", 100, api_call_count=1)
    for _ in range(2):
        chat.record_auxiliary_usage(
            "s1",
            "title",
            model="small",
            billing_provider="p",
            input_tokens=5,
            output_tokens=1,
            estimated_cost_usd=0.25,
        )
    chat.record_auxiliary_usage("s1", "compression", reasoning_tokens=3)
    session = the(chat)
    assert (session["input_tokens"], session["api_call_count"]) == (100, 1)
    usage = {one["task"]: one for one in per_model(chat)}
    assert (usage["title"]["model"], usage["title"]["billing_provider"]) == ("small", "p")
    assert [usage["title"][name] for name in COUNTERS] == [10, 2, 0, 0, 0, 2]
    assert usage["title"]["estimated_cost_usd"] == 0.5
    assert (usage["compression"]["model"], usage["compression"]["reasoning_tokens"]) == (
        "unknown",
        3,
    )


def test_usage_goes_with_its_session(chat: SessionDB) -> None:
    chat.update_token_counts("s1", 10)
    chat.rotate_session("s1", "s2", [{"role": "user", "content": "sum"}])
    assert [the(chat, "s2")[name] for name in COUNTERS] == [0] * 6  # counted once, where it was
    assert chat.delete_session("s1")
    assert per_model(chat) == []


counts = st.integers(0, 1000)
updates = st.fixed_dictionaries(
    {
        **dict.fromkeys(COUNTERS, counts),
        "model": st.sampled_from(["m1", "m2", None]),
        "billing_provider": st.sampled_from(["p", "q", None]),
        "absolute": st.booleans(),
    },
    optional={name: st.integers(0, 64).map(lambda n: n / 64) for name in COSTS},
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(updates, max_size=8))
def test_totals_and_models_always_agree(db: SessionDB, given_updates: list[dict[str, Any]]) -> None:
    db.delete_session("s1")
    db.create_session("s1", "cli")
    expected: dict[str, float] = dict.fromkeys((*COUNTERS, *COSTS), 0)
    for update in given_updates:
        db.update_token_counts("s1", **update)
        db.record_auxiliary_usage("s1", "title", input_tokens=7)
        for name in (*COUNTERS, *COSTS):
            if name in update:
                expected[name] = update[name] + (0 if update["absolute"] else expected[name])
    session, usage = the(db), [one for one in per_model(db) if one["task"] == ""]
    for name, total in expected.items():
        assert (session[name] or 0) == total
        assert sum(one[name] for one in usage) == total
