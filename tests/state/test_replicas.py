"""Gateways that share a store: who lives, who holds a platform, what may be settled for whom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from hermes_base.process import name_process, this_process
from hermes_state import INBOX_ID, LEASE_SECONDS, UNDER, LeaseLostError, SessionDB
from hermes_state.replicas import FORGET_SECONDS

from .owners import acting_as, owner
from .raw import tamper

T = TypeVar("T")
TO = {"session_key": "k", "platform": "local", "chat_id": "1", "thread_id": None}


def fall_silent(db: SessionDB, name: str, seconds: float = LEASE_SECONDS + 1) -> None:
    """A replica was not heard of for so long."""
    for table in ("replicas", "platform_leases"):
        tamper(
            db,
            f"UPDATE {table} SET heartbeat_at = heartbeat_at - {seconds}"
            f" WHERE owner = '{owner(name)}'",
        )


def register(db: SessionDB, *names: str) -> None:
    for name in names:
        with acting_as(name):
            db.register_replica(host=name, version="1", config_digest="d")


def test_replicas_are_listed_with_what_they_hold(db: SessionDB) -> None:
    register(db, "a", "b")
    with acting_as("a"):
        db.take_platform("telegram:1")
        db.take_platform("upkeep")
        db.create_session("s", "telegram")
        db.begin_turn(
            "s", {"role": "user", "content": "?"}, source="telegram", facts={}, leased=True
        )
    first, second = db.list_replicas()
    assert (first["owner"], first["host"], first["version"]) == (owner("a"), "a", "1")
    assert (first["holds"], first["running"]) == (["telegram:1", "upkeep"], 1)
    assert (second["holds"], second["running"]) == ([], 0)
    assert all(one["is_alive"] and not one["draining"] for one in (first, second))


def test_a_replica_that_is_not_heard_is_gone(db: SessionDB) -> None:
    register(db, "a", "b")
    fall_silent(db, "a")
    assert [one["is_alive"] for one in db.list_replicas()] == [False, True]
    assert not db.is_owner_alive(owner("a"))
    assert db.is_owner_alive(owner("b"))
    assert not db.is_owner_alive(owner("nobody"))
    assert not db.is_owner_alive(None)
    with acting_as("a"):
        assert db.beat_replica().is_known
    assert db.is_owner_alive(owner("a"))


def test_a_replica_whose_process_has_ended_here_is_gone_at_once(db: SessionDB) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = name_process(child.pid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hermes_base.process._name_of", lambda pid: name)
        db.register_replica()
        db.take_platform("telegram:1")
    assert db.is_owner_alive(name)
    assert db.take_platform("telegram:1") is None
    child.communicate(b"\n")
    assert not db.is_owner_alive(name)
    assert db.take_platform("telegram:1") == ("telegram:1", 2, this_process())


def test_another_boot_of_a_machine_with_our_id_may_be_another_machine(db: SessionDB) -> None:
    here = this_process().split("|")
    there = "|".join([here[0] or "same", "another boot", *here[2:]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hermes_base.process._name_of", lambda pid: there)
        db.register_replica()
    assert db.is_owner_alive(there)


def test_one_that_is_long_gone_is_forgotten_and_must_register_again(db: SessionDB) -> None:
    register(db, "a")
    fall_silent(db, "a", FORGET_SECONDS + 1)
    register(db, "b")
    assert [one["host"] for one in db.list_replicas()] == ["b"]
    with acting_as("a"):
        assert not db.beat_replica().is_known


def race(db_path: Path, count: int, work: Callable[[SessionDB], T]) -> list[T]:
    """What so many replicas get that do something at once."""
    got: list[T] = []
    start = threading.Barrier(count)
    names = threading.local()

    def run(number: int) -> None:
        names.own = owner(str(number))
        with SessionDB(db_path) as own:  # of its own: writes of one store may share a thread
            start.wait()
            got.append(work(own))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hermes_base.process._name_of", lambda pid: names.own)
        threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(got) == count
    return got


def test_one_of_many_holds_a_platform(db: SessionDB, db_path: Path) -> None:
    got = race(db_path, 8, lambda own: own.take_platform("telegram:1"))
    (lease,) = [one for one in got if one is not None]
    assert lease.fence == 1
    assert [one["owner"] for one in db.list_platform_leases()] == [lease.owner]


def test_a_platform_is_taken_from_one_that_is_silent_and_not_given_back(db: SessionDB) -> None:
    with acting_as("a"):
        lease = db.take_platform("telegram:1")
    assert lease is not None
    with acting_as("b"):
        assert db.take_platform("telegram:1") is None
        fall_silent(db, "a")
        taken = db.take_platform("telegram:1")
    assert taken == ("telegram:1", 2, owner("b"))
    with acting_as("a"):
        assert db.beat_replica([lease]).lost == [lease]
        assert not db.holds_platform(lease)
        assert not db.release_platform(lease)
        assert db.take_platform("telegram:1") is None
    assert db.holds_platform(taken)


def test_a_beat_keeps_a_platform(db: SessionDB) -> None:
    with acting_as("a"):
        lease = db.take_platform("telegram:1")
        assert lease is not None
        fall_silent(db, "a")
        assert db.beat_replica([lease]).lost == []
    with acting_as("b"):
        assert db.take_platform("telegram:1") is None


def test_the_holder_of_a_platform_is_told_while_it_lives(db: SessionDB) -> None:
    assert db.get_platform_holder("telegram:1") is None
    register(db, "a")
    with acting_as("a"):
        lease = db.take_platform("telegram:1")
        assert lease is not None
    assert db.get_platform_holder("telegram:1") == {"owner": owner("a"), "host": "a"}
    fall_silent(db, "a")
    assert db.get_platform_holder("telegram:1") is None
    with acting_as("a"):
        db.beat_replica([lease])
        db.release_platform(lease)
    assert db.get_platform_holder("telegram:1") is None


def test_one_beat_is_for_turns_too(db: SessionDB) -> None:
    register(db, "a")
    with acting_as("a"):
        begun = db.begin_turn("s", {"role": "user", "content": "?"}, source="x", facts={},
                              leased=True).lease  # fmt: skip
        assert begun is not None
        other = begun._replace(fence=7)
        assert db.beat_replica([], [begun, other]) == (True, [], [other])


def test_what_is_let_go_is_taken_at_once_under_the_next_number(db: SessionDB) -> None:
    with acting_as("a"):
        lease = db.take_platform("telegram:1")
        assert lease is not None
        assert db.release_platform(lease)
    with acting_as("b"):
        assert db.take_platform("telegram:1") == ("telegram:1", 2, owner("b"))


def test_draining_lets_go_of_everything(db: SessionDB) -> None:
    register(db, "a")
    with acting_as("a"):
        leases = [db.take_platform(name) for name in ("telegram:1", "upkeep")]
        db.drain_replica()
        assert db.beat_replica([one for one in leases if one is not None]).lost == leases
    (replica,) = db.list_replicas()
    assert (replica["draining"], replica["holds"], replica["is_alive"]) == (1, [], True)
    with acting_as("a"):
        db.leave_replicas()
    assert db.list_replicas() == []
    with acting_as("b"):
        assert db.take_platform("upkeep") is not None


def test_what_a_holder_keeps_is_there_for_the_next_and_an_old_one_keeps_nothing(
    db: SessionDB,
) -> None:
    assert db.get_kept_for_platform("matrix:1") == {}
    with acting_as("a"):
        lease = db.take_platform("matrix:1")
        assert lease is not None
        db.keep_for_platform(lease, {"place": "1", "login": {"device": "d"}})
        db.keep_for_platform(lease, {"place": "2"})
        fall_silent(db, "a")
    with acting_as("b"):
        assert db.take_platform("matrix:1") is not None
        assert db.get_kept_for_platform("matrix:1") == {"place": "2", "login": {"device": "d"}}
    with acting_as("a"), pytest.raises(LeaseLostError):
        db.keep_for_platform(lease, {"place": "1"})
    assert db.get_kept_for_platform("matrix:1")["place"] == "2"


def test_turns_are_counted_over_all_that_live(db: SessionDB) -> None:
    register(db, "a", "b")
    with acting_as("a"):
        assert db.set_running_turns(2, limit=3)
    with acting_as("b"):
        assert db.set_running_turns(1, limit=3)
        assert not db.set_running_turns(2, limit=3)
        assert db.set_running_turns(2)
        assert db.set_running_turns(1, limit=0)
        fall_silent(db, "a")
        assert db.set_running_turns(3, limit=3)
    assert [one["turns"] for one in db.list_replicas()] == [2, 3]


def test_those_that_ask_at_once_do_not_exceed_the_limit(db: SessionDB, db_path: Path) -> None:
    register(db, *(str(number) for number in range(6)))
    got = race(db_path, 6, lambda own: own.set_running_turns(1, limit=2))
    assert sorted(got) == [False] * 4 + [True] * 2


# What may be settled for others


def test_what_another_is_sending_is_left_to_it_while_it_lives(db: SessionDB) -> None:
    register(db, "a", "b")
    db.add_delivery("x", "text", **TO)
    with acting_as("a"):
        assert db.begin_delivery("x")
        assert db.list_abandoned_deliveries() == []
        assert [one["owner"] for one in db.list_abandoned_deliveries(with_own=True)] == [owner("a")]
    with acting_as("b"):
        assert db.list_abandoned_deliveries() == []
        db.finish_delivery("x", "failed")
        assert db.list_deliveries(("failed",)) == []
        fall_silent(db, "a")
        (left,) = db.list_abandoned_deliveries()
        assert db.settle_delivery("x", left["owner"], "pending", "gone")
        assert not db.settle_delivery("x", left["owner"], "failed")
        assert db.begin_delivery("x")
    with acting_as("a"):  # it wakes up
        db.finish_delivery("x", "failed")
    (row,) = db.list_deliveries(("sending",))
    assert row["owner"] == owner("b")


def test_nothing_is_sent_on_a_platform_that_another_holds(db: SessionDB) -> None:
    db.add_delivery("x", "text", **TO)
    with acting_as("a"):
        lease = db.take_platform("local")
        assert lease is not None
        fall_silent(db, "a")
    with acting_as("b"):
        newer = db.take_platform("local")
    with acting_as("a"), pytest.raises(LeaseLostError):
        db.begin_delivery("x", lease)
    assert [one["state"] for one in db.list_deliveries()] == ["pending"]
    with acting_as("b"):
        assert db.begin_delivery("x", newer)


def test_a_delivery_from_before_owners_were_noted_is_a_left_over(db: SessionDB) -> None:
    db.add_delivery("x", "text", **TO)
    db.begin_delivery("x")
    tamper(db, "UPDATE delivery_obligations SET owner = NULL")
    (left,) = db.list_abandoned_deliveries()
    assert db.settle_delivery("x", left["owner"], "failed")


def test_a_command_is_told_as_cut_off_only_when_its_owner_is_gone(db: SessionDB) -> None:
    register(db, "a", "b")
    db.accept_message("m", "s", "/compress", source="local")
    with acting_as("a"):
        assert db.begin_command("m")
    with acting_as("b"):
        assert db.list_abandoned_commands() == []
        fall_silent(db, "a")
        assert [one["id"] for one in db.list_abandoned_commands()] == ["m"]


def test_a_waiting_message_of_one_that_is_gone_is_claimed_by_one(db: SessionDB) -> None:
    register(db, "a", "b")
    with acting_as("a"):
        db.accept_message("m", "s", "x", source="api_server")
        assert db.list_live_owners() == {owner("a"), owner("b")}
        assert db.list_live_owners(with_own=True) == {owner("b")}
    fall_silent(db, "a")
    with acting_as("b"):
        assert db.list_live_owners() == {owner("b")}
        assert db.claim_message("m", owner("a"))
    with acting_as("c"):
        assert not db.claim_message("m", owner("a"))


def test_a_hand_off_goes_on_once_its_owner_is_gone(db: SessionDB) -> None:
    register(db, "a", "b", "c")
    db.create_session("s", "cli")
    db.append_message("s", "user", "x")
    db.request_handoff("s", "telegram")
    with acting_as("a"):
        assert db.claim_handoff("s")
    db.rotate_session("s", "s2", [{"role": "user", "content": "summary"}])
    with acting_as("b"):
        assert db.list_abandoned_handoffs() == []
        fall_silent(db, "a")
        (left,) = db.list_abandoned_handoffs()
        assert (left["id"], left["handoff_owner"]) == ("s2", owner("a"))
        assert db.take_over_handoff("s2", owner("a"))
    with acting_as("c"):
        assert not db.take_over_handoff("s2", owner("a"))
        assert db.list_abandoned_handoffs() == []


def test_background_work_names_its_owner(db: SessionDB) -> None:
    with acting_as("a"):
        db.create_delegation("d", "s", {"goals": ["x"]}, owner_pid=os.getpid())
    assert [one["owner"] for one in db.list_running_delegations()] == [owner("a")]


def test_a_turn_of_a_chat_that_another_has_is_not_begun(db: SessionDB) -> None:
    question = {"role": "user", "content": "?", INBOX_ID: "m"}
    with acting_as("a"):
        lease = db.take_platform("local")
        assert lease is not None
        db.accept_message("m", "s", "?", source="local")
        target = {"id": "t", "to": TO, UNDER: lease}
        fall_silent(db, "a")
    with acting_as("b"):
        newer = db.take_platform("local")
    with acting_as("a"), pytest.raises(LeaseLostError):
        db.begin_turn("s", question, source="x", facts={}, leased=True, deliver_to=target)
    assert db.get_session("s") is None
    assert [row["id"] for row in db.list_waiting()] == ["m"]
    with acting_as("b"):
        target = {**target, UNDER: newer}
        db.begin_turn("s", question, source="x", facts={}, leased=True, deliver_to=target)
    turn = db.get_turn("s")
    assert turn is not None and json.loads(turn["deliver_to"]) == {"id": "t", "to": TO}
