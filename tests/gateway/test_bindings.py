"""Two gateways on one store: each sees what the other changes, and overwrites none of it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.config import GatewayConfig, Platform, ResetPolicy
from gateway.session import SessionSource
from gateway.session_store import SessionStore
from hermes_state import SessionDB

from .. import seeds
from ..state.memory import MEMORY

NOON = datetime(2026, 11, 15, 12, 0)
CONFIG = GatewayConfig(reset=ResetPolicy("idle", idle_minutes=60))


def source(chat_id: str) -> SessionSource:
    return SessionSource(Platform.LOCAL, chat_id, user_id=f"u{chat_id}")


class Pair:
    """Two stores of bindings, each with a connection of its own, as two processes have."""

    def __init__(self, folder: Path) -> None:
        self.now = NOON
        self.dbs = [SessionDB(folder / "state.db") for _ in range(2)]
        self.first, self.second = (
            SessionStore(db, CONFIG, now=lambda: self.now) for db in self.dbs
        )
        self.key = self.first._generate_session_key(source("1"))

    def before(self, method: str, work: Any) -> None:
        """Run `work` right before the second store's next call of a method of SessionDB."""
        original = getattr(self.dbs[1], method)

        def call(*args: Any, **kwargs: Any) -> Any:
            setattr(self.dbs[1], method, original)
            work()
            return original(*args, **kwargs)

        setattr(self.dbs[1], method, call)

    def close(self) -> None:
        for db in self.dbs:
            db.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with contextlib.closing(Pair(tmp_path)) as found:
        yield found


def test_each_sees_the_chats_of_the_other(pair: Pair) -> None:
    assert not pair.second.has_any_sessions()
    entry = pair.first.get_or_create_session(source("1"))
    other = pair.second.get_or_create_session(source("2"))
    assert pair.second.peek_session_id(entry.session_key) == entry.session_id
    assert pair.first.peek_session_id(other.session_key) == other.session_id
    assert pair.second.get_or_create_session(source("1")).session_id == entry.session_id


def test_different_fields_of_one_entry_are_all_kept(pair: Pair) -> None:
    pair.first.get_or_create_session(source("1"))
    held = pair.second.entry(pair.key)
    assert held is not None
    pair.first.set_model_override(pair.key, {"model": "m"})
    pair.second.update_session(pair.key, last_prompt_tokens=7)
    pair.first.mark_linked(pair.key)
    pair.second.suspend_session(pair.key)
    for store in (pair.first, pair.second):
        entry = store.entry(pair.key)
        assert entry is not None
        assert entry.model_override == {"model": "m"}
        assert (entry.last_prompt_tokens, entry.linked, entry.suspended) == (7, True, True)
    assert held is pair.second.entry(pair.key)  # whoever holds it sees it
    pair.first.set_model_override(pair.key, None)
    assert held.model_override == {"model": "m"}  # not looked at again yet
    assert pair.second.get_model_override(pair.key) is None
    assert held.model_override is None


def test_a_field_is_kept_that_changes_between_looking_and_writing(pair: Pair) -> None:
    pair.first.get_or_create_session(source("1"))
    pair.before("update_binding", lambda: pair.first.set_model_override(pair.key, {"model": "m"}))
    pair.second.update_session(pair.key, last_prompt_tokens=7)
    for store in (pair.first, pair.second):
        entry = store.entry(pair.key)
        assert entry is not None
        assert (entry.model_override, entry.last_prompt_tokens) == ({"model": "m"}, 7)


def test_fields_of_another_version_stay(pair: Pair) -> None:
    pair.first.get_or_create_session(source("1"))
    pair.dbs[0].update_binding(pair.key, {"mood": "fine"})
    pair.second.suspend_session(pair.key)
    assert '"mood": "fine"' in pair.dbs[0].load_gateway_routing_entries()[pair.key]


