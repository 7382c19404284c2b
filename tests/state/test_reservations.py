"""Limits: a call is reserved before it is made, and nobody gets more than one beyond the limit."""

from __future__ import annotations

import calendar
import threading
from typing import Any

import pytest

from hermes_state import (
    CallRefused,
    CallReserved,
    Lease,
    LeaseLostError,
    Limit,
    ModelCall,
    SessionDB,
)
from hermes_state.reservations import period_of
from hermes_state.turns import LEASE_SECONDS

from .interleaving import Outcome, Pair
from .raw import query, set_clock, tamper

NOON = float(calendar.timegm((2026, 11, 18, 12, 0, 0)))
DAY = 86_400.0
DOLLARS = Limit("person", "ada", "dollars", "day", 2.0)


def call(dollars: float | None, tokens: int = 10, **more: Any) -> ModelCall:
    return ModelCall("turn", "m", cost_usd=dollars, input_tokens=tokens, **more)


def begin(db: SessionDB, session_id: str, owner: str | None = "ada", **facts: Any) -> Lease:
    begun = db.begin_turn(
        session_id, {"role": "user", "content": "?"}, source="telegram",
        facts={"user_id": owner, **facts}, leased=True,
    )  # fmt: skip
    assert begun.lease is not None
    return begun.lease


def reserve(db: SessionDB, lease: Lease, dollars: float | None, *limits: Limit, **how: Any) -> Any:
    return db.reserve_call(lease.conversation_id, call(dollars), limits, lease=lease, **how)


def answer(
    db: SessionDB, lease: Lease, dollars: float | None, reserved: Any = None, ends: bool = True
) -> None:
    """Store the reply of a call that cost so much."""
    call_id = None if reserved is None else reserved.id
    db.record_step(
        lease.conversation_id,
        [{"role": "assistant", "content": "!"}],
        lease=lease,
        ends=ends,
        call=call(dollars, id=call_id),
    )


def spend(db: SessionDB, session_id: str, dollars: float, owner: str | None = "ada") -> None:
    answer(db, begin(db, session_id, owner), dollars)


