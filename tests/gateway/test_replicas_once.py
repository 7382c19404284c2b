"""What others are at is theirs while they live, and is settled once when they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agent import background
from agent.heartbeat import heart
from gateway.chat_door import ChatDoor
from gateway.config import Platform, ResetPolicy
from gateway.pipeline import Inbound, Pipeline
from gateway.platforms.base import SendError
from gateway.recovery import STOPPED
from gateway.requests import Requests
from hermes_base.clock import elapsed
from hermes_state import (
    LEASE_SECONDS,
    LeaseLostError,
    PlatformLease,
    SessionDB,
    StoreFullError,
)

from ..state.owners import acting_as, owner
from ..state.raw import tamper
from .chats import Chats, gateway

pytestmark = pytest.mark.postgres

CHAT = {"source": {"platform": "local", "chat_id": "1", "user_id": "u1", "chat_type": "dm"}}
TARGET = {
    "id": "t",
    "to": {"session_key": "agent:main:local:dm:1", "platform": "local", "chat_id": "1"},
}
TO = {"session_key": "agent:main:local:dm:1", "platform": "local", "chat_id": "1"}


@pytest.fixture
def finalized() -> Iterator[list[str]]:
    """The sessions whose end plugins were told."""
    found: list[str] = []

    def invoke(name: str, **facts: Any) -> list[Any]:
        if name == "on_session_finalize":
            found.append(facts["session_id"])
        return []

    with (
        patch("hermes_base.plugins.invoke_hook", invoke),
        patch("hermes_base.plugins.has_hook", lambda name: True),
    ):
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.recovery.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("gateway.recovery.PACE_SECONDS", 0.05)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


def fall_silent(db: SessionDB) -> None:
    tamper(
        db,
        f"UPDATE replicas SET heartbeat_at = heartbeat_at - {LEASE_SECONDS + 1}"
        f" WHERE owner = '{owner('a')}'",
    )


def states(chats: Chats) -> list[str]:
    every = ("pending", "sending", "delivered", "failed")
    return [row["state"] for row in chats.db.list_deliveries(every)]


async def test_what_another_is_sending_is_reported_only_when_it_is_gone(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db, acting_as("a"):
        db.register_replica(host="a")
        db.add_delivery("say:x", "a notice", **TO)
        assert db.begin_delivery("say:x")
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")  # by then it has looked
        assert chats.local.texts() == ["re: hello"]
        await until(lambda: sorted(states(chats)) == ["delivered", "sending"])
        fall_silent(chats.db)
        await until(lambda: "a notice" in chats.local.texts())
        await until(lambda: states(chats) == ["delivered", "delivered"])


async def test_a_command_that_another_carries_out_is_told_only_when_it_is_gone(
    tmp_path: Path,
) -> None:
    with SessionDB(tmp_path / "state.db") as db, acting_as("a"):
        db.register_replica(host="a")
        db.accept_message("local:1:c", "s", "/compress", source="local", facts=CHAT,
                          session_key=TO["session_key"])  # fmt: skip
        assert db.begin_command("local:1:c")
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        assert [row["id"] for row in chats.db.list_begun()] == ["local:1:c"]
        fall_silent(chats.db)
        await until(lambda: STOPPED.format(command="/compress") in chats.local.texts())
        await until(lambda: chats.db.list_begun() == [])


async def test_a_message_that_another_accepted_for_our_chats_is_gone_on_with(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as chats:
        db = chats.db
        assert db.accept_message("local:1:m", TO["session_key"], "by another", source="local",
                                 facts=CHAT, session_key=TO["session_key"])  # fmt: skip
        tamper(db, f"UPDATE inbox SET owner = '{owner('a')}'")
        assert (await chats.local.wait_for(1)) == ["re: by another"]


async def test_looks_at_the_same_time_take_up_a_message_once_and_only_where_it_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.recovery.LOOK_SECONDS", 600.0)
    monkeypatch.setattr("gateway.recovery.PACE_SECONDS", 600.0)
    async with gateway(tmp_path) as chats:
        db, pipeline = chats.db, chats.runner.pipeline
        taken: list[str] = []
        take_up = pipeline.take_up
        monkeypatch.setattr(
            pipeline, "take_up", lambda inbound: [taken.append(inbound.inbox_id), take_up(inbound)]
        )
        for name in ("m1", "m2"):
            db.accept_message(f"local:1:{name}", TO["session_key"], name, source="local",
                              facts=CHAT, session_key=TO["session_key"])  # fmt: skip
        tamper(db, f"UPDATE inbox SET owner = '{owner('a')}'")

        async def look() -> None:
            await pipeline.resume({Platform.LOCAL}, with_own=False)

        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "_serves", lambda platform: False)
            await look()
        assert taken == []
        await asyncio.gather(look(), look(), look())
        assert taken == ["local:1:m1", "local:1:m2"]
        await chats.local.wait_for(1)


async def test_messages_that_came_while_the_chat_was_not_certainly_ours_are_answered_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.recovery.LOOK_SECONDS", 600.0)
    monkeypatch.setattr("gateway.recovery.PACE_SECONDS", 600.0)
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        pipeline = chats.runner.pipeline
        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "_serves", lambda platform: False)
            await chats.local.receive("one")
        await chats.local.receive("two")
        assert [row["content"] for row in chats.db.list_waiting()] == ["one", "two"]
        await pipeline.resume({Platform.LOCAL}, with_own=False)
        assert await chats.local.wait_for(2) == ["re: one", "re: two"]


async def test_a_message_that_another_has_stored_meanwhile_is_answered_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.recovery.LOOK_SECONDS", 600.0)
    monkeypatch.setattr("gateway.recovery.PACE_SECONDS", 600.0)
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        # By a gateway that lost the chat while its commit was on its way.
        chats.db.accept_message("local:1:m1", TO["session_key"], "one", source="local",
                                facts=CHAT, session_key=TO["session_key"])  # fmt: skip
        tamper(chats.db, f"UPDATE inbox SET owner = '{owner('a')}'")
        await chats.local.receive("one", message_id="m1")  # delivered again, here
        await chats.local.receive("two", message_id="m2")
        assert await chats.local.wait_for(2) == ["re: one", "re: two"]


async def test_a_request_is_gone_on_with_when_who_accepted_it_is_gone(tmp_path: Path) -> None:
    facts = {"request": {"owner": "default", "conversation_id": "c"}}
    with SessionDB(tmp_path / "state.db") as db, acting_as("a"):
        db.register_replica(host="a")
        db.accept_message("api:m", "c", "later", source=Platform.API_SERVER.value, facts=facts,
                          session_key="agent:main:api")  # fmt: skip
    async with gateway(tmp_path) as chats:
        requests = Requests(chats.runner.request_parts)
        await requests.resume()
        assert not requests.is_open("api:m")
        fall_silent(chats.db)
        await requests.resume(with_own=False)
        assert requests.is_open("api:m")
        await until(
            lambda: [one["content"] for one in chats.db.get_messages("c")] == ["later", "re: later"]
        )


async def test_the_end_of_a_session_is_told_by_one_of_two(
    tmp_path: Path, finalized: list[str]
) -> None:
    policy = ResetPolicy("idle", idle_minutes=60, notify=False)
    async with (
        gateway(tmp_path, reset=policy) as first,
        gateway(tmp_path, reset=policy, account="2") as second,
    ):
        await first.say("hello")  # whichever of the two shows the answer
        await until(lambda: [*first.local.texts(), *second.local.texts()] == ["re: hello"])
        session_id = first.session_id()
        for chats in (first, second):
            store = chats.runner.session_store
            now = store._now() + timedelta(hours=2)
            store._now = lambda now=now: now  # type: ignore[method-assign, misc]
        ended = await asyncio.gather(
            first.runner.expiry().end_expired(), second.runner.expiry().end_expired()
        )
        assert sorted(ended) == [0, 1]
    assert finalized.count(session_id) == 1


async def test_an_end_that_was_read_before_it_is_claimed_is_not_claimed_again(
    tmp_path: Path,
) -> None:
    policy = ResetPolicy("idle", idle_minutes=60, notify=False)
    async with gateway(tmp_path, reset=policy) as first:
        await first.ask("hello")
        async with gateway(tmp_path, reset=policy, account="2") as second:
            stores = [chats.runner.session_store for chats in (first, second)]
            entries = [next(iter(store._entries.values())) for store in stores]
            assert stores[0].set_expiry_finalized(entries[0])
            stores[1].refresh()  # something else has looked, between the decision and the claim
            assert not stores[1].set_expiry_finalized(entries[1])


async def test_upkeep_is_one_gateways(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db, acting_as("a"):
        db.register_replica(host="a")
        assert db.take_platform("upkeep") is not None
    async with gateway(tmp_path) as chats:
        assert not await chats.runner.replica.leads()
        tamper(
            chats.db, f"UPDATE platform_leases SET heartbeat_at = 0 WHERE owner = '{owner('a')}'"
        )
        assert await chats.runner.replica.leads()
        assert await chats.runner.replica.leads()


def test_background_work_is_lost_with_its_gateway_and_not_before(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        with acting_as("a"):
            db.register_replica(host="a")
            place = owner("a").split("|")
            task = {"goals": ["dig"], "sessions": [], "machine": place[:3]}
            db.create_session("s", "local")
            db.create_delegation("d", "s", task, owner_pid=int(place[3]), owner_started_at=1)
        assert background.end_abandoned(db, db.list_running_delegations()) == 0
        fall_silent(db)
        assert background.end_abandoned(db, db.list_running_delegations()) == 1
        assert background.end_abandoned(db, db.list_running_delegations()) == 0


async def test_an_adapter_keeps_its_place_under_the_lease_of_its_platform(tmp_path: Path) -> None:
    async with gateway(tmp_path, account="7") as chats:
        shelf = chats.local.host.shelf
        assert shelf is not None
        await asyncio.to_thread(shelf.write, {"place": "1"})
        assert await asyncio.to_thread(shelf.read) == {"place": "1"}
        assert chats.db.get_kept_for_platform("local:7") == {"place": "1"}
        tamper(chats.db, f"UPDATE platform_leases SET owner = '{owner('a')}', fence = fence + 1")
        with pytest.raises(LeaseLostError):
            await asyncio.to_thread(shelf.write, {"place": "2"})
        assert chats.db.get_kept_for_platform("local:7") == {"place": "1"}


async def test_nothing_is_sent_by_a_gateway_that_may_have_lost_its_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        local = chats.local
        await local.send("1", "before")
        # As after a stop: its lease was not confirmed for too long, by its own clock.
        monkeypatch.setattr("gateway.replica.SURE_SECONDS", 0.0)
        with pytest.raises(SendError, match="another replica"):
            await local.send("1", "after")
        with pytest.raises(SendError):
            await local.edit("1", local.shown[0].id, "after")
        assert local.texts() == ["before"]
        await until(lambda: Platform.LOCAL not in chats.runner.adapters)
        await until(lambda: not local.connected)
        monkeypatch.undo()
        await until(lambda: Platform.LOCAL in chats.runner.adapters)
        (lease,) = chats.db.list_platform_leases()
        assert lease["fence"] > 1


async def test_nothing_is_sent_by_a_gateway_whose_machine_was_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        local, replica = chats.local, chats.runner.replica
        await local.send("1", "before")
        # Its processes have not noticed anything: the clock that counts the sleep has.
        monkeypatch.setattr(replica, "_clock", lambda: elapsed() + LEASE_SECONDS)
        monkeypatch.setattr(heart, "_clock", lambda: elapsed() + LEASE_SECONDS)
        with pytest.raises(SendError, match="another replica"):
            await local.send("1", "after")
        assert local.texts() == ["before"]
        await until(lambda: Platform.LOCAL not in chats.runner.adapters)
        await until(lambda: Platform.LOCAL in chats.runner.adapters)
        await local.send("1", "under a new lease")
        (lease,) = chats.db.list_platform_leases()
        assert lease["fence"] > 1


async def test_messages_stay_in_order_when_their_chat_is_lost_and_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        await chats.ask("hello")
        db, session_id = chats.db, chats.session_id()
        other = db.begin_turn(session_id, {"role": "user", "content": "x"}, source="local",
                              facts={}, leased=True, deliver_to=TARGET).lease  # fmt: skip
        assert other is not None
        tamper(db, f"UPDATE turns SET owner = '{owner('a')}'")
        await chats.say("one")  # it waits for the turn of another gateway
        await chats.say("two")

        def has_both() -> bool:  # of the door that the chat has then: an idle one is forgotten
            return len(chats.runner.turns.door(chats.key()).admitted) == 2

        await until(has_both)
        monkeypatch.setattr("gateway.replica.SURE_SECONDS", 0.0)
        await until(lambda: Platform.LOCAL not in chats.runner.adapters)
        monkeypatch.undo()
        await until(lambda: Platform.LOCAL in chats.runner.adapters and has_both())
        assert db.end_turn(other._replace(owner=owner("a")))
        assert await chats.local.wait_for(3) == ["re: hello", "re: one", "re: two"]


async def test_a_message_whose_lease_was_lost_while_it_was_looked_at_is_not_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    authorised, gather = Pipeline._authorise, ChatDoor.gather
    looked_at: list[str] = []
    gathered: list[str] = []

    async def slowly(self: Pipeline, inbound: Inbound) -> bool:
        looked_at.append(inbound.event.text)
        if inbound.event.text == "one":
            await gates[looked_at.count("one") - 1].wait()
        return await authorised(self, inbound)

    async def slowly_again(self: ChatDoor, inbound: Inbound) -> bool:
        gathered.append(inbound.event.text)
        if inbound.event.text == "two" and inbound.under == lost_lease:
            await until(lambda: self.admitted[inbound.inbox_id].under != inbound.under)
        return await gather(self, inbound)

    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        await chats.ask("hello")
        (row,) = chats.db.list_platform_leases()
        lost_lease = PlatformLease(row["name"], row["fence"], row["owner"])
        monkeypatch.setattr(Pipeline, "_authorise", slowly)
        monkeypatch.setattr(ChatDoor, "gather", slowly_again)
        await chats.say("one")
        await chats.say("two")
        await until(lambda: "one" in looked_at)
        with monkeypatch.context() as lost:
            lost.setattr("gateway.replica.SURE_SECONDS", 0.0)
            await until(lambda: Platform.LOCAL not in chats.runner.adapters)
        await until(lambda: Platform.LOCAL in chats.runner.recovery.recovered)
        gates[0].set()  # what was taken up under the lost lease goes on
        await until(lambda: looked_at.count("one") == 2)
        await until(lambda: "two" in gathered or not chats.runner.turns.is_busy(chats.key()))
        gates[1].set()
        assert await chats.local.wait_for(3) == ["re: hello", "re: one", "re: two"]


async def test_a_message_waits_whose_turn_cannot_begin_while_its_chat_cannot_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        begun: list[bool] = []

        def has_no_room(*args: Any, **more: Any) -> Any:
            # The disk of the server is full, so no lease could be renewed either.
            monkeypatch.setattr("gateway.replica.SURE_SECONDS", 0.0)
            begun.append(chats.runner.supervisor.serves(Platform.LOCAL))
            raise StoreFullError("No room left on the disk of the server.")

        with monkeypatch.context() as full:
            full.setattr(SessionDB, "begin_turn", has_no_room)
            await chats.say("one")
            await until(lambda: bool(begun))
            await until(lambda: Platform.LOCAL not in chats.runner.adapters)
            await until(lambda: not chats.runner.turns.is_busy(chats.key()))
        monkeypatch.undo()
        assert begun[0] is False
        await until(lambda: Platform.LOCAL in chats.runner.adapters)
        assert await chats.local.wait_for(2) == ["re: hello", "re: one"]
