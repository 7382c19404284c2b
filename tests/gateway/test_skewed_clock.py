"""A machine whose clock is wrong by hours, beside others on one store: the store's clock counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gateway.session_store
from agent import background
from agent.asking import described
from agent.config.schema import AgentSettings
from agent.events import QuestionAsked
from agent.journal import Journal
from agent.slash import work
from conversation.event_hooks import EventHooks
from conversation.service import Conversations
from gateway.config import GatewayConfig, Platform, ResetPolicy
from gateway.session import SessionEntry, SessionSource
from gateway.session_store import SessionStore
from hermes_state import AsyncSessionDB, SessionDB, StoreError
from hermes_state.upkeep import GHOSTS_PRUNED, ORPHANS_FINALIZED
from tools.approval import StoredAsker
from tools.base import ApprovalRequest

pytestmark = pytest.mark.postgres

HOUR = 3600.0
CHAT = SessionSource(Platform.of("telegram"), "1")


@pytest.fixture(params=[-5 * HOUR, 5 * HOUR], ids=["behind", "ahead"])
def skew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """How wrong this machine's clock is."""
    seconds: float = request.param
    right = time.time

    class WrongDatetime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.fromtimestamp(time.time(), tz)

    monkeypatch.setattr(time, "time", lambda: right() + seconds)
    monkeypatch.setattr(gateway.session_store, "datetime", WrongDatetime)
    return seconds


@pytest.fixture
def db(tmp_path: Path, skew: float) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        store.create_session("s1", "cli")
        yield store


def test_the_clock_is_the_servers(db: SessionDB, skew: float) -> None:
    assert abs(db.clock - db.now()) < 60
    assert abs(db.clock - time.time()) > HOUR
    assert abs(AsyncSessionDB(db).clock - db.now()) < 60
    with db._database._connection() as connection:  # type: ignore[union-attr]
        connection.set_clock(1_000.0)
    assert 1_000 <= db.clock < 1_060, "as it was last read"
    db.append_message("s1", "user", "x")
    assert abs(db.clock - db.now()) < 60, "a write reads it"


def test_background_work_on_another_machine_is_lost_after_a_day(db: SessionDB) -> None:
    def began(seconds: float) -> dict[str, Any]:
        return {
            "delegation_id": "d1", "owner_pid": 1, "owner_started_at": 1,
            "machine": ["elsewhere"] * len(background._here()),
            "dispatched_at": db.now() - seconds,
        }  # fmt: skip

    assert not background.is_abandoned(began(background.GIVEN_UP_AFTER - 60), db.clock)
    assert background.is_abandoned(began(background.GIVEN_UP_AFTER + 60), db.clock)


def test_a_lost_delegation_is_settled_by_the_same_clock(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "GIVEN_UP_AFTER", 2 * HOUR)
    machine = ["elsewhere"] * len(background._here())
    task = {"goals": ["x"], "sessions": [], "machine": machine}
    db.create_delegation("d1", "s1", task, owner_pid=1, owner_started_at=1)
    assert background.end_abandoned(db, db.list_running_delegations()) == 0
    assert "running, 0 s" in work._line(db.list_delegations("s1")[0], db.clock)


def asked(db: SessionDB, seconds: float) -> ApprovalRequest:
    new = db.create_approval(
        session_id="s1", command="x", description="y", pattern_keys=["k"], ttl_seconds=seconds
    )
    return ApprovalRequest(
        new.id, new.token, "x", "y", ["k"], new.expires_at, wake=db.wake, clock=lambda: db.clock
    )


def test_an_approval_is_waited_for_by_the_stores_clock(db: SessionDB) -> None:
    request = asked(db, 60)
    assert 50 < request.seconds_left <= 60
    answered = threading.Event()
    answered.set()
    assert request.await_choice(answered, lambda: "once") == "once"
    late = asked(db, 0)
    assert late.await_choice(answered, lambda: "once") == "deny"
    shown: list[ApprovalRequest] = []
    asker = StoredAsker(shown.append, lambda question, choices: "")
    assert asker.approve(late) == "deny"


