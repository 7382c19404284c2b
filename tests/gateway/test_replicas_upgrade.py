"""Two releases side by side over one PostgreSQL, as real processes: what only the newer understands
waits for it, is said to wait, and is answered once. (The newer release is this one with a format of
requests more.)"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.balance import CUT_OFF, WAITS
from hermes_cli import replica_status
from hermes_state import SessionDB

from ..conformance.children.replica_child import NEW
from .replica_world import World, world

pytest.importorskip("telegram")
pytestmark = pytest.mark.long

NEWER = {NEW: json.dumps(["inbox.source"])}
"""A release that keeps something about a message's sender that those before do not know."""


def waiting(there: World) -> list[tuple[str, bool]]:
    """What waits for a newer release than this one, and whether a gateway of one runs."""
    with SessionDB(server=there.address, connections=2) as db:
        return [(one["kind"], one["is_taken"]) for one in db.list_for_newer()]


def status(there: World, home: Path) -> list[str]:
    """As `hermes gateway status` says it."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(json.dumps({"store": there.address}))
    return replica_status.describe(home, None)


async def test_what_only_the_newer_release_understands_waits_for_it(tmp_path: Path) -> None:
    async with world(tmp_path, lease=2.0) as there:
        newer = await there.start("r1", NEWER)
        await there.polled_by("r1")
        await there.start("r2")
        await there.telegram.tell("c1", "m1")
        assert await there.answered("c1", "m1") == "r1"
        there.hold_model("r1")
        await there.telegram.tell("c1", "m2")  # begun, and not ended
        await there.until(lambda: any(one.name == "m2" for one in there.history.thoughts))
        await there.telegram.tell("c1", "m3")  # accepted, and not begun
        await there.until(lambda: waiting(there) == [("message", True)])
        there.fleet.kill(newer)
        # The older one serves the chats, but for what it does not understand; and says so.
        await there.telegram.tell("c2", "m4")
        assert await there.answered("c2", "m4") == "r2"
        await there.until(lambda: sorted(waiting(there)) == [("message", False), ("turn", False)])
        told = {("r2", WAITS), ("r2", CUT_OFF)}
        await there.until(lambda: told <= set(there.shown("c1")))
        (said,) = [line for line in status(there, tmp_path / "own") if "newer release" in line]
        assert "1 turn" in said and "1 message" in said and "No gateway of such a release" in said
        assert [one.replica for one in there.history.thoughts if one.name in ("m2", "m3")] == ["r1"]
        # A newer one comes back: the older gives way to it, and everything is answered in order.
        await there.start("r3", NEWER)
        assert await there.answered("c1", "m2") == "r3"
        assert await there.answered("c1", "m3") == "r3"
        await there.telegram.tell("c1", "m5")
        assert await there.answered("c1", "m5") == "r3"
        assert waiting(there) == []
        assert there.holds("r3") == ["telegram:123456"] and there.holds("r2") == []
        done = [one.mark for one in there.history.effects]
        assert len(done) == len(set(done))


async def test_what_a_newer_release_left_unbegun_is_answered_by_the_next_newer_one(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, lease=2.0) as there:
        await there.start("r1")  # the older one
        await there.polled_by("r1")
        newer = await there.start("r2", NEWER)
        there.hold_model("r1")
        await there.telegram.tell("c1", "m1")
        await there.until(lambda: any(one.name == "m1" for one in there.history.thoughts))
        there.model.held.clear()
        older = there.fleet.replicas[0]
        there.fleet.kill(older)  # what the older began anybody may go on with
        assert await there.answered("c1", "m1") == "r2"
        assert waiting(there) == []
        await there.fleet.drain(newer, 60)