def test_a_new_chat_gets_one_session_from_whoever_is_first(pair: Pair) -> None:
    entries = []
    pair.before(
        "create_bindings",
        lambda: entries.append(pair.first.get_or_create_session(source("1"))),
    )
    assert pair.second.get_or_create_session(source("1")).session_id == entries[0].session_id


def test_an_expired_session_is_replaced_once(pair: Pair) -> None:
    old = pair.first.get_or_create_session(source("1")).session_id
    pair.second.entry(pair.key)
    pair.now += timedelta(hours=2)
    entries = []
    pair.before("rebind_key", lambda: entries.append(pair.first.get_or_create_session(source("1"))))
    mine = pair.second.get_or_create_session(source("1"))
    assert mine.session_id == entries[0].session_id != old


def test_a_turn_that_ends_does_not_undo_a_reset_of_another_process(pair: Pair) -> None:
    held = pair.second.get_or_create_session(source("1"))
    fresh = pair.first.reset_session(pair.key)
    assert fresh is not None
    assert pair.second.peek_session_id(pair.key) == fresh.session_id
    assert held.session_id != fresh.session_id  # the turn that holds it goes on where it was
    pair.second.follow(held.session_id, "its continuation")
    held.session_id = "its continuation"
    pair.second._save()
    pair.second.set_expiry_finalized(held)
    for store in (pair.first, pair.second):
        entry = store.entry(pair.key)
        assert entry is not None
        assert (entry.session_id, entry.expiry_finalized) == (fresh.session_id, False)


def test_a_mark_follows_the_key_into_another_session(pair: Pair) -> None:
    pair.first.get_or_create_session(source("1"))
    fresh = []
    pair.before("update_binding", lambda: fresh.append(pair.first.reset_session(pair.key)))
    assert pair.second.mark_linked(pair.key)
    entry = pair.first.entry(pair.key)
    assert entry is not None and entry.linked
    assert entry.session_id == fresh[0].session_id


def test_a_session_that_is_used_meanwhile_does_not_expire(pair: Pair) -> None:
    pair.second.get_or_create_session(source("1"))
    pair.now += timedelta(hours=2)
    held = pair.second.entry(pair.key)
    assert held is not None and pair.second.is_session_finalizable(held)
    pair.before("update_binding", lambda: pair.first.update_session(pair.key))
    pair.second.set_expiry_finalized(held)
    assert not held.expiry_finalized
    assert held.updated_at == pair.now
    pair.second.suspend_session(pair.key)
    entry = pair.first.entry(pair.key)
    assert entry is not None and not entry.expiry_finalized


def test_a_chat_that_is_used_meanwhile_is_not_forgotten(pair: Pair) -> None:
    pair.second.get_or_create_session(source("1"))
    other = pair.second.get_or_create_session(source("2"))
    pair.now += timedelta(days=100)
    pair.before("forget_bindings", lambda: pair.first.update_session(pair.key))
    assert pair.second.prune_old_entries(90) == 1
    for store in (pair.first, pair.second):
        assert store.peek_session_id(pair.key) is not None
        assert store.peek_session_id(other.session_key) is None


def test_a_rotation_of_another_process_is_followed(pair: Pair) -> None:
    entry = pair.first.get_or_create_session(source("1"))
    pair.dbs[0].create_session(entry.session_id, "local")
    pair.second.entry(pair.key)
    pair.dbs[0].rotate_session(entry.session_id, "next", [{"role": "user", "content": "summary"}])
    assert pair.first.peek_session_id(pair.key) == "next"
    assert pair.second.peek_session_id(pair.key) == "next"


def test_who_holds_an_entry_sees_that_it_follows_a_rotation(pair: Pair) -> None:
    entry = pair.first.get_or_create_session(source("1"))
    old = entry.session_id
    pair.dbs[0].create_session(old, "local")
    pair.dbs[0].rotate_session(old, "next", [{"role": "user", "content": "summary"}])
    pair.first.follow(old, "next")
    assert entry.session_id == "next" and pair.first.entry(pair.key) is entry
    pair.first.update_session(pair.key)  # still the entry that is stored
    assert pair.second.peek_session_id(pair.key) == "next"


