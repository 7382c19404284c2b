"""Which session a chat is in, over any sequence of what can happen to it."""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.config import GatewayConfig, Platform, ResetPolicy, last_boundary
from gateway.session import SessionSource
from gateway.session_store import SessionStore
from hermes_state import SessionDB

from .. import seeds
from ..state.memory import MEMORY

NOON = datetime(2026, 11, 15, 12, 0)
chats = st.sampled_from(["1", "2", "3"])


def source(chat_id: str) -> SessionSource:
    return SessionSource(Platform.LOCAL, chat_id, user_id=f"u{chat_id}")


@pytest.mark.parametrize(
    ("mode", "hours", "reason"),
    [
        ("none", 1000, None),
        ("idle", 23, None),
        ("idle", 25, "idle"),
        ("daily", 7, None),
        ("daily", 9, "daily"),
        ("both", 9, "daily"),
        ("both", 25, "idle"),
    ],
)
def test_when_a_session_is_over(mode: str, hours: int, reason: str | None) -> None:
    policy = ResetPolicy(mode, at_hour=4)
    assert policy.expired_because(NOON - timedelta(hours=hours), NOON) == reason


def test_the_day_begins_at_its_hour() -> None:
    assert last_boundary(4, NOON) == NOON.replace(hour=4)
    assert last_boundary(13, NOON) == NOON.replace(hour=13) - timedelta(days=1)


class Routing(RuleBasedStateMachine):
    """A store that is asked, restarted, compressed and reset, against what must be true."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.db = SessionDB(Path(self.folder.name) / "state.db")
        self.now = NOON
        self.config = GatewayConfig(reset=ResetPolicy("idle", idle_minutes=60))
        self.store = self.opened()
        self.expected: dict[str, str] = {}
        self.used: dict[str, datetime] = {}
        self.rotations = 0

    def opened(self) -> SessionStore:
        return SessionStore(self.db, self.config, now=lambda: self.now)

    @rule(chat=chats)
    def message(self, chat: str) -> None:
        entry = self.store.get_or_create_session(source(chat))
        known = self.expected.get(chat)
        if known is None or self.now > self.used[chat] + timedelta(minutes=60):
            assert entry.session_id not in self.expected.values()
            assert entry.was_auto_reset == (known is not None)
        else:
            assert entry.session_id == known
        self.expected[chat], self.used[chat] = entry.session_id, self.now
        self.db.begin_turn(
            entry.session_id,
            {"role": "user", "content": f"in {chat}"},
            source="local",
            facts={"session_key": entry.session_key},
        )

    @rule(chat=chats)
    @precondition(lambda self: self.expected)
    def reset(self, chat: str) -> None:
        fresh = self.store.reset_session(self.key(chat))
        assert (fresh is None) == (chat not in self.expected)
        if fresh is not None:
            assert fresh.session_id not in self.expected.values()
            self.expected[chat], self.used[chat] = fresh.session_id, self.now

    @rule(chat=chats)
    def compressed_elsewhere(self, chat: str) -> None:
        old = self.expected.get(chat)
        row = self.db.get_session(old) if old else None
        if row is None or row["end_reason"] is not None:
            return
        self.rotations += 1
        new = f"rotated{self.rotations}"
        self.db.rotate_session(row["id"], new, [{"role": "user", "content": "summary"}])
        self.expected[chat] = new

    @rule(minutes=st.integers(1, 90))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule()
    def restart(self) -> None:
        self.store = self.opened()

    @rule(chat=chats, other=chats)
    def switch(self, chat: str, other: str) -> None:
        target = self.expected.get(other)
        if chat not in self.expected or target is None or self.db.get_session(target) is None:
            return
        entry = self.store.switch_session(self.key(chat), target)
        assert entry is not None and entry.session_id == target
        self.expected[chat], self.used[chat] = target, self.now
        if chat != other:  # one conversation under two keys: end it where it was
            fresh = self.store.reset_session(self.key(other))
            assert fresh is not None
            self.db.reopen_session(target)
            self.expected[other], self.used[other] = fresh.session_id, self.now

    def key(self, chat: str) -> str:
        return self.store._generate_session_key(source(chat))

    @invariant()
    def what_is_kept_is_what_is_true(self) -> None:
        for chat, session_id in self.expected.items():
            bound = self.opened().peek_session_id(self.key(chat))
            assert bound is not None
            assert self.db.get_compression_tip(bound) == self.db.get_compression_tip(session_id)

    def teardown(self) -> None:
        self.db.close()
        self.folder.cleanup()


TestRouting = Routing.TestCase
TestRouting.settings = settings(
    max_examples=seeds.examples(8), stateful_step_count=25, deadline=None
)


def test_background_work_keeps_a_session_open(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        config = GatewayConfig(reset=ResetPolicy("idle", idle_minutes=1))
        times = iter([NOON, NOON, NOON, *[NOON + timedelta(hours=1)] * 10])
        store = SessionStore(db, config, is_busy=lambda _: True, now=lambda: next(times))
        first = store.get_or_create_session(source("1")).session_id
        assert store.get_or_create_session(source("1")).session_id == first


def test_a_suspended_chat_begins_anew(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        store = SessionStore(db, GatewayConfig())
        first = store.get_or_create_session(source("1"))
        assert store.suspend_session(first.session_key)
        assert not store.suspend_session("unknown")
        again = store.get_or_create_session(source("1"))
        assert again.session_id != first.session_id
        assert again.auto_reset_reason == "suspended"


def test_a_model_of_a_chat_is_kept_without_credentials(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        store = SessionStore(db, GatewayConfig())
        key = store.get_or_create_session(source("1")).session_key
        store.set_model_override(key, {"model": "m", "provider": "p", "api_key": "secret"})
        assert SessionStore(db, GatewayConfig()).peek_session_id(key) is not None
        assert store.get_model_override(key) == {"model": "m", "provider": "p"}
        assert "secret" not in str(db.load_gateway_routing_entries())
        store.set_model_override(key, None)
        assert store.get_model_override(key) is None


def test_old_keys_are_forgotten_but_not_their_conversations(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        times = [NOON]
        store = SessionStore(db, GatewayConfig(), now=lambda: times[0])
        entry = store.get_or_create_session(source("1"))
        message = {"role": "user", "content": "hi"}
        facts = {"session_key": entry.session_key}
        db.begin_turn(entry.session_id, message, source="local", facts=facts)
        times[0] += timedelta(days=100)
        assert store.prune_old_entries(90) == 1
        assert not store.has_any_sessions()
        assert db.get_session(entry.session_id) is not None
        assert store.get_or_create_session(source("1")).session_id == entry.session_id
