"""Two gateways over one PostgreSQL, as real processes on machines of their own: one holds the
platform; when it is killed, stopped or asked to end, the other goes on with its chats."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from pathlib import Path

import pytest

from gateway.restart import RESTARTING

from ..conformance.replicas.fleet import KEY
from ..conformance.script import answer, marks
from .replica_world import SECONDS, world

pytest.importorskip("telegram")
pytestmark = pytest.mark.long


async def test_the_chats_of_a_gateway_that_is_killed_go_on_at_another(tmp_path: Path) -> None:
    async with world(tmp_path, lease=2.0, thinking=0.5) as there:
        first = await there.start("r1")
        await there.polled_by("r1")
        await there.start("r2")
        await there.telegram.tell("c1", "m1")
        assert await there.answered("c1", "m1") == "r1"
        await there.telegram.tell("c1", "m2")
        await there.until(lambda: any(one.name == "m2" for one in there.history.thoughts))
        there.fleet.kill(first)  # in the middle of a turn
        assert await there.answered("c1", "m2") == "r2"
        await there.telegram.tell("c1", "m3")
        assert await there.answered("c1", "m3") == "r2"
        done = [one.mark for one in there.history.effects]
        assert len(done) == len(set(done))
        assert set(marks("m1") + marks("m3")) <= set(done)


async def test_a_gateway_that_was_stopped_beyond_its_lease_does_nothing_when_it_wakes_up(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, lease=2.0) as there:
        first = await there.start("r1")
        await there.polled_by("r1")
        second = await there.start("r2")
        await there.telegram.tell("c1", "m1")
        assert await there.answered("c1", "m1") == "r1"
        with there.history.fault("stop", "r1"):
            there.fleet.signal(first, signal.SIGSTOP)
            await there.telegram.tell("c1", "m2")
            assert await there.answered("c1", "m2") == "r2"
            await there.polled_by("r2")
        count = len(there.history.polls)
        there.fleet.signal(first, signal.SIGCONT)
        await there.until(lambda: all(one["is_alive"] for one in there.replicas()))
        await there.telegram.tell("c1", "m3")
        assert await there.answered("c1", "m3") == "r2"
        assert "r1" not in [poll.replica for poll in there.history.polls[count:]]
        holders = {one["host"]: one["holds"] for one in there.replicas()}
        assert sum(len(held) for held in holders.values()) >= 1
        there.fleet.kill(second)  # and it is well: it takes its turn again
        await there.telegram.tell("c1", "m4")
        assert await there.answered("c1", "m4") == "r1"


async def test_a_gateway_that_is_asked_to_end_lets_another_go_on_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, lease=600.0) as there:  # nobody waits for a lease here
        first = await there.start("r1")
        await there.polled_by("r1")
        await there.start("r2")
        held = [lease for one in there.replicas() for lease in one["holds"]]
        assert held == ["telegram:123456"]
        await there.fleet.drain(first, SECONDS)
        await there.telegram.tell("c1", "m1")
        assert await there.answered("c1", "m1") == "r2"
        (left,) = there.replicas()
        assert left["holds"] == held


async def test_a_turn_that_does_not_end_in_time_goes_on_at_another(tmp_path: Path) -> None:
    async with world(tmp_path, lease=600.0) as there:
        first = await there.start("r1", drain_timeout=0.2)
        await there.polled_by("r1")
        await there.start("r2")
        there.hold_model("r1")
        await there.telegram.tell("c1", "m1")
        await there.until(lambda: any(one.name == "m1" for one in there.history.thoughts))
        await there.fleet.drain(first, SECONDS)
        await there.until(lambda: any(one.replica == "r2" for one in there.history.thoughts))
        await there.until(
            lambda: any(by == "r2" and text.startswith("done") for by, text in there.shown("c1"))
        )
        assert there.shown("c1")[0] == ("r2", RESTARTING)


def ask_api(port: int, name: str) -> str:
    """What the API of a gateway answers to a program."""
    body = json.dumps({"model": "hermes", "messages": [{"role": "user", "content": name}]})
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        body.encode(),
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


async def test_turns_are_counted_over_all_gateways_that_live(tmp_path: Path) -> None:
    async with world(tmp_path, lease=2.0) as there:
        first = await there.start("r1", max_concurrent_sessions=1)
        await there.polled_by("r1")
        second = await there.start("r2", max_concurrent_sessions=1)
        there.hold_model("r1")
        await there.telegram.tell("c1", "m1")
        await there.until(lambda: any(one.name == "m1" for one in there.history.thoughts))
        asking = asyncio.create_task(asyncio.to_thread(ask_api, second.port, "p1"))
        done, _ = await asyncio.wait([asking], timeout=1.5)
        assert not done, "there is room for one turn, and it is taken"
        there.fleet.kill(first)
        assert await asking == answer("p1")
        assert await there.answered("c1", "m1") == "r2"