def outcomes(db: SessionDB) -> list[str]:
    return sorted(outcome for (outcome,) in query(db, "SELECT outcome FROM model_calls"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The store's clock, which stands still unless it is set."""
    now = [NOON]
    set_clock(monkeypatch, lambda: now[0])
    return now


def test_a_reservation_counts_until_the_real_cost_takes_its_place(
    db: SessionDB, clock: list[float]
) -> None:
    lease = begin(db, "s")
    reserved = reserve(db, lease, 1.5, DOLLARS)
    assert isinstance(reserved, CallReserved) and reserved.warnings == []
    (use,) = db.list_limit_uses([DOLLARS])
    assert (use.spent, use.reserved, use.ends_at) == (0.0, 1.5, NOON + DAY / 2)
    answer(db, lease, 0.25, reserved)
    (use,) = db.list_limit_uses([DOLLARS])
    assert (use.spent, use.reserved) == (0.25, 0.0)
    assert query(db, "SELECT outcome, cost_usd, process, fence FROM model_calls") == [
        ("complete", 0.25, None, None)
    ]


def test_what_runs_counts_and_whoever_comes_meanwhile_waits(
    db: SessionDB, clock: list[float]
) -> None:
    first, second = begin(db, "a"), begin(db, "b")
    reserved = reserve(db, first, 5.0, DOLLARS)  # more than there is: one call may go beyond
    assert isinstance(reserved, CallReserved)
    refused = reserve(db, second, 0.1, DOLLARS)
    assert isinstance(refused, CallRefused) and refused.may_pass
    answer(db, first, 0.5, reserved)
    assert isinstance(reserve(db, second, 0.1, DOLLARS), CallReserved)


def test_a_limit_that_is_reached_refuses_until_its_period_ends(
    db: SessionDB, clock: list[float]
) -> None:
    spend(db, "s", 2.0)
    refused = reserve(db, begin(db, "s"), 0.1, DOLLARS)
    assert isinstance(refused, CallRefused) and refused.use is not None
    assert not refused.may_pass
    assert (refused.use.spent, refused.use.ends_at) == (2.0, NOON + DAY / 2)
    clock[0] = NOON + DAY / 2 - 0.001
    lease = begin(db, "other")
    assert isinstance(reserve(db, lease, 0.1, DOLLARS), CallRefused)
    clock[0] = NOON + DAY / 2
    assert isinstance(reserve(db, lease, 0.1, DOLLARS), CallReserved)


def test_a_month_is_a_month(db: SessionDB, clock: list[float]) -> None:
    month = DOLLARS._replace(period="month")
    spend(db, "s", 3.0)
    clock[0] = NOON + 5 * DAY
    refused = reserve(db, begin(db, "a"), 0.1, DOLLARS, month)
    assert isinstance(refused, CallRefused) and refused.use is not None
    assert refused.use.limit == month
    assert refused.use.ends_at == calendar.timegm((2026, 12, 1, 0, 0, 0))
    clock[0] = refused.use.ends_at
    assert isinstance(reserve(db, begin(db, "b"), 0.1, DOLLARS, month), CallReserved)
    assert period_of("month", calendar.timegm((2026, 12, 31, 23, 0, 0)))[1] == calendar.timegm(
        (2027, 1, 1, 0, 0, 0)
    )


def test_people_chats_and_jobs_are_apart(db: SessionDB, clock: list[float]) -> None:
    answer(db, begin(db, "a", "ada", session_key="group"), 1.0)
    answer(db, begin(db, "b", "bob", session_key="group"), 1.0)
    spend(db, "mine", 4.0, owner=None)
    used = {
        (limit.subject, limit.name): use.spent
        for use in db.list_limit_uses(
            [
                DOLLARS, DOLLARS._replace(name="bob"), DOLLARS._replace(name=None),
                DOLLARS._replace(name="nobody"), Limit("chat", "group", "dollars", "day", 9),
                Limit("job", "j", "dollars", "day", 9),
            ]
        )
        for limit in [use.limit]
    }  # fmt: skip
    assert used == {
        ("person", "ada"): 1.0, ("person", "bob"): 1.0, ("person", None): 4.0,
        ("person", "nobody"): 0.0, ("chat", "group"): 2.0, ("job", "j"): 0.0,
    }  # fmt: skip


def test_tokens_are_limited_too(db: SessionDB, clock: list[float]) -> None:
    tokens = Limit("person", "ada", "tokens", "day", 15)
    lease = begin(db, "s")
    assert isinstance(reserve(db, lease, None, tokens), CallReserved)
    refused = reserve(db, begin(db, "other"), None, tokens)
    assert isinstance(refused, CallReserved)  # 10 of 15 are reserved: there is something left
    assert isinstance(reserve(db, begin(db, "third"), None, tokens), CallRefused)


def test_an_assumed_price_counts_where_none_is_known(db: SessionDB, clock: list[float]) -> None:
    lease = begin(db, "s")
    db.record_step("s", [], lease=lease, call=call(None, assumed_cost_usd=1.5))
    (use,) = db.list_limit_uses([DOLLARS])
    assert use.spent == 1.5
    assert db.usage_since(0.0)["models"][0]["cost_usd"] == 0.0  # what is not known is not told


def test_is_warned_once_in_a_period(db: SessionDB, clock: list[float]) -> None:
    spend(db, "s", 1.59)
    lease = begin(db, "t")
    assert reserve(db, lease, 0.0, DOLLARS).warnings == []
    answer(db, lease, 0.01)
    for expected in (1, 0, 0):
        lease = begin(db, "t")
        reserved = reserve(db, lease, 0.0, DOLLARS)
        assert len(reserved.warnings) == expected
        answer(db, lease, 0.0, reserved)
    raised = DOLLARS._replace(most=1.9)
    assert len(reserve(db, begin(db, "t"), 0.0, raised).warnings) == 1  # another limit
    clock[0] += DAY
    spend(db, "s", 1.7)
    assert len(reserve(db, begin(db, "u"), 0.0, DOLLARS).warnings) == 1


def test_the_operator_may_go_on_until_the_period_ends(db: SessionDB, clock: list[float]) -> None:
    spend(db, "s", 2.5)
    refused = reserve(db, begin(db, "a"), 0.1, DOLLARS)
    db.waive_limit(refused.use)
    assert isinstance(reserve(db, begin(db, "b"), 0.1, DOLLARS), CallReserved)
    clock[0] += DAY
    spend(db, "s", 2.5)
    assert isinstance(reserve(db, begin(db, "c"), 0.1, DOLLARS), CallRefused)


def test_a_reservation_is_lost_with_the_lease_of_its_turn_and_stays_counted(
    db: SessionDB, clock: list[float]
) -> None:
    lease = begin(db, "s")
    reserve(db, lease, 1.5, DOLLARS)
    clock[0] += LEASE_SECONDS + 1
    other = begin(db, "other")
    assert isinstance(reserve(db, other, 0.25, DOLLARS), CallReserved)
    assert outcomes(db) == ["lost", "reserved"]
    (use,) = db.list_limit_uses([DOLLARS])
    assert (use.spent, use.reserved) == (1.5, 0.25)


def test_a_reservation_is_lost_when_its_turn_goes_on_elsewhere(
    db: SessionDB, clock: list[float]
) -> None:
    lease = begin(db, "s")
    reserve(db, lease, 1.5, DOLLARS)
    tamper(db, "UPDATE turns SET fence = fence + 1 WHERE conversation_id = 's'")
    reserve(db, begin(db, "other"), 0.25, DOLLARS)
    assert outcomes(db) == ["lost", "reserved"]


def test_nothing_is_reserved_for_a_turn_that_is_another_process_s(db: SessionDB) -> None:
    lease = begin(db, "s")
    tamper(db, "UPDATE turns SET fence = fence + 1 WHERE conversation_id = 's'")
    with pytest.raises(LeaseLostError):
        reserve(db, lease, 1.5, DOLLARS)
    assert outcomes(db) == []


def test_a_call_beside_turns_is_reserved_for_a_time(db: SessionDB, clock: list[float]) -> None:
    db.create_session("s", "telegram", user_id="ada")
    reserved = db.reserve_call("s", call(1.0), [DOLLARS], seconds=60.0)
    assert isinstance(reserved, CallReserved)
    clock[0] += 61
    reserve(db, begin(db, "other"), 0.1, DOLLARS)
    assert outcomes(db) == ["lost", "reserved"]
    db.settle_call("s", call(0.5, id=reserved.id, outcome="interrupted"))  # late, yet certain
    assert outcomes(db) == ["interrupted", "reserved"]


def test_turns_at_once_are_those_that_make_calls(db: SessionDB, clock: list[float]) -> None:
    first, second, third = (begin(db, name) for name in "abc")
    assert isinstance(reserve(db, first, 0.1, turns_at_once=2), CallReserved)
    assert isinstance(reserve(db, second, 0.1, turns_at_once=2), CallReserved)
    refused = reserve(db, third, 0.1, turns_at_once=2)
    assert refused == CallRefused(None, may_pass=True)
    assert isinstance(reserve(db, first, 0.1, turns_at_once=2), CallReserved)  # is one of them
    assert isinstance(reserve(db, begin(db, "d", "bob"), 0.1, turns_at_once=1), CallReserved)
    db.end_turn(second)
    assert isinstance(reserve(db, third, 0.1, turns_at_once=2), CallReserved)
    helper = db.begin_turn(
        "h", {"role": "user", "content": "?"}, source="tool", facts={"user_id": "ada"}, leased=True
    )
    assert helper.lease is not None
    reserve(db, helper.lease, 0.1)
    db.end_turn(third)
    assert isinstance(reserve(db, begin(db, "e"), 0.1, turns_at_once=2), CallReserved)


def test_many_at_once_get_one_call_beyond_the_limit(db: SessionDB) -> None:
    """Each call reserves more than it costs: together they never begin more than the limit has."""
    limit = DOLLARS._replace(most=1.0)
    made: list[float] = []
    leases = [begin(db, f"s{number}") for number in range(8)]

    def work(lease: Lease) -> None:
        while True:
            reserved = reserve(db, lease, 0.25, limit)
            if isinstance(reserved, CallRefused):
                if not reserved.may_pass:
                    return
                continue
            made.append(0.125)
            answer(db, lease, 0.125, reserved, ends=False)

    threads = [threading.Thread(target=work, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 1.0 <= sum(made) <= 1.0 + 0.125
    assert outcomes(db) == ["complete"] * len(made)


def test_of_two_at_once_in_two_processes_one_has_the_last_call(pair: Pair) -> None:
    """Also for two chats of a person: it is not the conversation that they share."""

    def prepare(db: SessionDB, name: str) -> None:
        for session_id in (name, f"{name}-2"):
            db.create_session(session_id, "telegram", user_id=name)

    def last(name: str) -> list[Limit]:
        return [DOLLARS._replace(name=name, most=0.5)]

    def first(db: SessionDB, name: str) -> Any:
        return db.reserve_call(name, call(0.5), last(name), seconds=60.0)

    def second(db: SessionDB, name: str) -> Any:
        return db.reserve_call(f"{name}-2", call(0.5), last(name), seconds=60.0)

    def check(db: SessionDB, name: str, *outcomes: Outcome) -> None:
        kinds = sorted(type(outcome.result).__name__ for outcome in outcomes)
        assert kinds == ["CallRefused", "CallReserved"]

    pair.every_way(prepare, first, second, check)