def test_an_answer_to_a_tool_is_taken_in_time(db: SessionDB) -> None:
    """As the tools ask: the front end answers at once, and is heard."""
    from tools import approval
    from tools.base import ToolContext

    seen: list[float] = []

    class Person:
        def approve(self, request: ApprovalRequest) -> Any:
            seen.append(request.seconds_left)
            return "once"

        def clarify(self, question: str, choices: list[str]) -> str:
            raise NotImplementedError

    class Space:
        def section(self, name: str) -> dict[str, Any]:
            return {"timeout": 100}

    context: Any = ToolContext.__new__(ToolContext)
    facts = {
        "cancelled": threading.Event(), "asker": Person(), "workspace": Space(), "db": db,
        "session_id": "s1", "user_id": None,
    }  # fmt: skip
    for name, value in facts.items():
        object.__setattr__(context, name, value)
    assert approval._ask(context, "rm", []).choice == "once"
    assert 90 < seen[0] <= 100


def test_a_question_of_another_front_end_says_how_long_it_waits(db: SessionDB) -> None:
    event = QuestionAsked("q", "approval", "May I?", [], db.now() + 600, "telegram", "")
    assert "(within 10 min)" in described(event, db.clock)


@pytest.mark.parametrize("mode", ["idle", "daily"])
def test_a_chat_begins_anew_by_the_stores_clock(db: SessionDB, mode: str) -> None:
    right = datetime.fromtimestamp(db.now())
    # A boundary that our wrong clock is beyond and the right one is not, or the other way round.
    policy = ResetPolicy(mode, at_hour=(right + timedelta(hours=2)).hour, idle_minutes=120)
    elsewhere = SessionStore(
        db, GatewayConfig(reset=policy), now=lambda: datetime.fromtimestamp(db.now())
    )
    here = SessionStore(db, GatewayConfig(reset=policy))
    known = elsewhere.get_or_create_session(CHAT).session_id
    assert here.get_or_create_session(CHAT).session_id == known
    entry = elsewhere.entry(elsewhere.key_of(CHAT))
    assert entry is not None
    assert abs((entry.updated_at - right).total_seconds()) < 60
    assert not elsewhere.is_session_finalizable(entry)
    assert here.prune_old_entries(1) == 0
    assert len(here.list_sessions(active_minutes=5)) == 1


def test_machines_in_different_time_zones(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept as local time says of which zone it is."""
    policy = GatewayConfig(reset=ResetPolicy("idle", idle_minutes=60))
    try:
        for zone, name in (("UTC0", "one"), ("EAST-9", "two"), ("WEST8", "three"), ("UTC0", "end")):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            store = SessionStore(db, policy)
            entry = store.get_or_create_session(CHAT)
            assert entry.was_auto_reset is False, name
            assert abs(entry.updated_at.timestamp() - db.now()) < 60
            assert not store.is_session_finalizable(entry)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_entries_of_a_file_say_nothing_of_a_zone() -> None:
    now = datetime(2026, 11, 18, 12)
    entry = SessionEntry("k", "s", now, now)
    assert "utc_offset" not in entry.to_dict()
    assert SessionEntry.from_dict(entry.to_dict()) == entry
    assert SessionEntry.from_dict(entry.to_dict(is_shared=True)) == entry


def test_a_turn_that_this_process_began_is_its_own(db: SessionDB, tmp_path: Path) -> None:
    conversations = Conversations(
        AsyncSessionDB(db), AgentSettings, lambda: EventHooks(tmp_path / "hooks")
    )
    message = {"role": "user", "content": "x"}
    db.begin_turn("s1", message, source="cli", facts={}, leased=True)
    turn = db.get_turn("s1")
    assert turn is not None and conversations.is_ours(turn)
    conversations.since = db.clock + 60
    assert not conversations.is_ours(turn), "what was begun before a restart"


async def test_messages_are_stamped_with_the_stores_clock(db: SessionDB) -> None:
    journal = Journal(db, "s1", source="cli")
    await journal.begin({"role": "user", "content": "x"})
    await journal.record([{"role": "assistant", "content": "y"}], ends=True)
    for message in db.get_messages("s1"):
        assert abs(message["timestamp"] - db.now()) < 60


def test_upkeep_is_dated_by_the_stores_clock(db: SessionDB) -> None:
    db.settle_at_startup()
    for key in (GHOSTS_PRUNED, ORPHANS_FINALIZED):
        assert abs(float(db.get_meta(key) or 0) - db.now()) < 60


def test_a_closed_store_still_knows_the_time(db: SessionDB) -> None:
    """Whoever counts on it does not fail where the store was closed meanwhile."""
    db.close()
    with pytest.raises(StoreError):
        db.now()
    assert db.clock > 0
