"""The simulation agrees with queueing theory where it has a formula, and with reason elsewhere."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.events import Clock, Log, Station
from bench.simulation import Costs, Outcome, Plan, most_turns, simulate, storm, tables

COSTS = Costs(gateway_seconds=0.01, database_seconds=0.004, commits=8, flush_seconds=0.001)
QUICK = Plan(replicas=2, turns_per_second=20, seconds=40, lease_seconds=5)


def mean_wait(rate: float, servers: int, service: Callable[[random.Random], float]) -> float:
    """How long those who come at random wait in the queue of a station, on average."""
    clock, chance = Clock(), random.Random(7)
    station, waits = Station(clock, servers), list[float]()

    def arrive() -> None:
        clock.after(chance.expovariate(rate), arrive)
        came, seconds = clock.now, service(chance)
        station.use(seconds, lambda: waits.append(clock.now - came - seconds))

    arrive()
    clock.run(until=40_000)
    return statistics.fmean(waits)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_server_with_random_times_waits_as_m_m_1_does(load: float) -> None:
    found = mean_wait(load, 1, lambda chance: chance.expovariate(1.0))
    assert found == pytest.approx(load / (1 - load), rel=0.1)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_server_with_fixed_times_waits_as_m_d_1_does(load: float) -> None:
    found = mean_wait(load, 1, lambda _: 1.0)
    assert found == pytest.approx(load / (2 * (1 - load)), rel=0.1)


def test_several_servers_wait_as_erlangs_formula_says() -> None:
    servers, offered = 4, 3.0
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    waiting = last / (sum(offered**n / math.factorial(n) for n in range(servers)) + last)
    found = mean_wait(offered, servers, lambda chance: chance.expovariate(1.0))
    assert found == pytest.approx(waiting / (servers - offered), rel=0.1)


def test_a_log_is_flushed_once_for_all_who_wait() -> None:
    clock = Clock()
    log, done = Log(clock, 1.0), list[float]()
    for _ in range(3):
        log.commit(lambda: done.append(clock.now))
    clock.after(0.5, lambda: log.commit(lambda: done.append(clock.now)))
    clock.run(until=10.0)
    assert done == [1.0, 2.0, 2.0, 2.0] and (log.flushes, log.commits) == (2, 4)


def test_a_station_that_is_down_serves_nobody() -> None:
    clock = Clock()
    station, done = Station(clock, 1), list[str]()
    for name in ("begun", "queued"):
        station.use(1.0, lambda name=name: done.append(name))  # type: ignore[misc]
    station.fail()
    station.use(1.0, lambda: done.append("later"))
    clock.run(until=10.0)
    assert done == []


def test_every_turn_is_answered_and_the_work_adds_up() -> None:
    found = simulate(QUICK, COSTS)
    assert found.done == pytest.approx(QUICK.turns_per_second * QUICK.seconds, rel=0.1)
    assert found.gateway_busy == pytest.approx(
        QUICK.turns_per_second * COSTS.gateway_seconds / QUICK.replicas, rel=0.15
    )
    assert found.wait(0.5) >= COSTS.gateway_seconds + COSTS.commits * COSTS.flush_seconds
    assert found.keeps_up and not found.taken_over


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    assert simulate(QUICK, COSTS).waits == simulate(QUICK, COSTS).waits
    assert simulate(QUICK, COSTS).waits != simulate(replace(QUICK, seed=2), COSTS).waits


def test_more_replicas_do_more_until_the_database_is_full() -> None:
    plan = replace(QUICK, seconds=30, warm_up=2, database_cores=1)
    one, two, many = (
        most_turns(replace(plan, replicas=count), COSTS, precision=0.1) for count in (1, 2, 20)
    )
    assert two.plan.turns_per_second > 1.6 * one.plan.turns_per_second
    assert many.plan.turns_per_second < 1 / COSTS.database_seconds
    assert one.gateway_busy > 0.8 > one.database_busy
    assert many.database_busy > 0.8 > many.gateway_busy


def test_a_hot_chat_waits_for_itself_and_nobody_else_does() -> None:
    hot = simulate(replace(QUICK, hot_share=0.3), COSTS)
    assert hot.unanswered > 20 and not hot.keeps_up
    assert hot.wait(0.5) < 0.1


def test_what_a_dead_replica_had_is_taken_over_after_its_lease() -> None:
    plan = replace(QUICK, replicas=4, dies_at=15.0)
    found = simulate(plan, COSTS)
    # What it had begun, and what came for it until somebody noticed: a quarter of five seconds.
    assert found.taken_over == pytest.approx(plan.turns_per_second * 5.3 / 4, rel=0.4)
    assert found.unanswered < 30, "nothing is left lying"
    assert max(found.waits) > plan.lease_seconds * 0.8
    assert 0.0 <= storm(found, simulate(QUICK, COSTS).wait(0.99)) < 10.0


def test_one_bot_is_as_fast_as_one_replica() -> None:
    plan = replace(QUICK, replicas=4, turns_per_second=150, seconds=15, warm_up=2)
    assert simulate(plan, COSTS).keeps_up
    assert not simulate(replace(plan, one_bot=0.9), COSTS).keeps_up


def test_nothing_done_is_no_good_result() -> None:
    assert not Outcome(QUICK).keeps_up


def test_the_tables_can_be_put_into_the_page() -> None:
    lines = tables(COSTS, sizes=(1, 2), seconds=8.0)
    assert any(line.startswith("| 2 |") for line in lines)
    assert all(line.count("|") >= 3 for line in lines if line.startswith("|"))