def test_a_binding_that_a_rotation_left_behind_is_moved(pair: Pair) -> None:
    entry = pair.first.get_or_create_session(source("1"))
    pair.first.follow(entry.session_id, "next")
    assert pair.second.peek_session_id(pair.key) == "next"


def test_linked_chats_go_on_together_and_the_session_they_leave_is_ended(pair: Pair) -> None:
    entry = pair.first.get_or_create_session(source("1"))
    pair.dbs[0].create_session(entry.session_id, "local")
    other = pair.second.get_or_create_session(source("2"))
    pair.second.switch_session(other.session_key, entry.session_id)
    pair.second.mark_linked(other.session_key)
    pair.first.mark_linked(pair.key)
    pair.now += timedelta(hours=2)
    fresh = pair.first.get_or_create_session(source("1"))
    assert pair.second.peek_session_id(other.session_key) == fresh.session_id != entry.session_id
    row = pair.dbs[0].get_session(entry.session_id)
    assert row is not None and row["end_reason"] == "session_reset"
    assert [one.session_key for one in pair.second.linked_with(fresh.session_id, pair.key)] == [
        other.session_key
    ]


def test_a_row_that_cannot_be_read_is_replaced_by_the_next_message(pair: Pair) -> None:
    pair.dbs[0].save_gateway_routing_entry(pair.key, "not an entry")
    assert pair.second.entry(pair.key) is None
    entry = pair.second.get_or_create_session(source("1"))
    assert pair.first.peek_session_id(pair.key) == entry.session_id


def test_a_key_that_is_no_valid_text_is_kept_as_the_store_writes_it(pair: Pair) -> None:
    entry = pair.first.get_or_create_session(source("\ud800"))
    assert pair.second.get_or_create_session(source("\ud800")).session_id == entry.session_id


def test_a_lookup_is_answered_while_the_store_cannot_be_read(pair: Pair) -> None:
    entry = pair.first.get_or_create_session(source("1"))
    pair.dbs[0].close()
    assert pair.first.peek_session_id(pair.key) == entry.session_id


FIELDS = {
    "model_override": st.sampled_from([None, {"model": "a"}, {"model": "b"}]),
    "suspended": st.booleans(),
    "resume_pending": st.booleans(),
    "linked": st.sampled_from([None, True]),
    "last_prompt_tokens": st.integers(0, 3),
}
KEYS = ("k1", "k2")


