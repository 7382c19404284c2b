"""Platforms are spread over the gateways that run, and go to the machine that prefers them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from gateway.shares import UPKEEP, find_better_holder, find_better_taker

from ..conformance.children.replica_child import BALANCE
from ..ports import free_port
from .replica_world import world

pytest.importorskip("telegram")

SOON = {BALANCE: "1"}
TELEGRAM, WEBHOOK = "telegram:123456", "webhook"


def both() -> dict[str, Any]:
    return {
        "webhook": {"enabled": True, "port": free_port(), "routes": {"x": {"secret": "s" * 32}}}
    }


@pytest.mark.long
async def test_a_gateway_that_comes_later_gets_its_share(tmp_path: Path) -> None:
    async with world(tmp_path, lease=2.0) as there:
        await there.start("r1", SOON, platforms=both())
        await there.until(lambda: sorted(there.holds("r1")) == [TELEGRAM, WEBHOOK])
        await there.telegram.tell("c1", "m1")
        assert await there.answered("c1", "m1") == "r1"
        await there.start("r2", SOON, platforms=both())
        talking = asyncio.create_task(talk(there))
        await there.until(lambda: len(there.holds("r1")) == len(there.holds("r2")) == 1)
        before = there.holds("r1"), there.holds("r2")
        await talking  # everything is answered once, whoever holds the bot
        assert (there.holds("r1"), there.holds("r2")) == before, "nothing goes to and fro"


async def talk(there: Any) -> None:
    for number in range(10):
        await there.telegram.tell("c2", f"t{number}")
        await there.answered("c2", f"t{number}")
        await asyncio.sleep(random.random() / 2)


@pytest.mark.long
async def test_a_platform_goes_to_the_machine_that_prefers_it_when_no_turn_runs(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, lease=2.0) as there:
        await there.start("r1", SOON)
        await there.polled_by("r1")
        there.hold_model("r1")
        await there.telegram.tell("c1", "m1")
        await there.until(lambda: any(one.name == "m1" for one in there.history.thoughts))
        second = await there.start("r2", SOON, replicas={"prefer": ["telegram"]})
        there.model.held.clear()
        await there.until(lambda: any(TELEGRAM in one["wants"] for one in there.replicas()))
        first = there.replicas()[0]["heartbeat_at"]
        await there.until(lambda: there.replicas()[0]["heartbeat_at"] > first + 2.5)
        assert there.holds("r1") == [TELEGRAM], "let go of by now, were it not for the turn"
        await there.telegram.tell("c1", "/stop")
        await there.until(lambda: there.holds("r2") == [TELEGRAM])
        await there.telegram.tell("c2", "m2")
        assert await there.answered("c2", "m2") == "r2"
        there.fleet.kill(second)  # a preference is no more than that
        await there.telegram.tell("c2", "m3")
        assert await there.answered("c2", "m3") == "r1"


def replica(name: str, *holds: str, **facts: Any) -> dict[str, Any]:
    return {
        "owner": name, "host": name, "holds": list(holds), "wants": [], "prefers": [],
        "is_alive": True, "draining": 0, "format": 1, **facts,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("own", "other", "gives_way"),
    [
        (replica("a", "x", "y"), replica("b", wants=["x"]), True),
        (replica("a", "x", UPKEEP), replica("b", wants=["x"]), False),
        (replica("a", "x", "y"), replica("b", "z", wants=["x"]), False),
        (replica("a", "x", "y"), replica("b"), False),
        (replica("a", "x", "y"), replica("b", wants=["x"], draining=1), False),
        (replica("a", "x", "y"), replica("b", wants=["x"], is_alive=False), False),
        (replica("a", "x", "y", format=2), replica("b", wants=["x"]), False),
        (replica("a", "x", "y"), replica("b", wants=["x"], format=None), True),
        (replica("a", "x"), replica("b", "y", "z", wants=["x"], prefers=["x"]), True),
        (replica("a", "x", "y", prefers=["x"]), replica("b", wants=["x"], prefers=["x"]), False),
    ],
)
def test_who_should_hold_a_platform(
    own: dict[str, Any], other: dict[str, Any], gives_way: bool
) -> None:
    assert find_better_holder("x", own, [own, other]) is (other if gives_way else None)


def test_an_account_is_preferred_by_its_platform() -> None:
    own, other = replica("a", "x:1"), replica("b", wants=["x:1"], prefers=["x"])
    assert find_better_holder("x:1", own, [own, other]) is other


def test_what_waits_for_a_newer_release_comes_before_everything_else() -> None:
    own = replica("a", "x", prefers=["x"])
    same, newer = replica("b", wants=["x"]), replica("c", "y", "z", wants=["x"], format=2)
    assert find_better_holder("x", own, [own, same, newer], needs_format=2) is newer
    assert find_better_holder("x", own, [own, same], needs_format=2) is None


def test_what_is_free_is_left_to_whom_it_should_go() -> None:
    own, other = replica("a", wants=["x"]), replica("b", wants=["x"])
    assert find_better_taker("x", own, [own, other]) is None
    newer = replica("c", wants=["x"], format=2)
    assert find_better_taker("x", own, [own, newer]) is newer
    preferring = replica("d", wants=["x"], prefers=["x"])
    assert find_better_taker("x", own, [own, other, preferring]) is preferring
    busy = replica("e", "y", wants=["x"])
    assert find_better_taker("x", busy, [busy, own]) is own
