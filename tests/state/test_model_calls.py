"""One row per model call: stored with its step, counted on its day, kept when all else goes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hermes_state import ModelCall, SessionDB
from hermes_state.turns import Lease

from .raw import query, set_clock, tamper

NOON = 1_790_000_000.0 // 86_400 * 86_400 + 43_200
DAY = 86_400.0


def used(tokens: int, dollars: float | None, model: str = "m") -> dict[str, Any]:
    return {
        "input_tokens": tokens, "output_tokens": 1, "model": model, "billing_provider": "p",
        "estimated_cost_usd": dollars, "api_call_count": 1,
    }  # fmt: skip


def call(tokens: int, dollars: float | None, model: str = "m", **more: Any) -> ModelCall:
    facts = {"task": "turn", "provider": "p", "input_tokens": tokens, "output_tokens": 1, **more}
    return ModelCall(model=model, cost_usd=dollars, **facts)


def ask(
    db: SessionDB, session_id: str, dollars: float | None, tokens: int = 10, **facts: Any
) -> None:
    """A turn of one call."""
    begun = db.begin_turn(
        session_id, {"role": "user", "content": "?"}, source=facts.pop("source", "telegram"),
        facts=facts, leased=True,
    )  # fmt: skip
    assert isinstance(begun.lease, Lease)
    db.record_step(
        begun.session_id,
        [{"role": "assistant", "content": "!"}],
        used(tokens, dollars),
        lease=begun.lease,
        ends=True,
        call=call(tokens, dollars),
    )


def local_day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))


def per_day(db: SessionDB, since: float, **whose: Any) -> dict[str, float]:
    days = db.usage_since(since, **whose)["per_day"]
    return {day["day"]: pytest.approx(day["cost_usd"]) for day in days}


def test_a_call_is_stored_with_its_step_and_says_whose_it_is(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, lambda: NOON)
    ask(db, "s", 0.5, user_id="ada", session_key="agent:main:telegram:dm:1")
    columns = (
        "made_at, conversation_id, session_id, session_key, user_id, source, task, model,"
        " provider, input_tokens, output_tokens, cost_usd, outcome"
    )
    assert query(db, f"SELECT {columns} FROM model_calls") == [
        (NOON, "s", "s", "agent:main:telegram:dm:1", "ada", "telegram", "turn", "m", "p", 10, 1,
         0.5, "complete")
    ]  # fmt: skip


def test_a_step_that_is_not_stored_leaves_no_call(db: SessionDB) -> None:
    db.create_session("s", "cli")
    with pytest.raises(Exception, match="s"):
        db.record_step("s", [], used(1, 0.1), lease=Lease("s", 9, "nobody"), call=call(1, 0.1))
    assert query(db, "SELECT 1 FROM model_calls") == []


def test_a_chat_that_lives_for_days_costs_on_each_of_them(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = NOON
    set_clock(monkeypatch, lambda: now)
    for day, dollars in enumerate((0.25, 0.5, 1.0)):
        now = NOON + day * DAY
        ask(db, "s", dollars, user_id="ada")
    assert per_day(db, NOON - DAY) == {
        local_day(NOON): 0.25, local_day(NOON + DAY): 0.5, local_day(NOON + 2 * DAY): 1.0,
    }  # fmt: skip
    assert per_day(db, NOON + 2 * DAY) == {local_day(NOON + 2 * DAY): 1.0}
    days = db.activity_since(NOON - DAY)["days"]
    assert [days[local_day(NOON + day * DAY)]["cost_usd"] for day in range(3)] == [0.25, 0.5, 1.0]


def test_use_is_told_per_model_and_per_person(db: SessionDB) -> None:
    ask(db, "a", 0.5, user_id="ada")
    ask(db, "b", 0.25, user_id="bob", tokens=30)
    db.record_auxiliary_usage(
        "a", "title", model="small", input_tokens=3, estimated_cost_usd=0.125,
        call=ModelCall("title", "small", input_tokens=3, cost_usd=0.125),
    )  # fmt: skip
    everybody = db.usage_since(0.0)
    assert {model["model"]: model["cost_usd"] for model in everybody["models"]} == {
        "m": 0.75, "small": 0.125,
    }  # fmt: skip
    assert {
        person["user_id"]: (person["api_calls"], person["input_tokens"], person["cost_usd"])
        for person in everybody["people"]
    } == {"ada": (2, 13, 0.625), "bob": (1, 30, 0.25)}
    assert [model["model"] for model in db.usage_since(0.0, user_id="bob")["models"]] == ["m"]
    assert everybody["exact_since"] is None


def test_a_price_that_is_not_known_is_no_cost(db: SessionDB) -> None:
    ask(db, "s", None)
    (model,) = db.usage_since(0.0)["models"]
    assert (model["api_calls"], model["cost_usd"]) == (1, 0.0)
    assert query(db, "SELECT cost_usd FROM model_calls") == [(None,)]


def test_what_was_used_before_there_were_calls_is_reckoned_as_it_was(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgraded = NOON + 10 * DAY
    now = NOON
    set_clock(monkeypatch, lambda: now)
    tamper(db, f"UPDATE state_meta SET value = '{upgraded!r}' WHERE key = 'model_calls_since'")
    db.create_session("ended before", "cli")
    db.update_token_counts("ended before", 5, 1, model="m", estimated_cost_usd=0.5)
    db.create_session("goes on", "cli")
    db.update_token_counts("goes on", 5, 1, model="m", estimated_cost_usd=2.0, api_call_count=1)
    now = upgraded + DAY
    ask(db, "goes on", 0.25, source="cli")
    assert per_day(db, 0.0) == {
        local_day(NOON): 0.5,  # where its conversation was last used
        local_day(upgraded): 2.0,  # not later than there was a better way
        local_day(upgraded + DAY): 0.25,
    }
    used_since = db.usage_since(0.0)
    assert used_since["exact_since"] == upgraded
    (model,) = used_since["models"]
    assert (model["api_calls"], model["input_tokens"], model["cost_usd"]) == (2, 20, 2.75)
    assert db.usage_since(upgraded + DAY)["exact_since"] is None


def test_what_was_spent_outlives_its_conversation_without_naming_it(db: SessionDB) -> None:
    ask(db, "s", 0.5, user_id="ada", session_key="k")
    before = db.usage_since(0.0)
    db.delete_conversation("s")
    after = db.usage_since(0.0)
    assert (after["models"], after["people"]) == (before["models"], before["people"])
    columns = "conversation_id, session_id, session_key, user_id, cost_usd"
    assert query(db, f"SELECT {columns} FROM model_calls") == [(None, None, "k", "ada", 0.5)]
    assert db.check_store() == []


def test_an_export_takes_its_calls_along(db: SessionDB, tmp_path: Any) -> None:
    ask(db, "s", 0.5, user_id="ada")
    (exported,) = db.export_all()
    assert [one["cost_usd"] for one in exported["model_calls"]] == [0.5]
    with SessionDB(tmp_path / "other.db") as other:
        assert other.import_sessions([exported])["imported"] == 1
        assert other.usage_since(0.0)["people"] == db.usage_since(0.0)["people"]
    db.delete_conversation("s")
    assert db.import_sessions([exported])["imported"] == 1  # brought back: not spent twice
    assert query(db, "SELECT session_id, conversation_id, cost_usd FROM model_calls") == [
        ("s", "s", 0.5)
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"cost_usd": -5.0}, {"input_tokens": -1}, {"input_tokens": 0.5}, {"made_at": "now"},
        {"cost_usd": float("inf")}, {"id": None}, {"task": 7}, {"cost_usd": True},
    ],
)  # fmt: skip
def test_an_import_cannot_bring_less_than_nothing(db: SessionDB, wrong: dict[str, Any]) -> None:
    ask(db, "s", 0.5)
    (exported,) = db.export_all()
    exported["id"] = "other"
    exported["model_calls"][0] |= {"id": "another", **wrong}
    assert db.import_sessions([exported])["errors"]
    assert len(query(db, "SELECT 1 FROM model_calls")) == 1


def test_an_import_takes_no_call_of_somebody_else(db: SessionDB) -> None:
    ask(db, "s", 0.5, user_id="ada")
    (exported,) = db.export_all()
    db.delete_conversation("s")
    db.import_sessions([exported], user_id="eve")
    assert query(db, "SELECT user_id, session_id FROM model_calls") == [("ada", None)]
    assert db.usage_since(0.0, user_id="eve")["models"] == []