class TwoStores(RuleBasedStateMachine):
    """Any changes of either store, against what the entries must then be in both."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.pair = Pair(Path(self.folder.name))
        self.stores = (self.pair.first, self.pair.second)
        self.model: dict[str, dict[str, Any]] = {}
        self.sessions = 0

    def key(self, chat: str) -> str:
        return self.pair.first._generate_session_key(source(chat))

    @rule(which=st.integers(0, 1), chat=st.sampled_from(KEYS))
    def message(self, which: int, chat: str) -> None:
        entry = self.stores[which].get_or_create_session(source(chat))
        known = self.model.get(chat)
        if known is None or known["suspended"]:
            self.model[chat] = {
                name: False if name in ("suspended", "resume_pending") else None for name in FIELDS
            } | {"last_prompt_tokens": 0, "session_id": entry.session_id}
        else:
            assert entry.session_id == known["session_id"]

    @rule(which=st.integers(0, 1), chat=st.sampled_from(KEYS), drawn=st.data())
    def change(self, which: int, chat: str, drawn: st.DataObject) -> None:
        name = drawn.draw(st.sampled_from(sorted(FIELDS)))
        fact = drawn.draw(FIELDS[name])
        entry = self.stores[which]._change(self.key(chat), **{name: fact})
        assert (entry is None) == (chat not in self.model)
        if chat in self.model:
            self.model[chat][name] = fact

    @rule(which=st.integers(0, 1), chat=st.sampled_from(KEYS))
    def reset(self, which: int, chat: str) -> None:
        fresh = self.stores[which].reset_session(self.key(chat))
        assert (fresh is None) == (chat not in self.model)
        if fresh is not None:
            self.model[chat] |= {
                "session_id": fresh.session_id, "suspended": False, "resume_pending": False,
                "linked": None, "last_prompt_tokens": 0,
            }  # fmt: skip

    @rule(which=st.integers(0, 1), chat=st.sampled_from(KEYS))
    def follow(self, which: int, chat: str) -> None:
        if chat in self.model:
            self.sessions += 1
            new = f"continued{self.sessions}"
            self.stores[which].follow(self.model[chat]["session_id"], new)
            self.model[chat]["session_id"] = new

    @rule(which=st.integers(0, 1), chat=st.sampled_from(KEYS))
    def forget(self, which: int, chat: str) -> None:
        self.stores[which]._bindings.forget([self.key(chat)])
        # One that has not looked since the last change leaves the entry alone.
        if self.stores[which].entry(self.key(chat)) is None:
            self.model.pop(chat, None)

    @rule(which=st.integers(0, 1))
    def save(self, which: int) -> None:
        self.stores[which]._save()

    @rule(which=st.integers(0, 1))
    def look(self, which: int) -> None:
        """One of them looks only now and then; between, its copy is old."""
        entries = self.stores[which]._entries
        assert set(entries) == {self.key(chat) for chat in self.model}
        for chat, known in self.model.items():
            entry = entries[self.key(chat)]
            assert {name: getattr(entry, name) for name in known} == known

    @invariant()
    def what_is_kept_is_what_is_true(self) -> None:
        fresh = SessionStore(self.pair.dbs[0], CONFIG, now=lambda: self.pair.now)
        found = {
            chat: {name: getattr(entry, name) for name in self.model[chat]}
            for chat in self.model
            if (entry := fresh.entry(self.key(chat))) is not None
        }
        assert found == self.model
        assert len(fresh.list_sessions()) == len(self.model)

    def teardown(self) -> None:
        self.pair.close()
        self.folder.cleanup()


TestTwoStores = TwoStores.TestCase
TestTwoStores.settings = settings(
    max_examples=seeds.examples(10), stateful_step_count=25, deadline=None
)


RESETTING = """
import sys
from pathlib import Path
from gateway.config import GatewayConfig, Platform
from gateway.session import SessionSource
from gateway.session_store import SessionStore
from hermes_state import SessionDB
db = SessionDB(Path(sys.argv[1]) / "state.db")
store = SessionStore(db, GatewayConfig())
source = SessionSource(Platform.LOCAL, "1", user_id="u1")
key = store.get_or_create_session(source).session_key
while True:
    db.create_session(store.peek_session_id(key), "local")
    print(store.reset_session(key).session_id, flush=True)
"""


@pytest.mark.parametrize("resets", [1, 4])
def test_a_process_killed_at_any_moment_leaves_one_whole_binding(
    pair: Pair, tmp_path: Path, resets: int
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", RESETTING, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child, child.stdout:
        for _ in range(resets):
            assert child.stdout.readline()
        pair.second.set_model_override(pair.key, {"model": "m"})  # between the other's changes
        child.send_signal(signal.SIGKILL)
    bound = pair.second.peek_session_id(pair.key)
    assert bound == pair.first.peek_session_id(pair.key)
    assert pair.second.get_model_override(pair.key) == {"model": "m"}
    rows = pair.dbs[0].list_sessions_rich(limit=1000, include_archived=True)
    ended = {row["id"]: row["end_reason"] for row in rows}
    # What is bound is open, and everything that was left is ended: never one without the other.
    assert ended.pop(bound or "", None) is None
    assert set(ended.values()) == {"session_reset"}
