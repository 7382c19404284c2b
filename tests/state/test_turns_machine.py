"""Processes that begin turns, run tools, die, wake up late and take over, in any order.

The model knows who holds the newest fence. Whatever the order: one holder at a time, no write under
an old number, no effect twice, every tool call answered once, every question answered or closed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermes_state import SessionDB
from hermes_state.errors import ConversationBusyError, LeaseLostError
from hermes_state.history import unanswered_calls
from hermes_state.tool_runs import REPEATABLE, Started
from hermes_state.turn_log import CUT_OFF
from hermes_state.turns import Lease

from .. import seeds
from .memory import MEMORY

EFFECTS = ("effectful", "idempotent", "none")


class Turns(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=MEMORY)
        self.db = SessionDB(Path(self.folder.name) / "state.db")
        self.numbers = itertools.count(1)
        self.leases: list[Lease] = []
        self.holder: Lease | None = None
        self.alive = False
        self.effect_of: dict[str, str] = {}
        self.ran: Counter[str] = Counter()
        self.asked = 0
        self.ended = 0

    def teardown(self) -> None:
        self.db.close()
        self.folder.cleanup()

    def messages(self) -> list[dict[str, Any]]:
        view = self.db.load_live("s")
        return view.messages if view else []

    def open_calls(self) -> list[str]:
        return [call["id"] for call in unanswered_calls(self.messages())]

    @rule()
    def ask(self) -> None:
        message = {"role": "user", "content": f"question {self.asked}"}
        begin = {"source": "cli", "facts": {}, "leased": True}
        if self.holder is not None and self.alive:
            with pytest.raises(ConversationBusyError):
                self.db.begin_turn("s", message, **begin)
            return
        recorded = self.db.begin_turn("s", message, **begin)
        assert recorded.lease is not None
        self.ended += self.holder is not None  # closed, visibly
        self._hold(recorded.lease)
        self.asked += 1

    def _hold(self, lease: Lease) -> None:
        assert all(lease.fence > old.fence for old in self.leases), "numbers only grow"
        self.leases.append(lease)
        self.holder, self.alive = lease, True

    @precondition(lambda self: self.holder and self.alive and not self.open_calls())
    @rule(effects=st.lists(st.sampled_from(EFFECTS), min_size=1, max_size=3))
    def call_tools(self, effects: list[str]) -> None:
        names = [f"c{next(self.numbers)}" for _ in effects]
        self.effect_of |= dict(zip(names, effects, strict=True))
        calls = [{"id": one, "function": {"name": "t", "arguments": "{}"}} for one in names]
        reply = {"role": "assistant", "content": "", "tool_calls": calls}
        self._step([reply], [names[0]])

    @precondition(lambda self: self.holder and self.alive and self.open_calls())
    @rule(dies=st.sampled_from(["no", "before", "after"]))
    def run_tool(self, dies: str) -> None:
        name, *rest = self.open_calls()
        if dies == "before":
            self.die()
            return
        self.ran[name] += 1
        if dies == "after":
            self.die()
            return
        result = {"role": "tool", "tool_call_id": name, "tool_name": "t", "content": "done"}
        self._step([result], rest[:1])

    def _step(self, messages: list[dict[str, Any]], starts: list[str]) -> None:
        runs = [Started(one, "t", self.effect_of[one]) for one in starts]
        self.db.record_step("s", messages, lease=self.holder, starts=runs)

    @precondition(lambda self: self.holder and self.alive and not self.open_calls())
    @rule(separately=st.booleans())
    def answer(self, separately: bool) -> None:
        message = {"role": "assistant", "content": f"answer {self.ended}"}
        assert self.holder is not None
        self.db.record_step("s", [message], lease=self.holder, ends=not separately)
        if separately:
            assert self.db.end_turn(self.holder)
        self.holder, self.alive = None, False
        self.ended += 1

    @precondition(lambda self: self.holder and self.alive)
    @rule()
    def die(self) -> None:
        self.db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
        self.alive = False

    @rule()
    def take_over(self) -> None:
        found = self.db.list_abandoned_turns()
        assert len(found) == (self.holder is not None and not self.alive)
        for one in found:
            before = [name for name in self.open_calls() if self.ran[name]]
            taken = self.db.take_over_turn(one["conversation_id"], one["fence"])
            assert taken is not None
            self._hold(taken.lease)
            # What ran and may do harm is not left open to be run again.
            harmful = [name for name in before if self.effect_of[name] not in REPEATABLE]
            assert not set(harmful) & set(self.open_calls())
            # Those that take over run at once what starts next.
            if self.open_calls():
                self._step([], self.open_calls()[:1])

    @precondition(lambda self: self.holder and not self.alive)
    @rule()
    def close(self) -> None:
        assert self.holder is not None
        assert self.db.close_abandoned_turn("s", self.holder.fence)
        self.holder = None
        self.ended += 1

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def wake_up_late(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(self.leases))
        if old == self.holder:
            return
        before = self.messages()
        with pytest.raises(LeaseLostError):
            self.db.record_step("s", [{"role": "assistant", "content": "late"}], lease=old)
        assert self.db.beat_turns([old]) == [old]
        assert not self.db.end_turn(old)
        assert self.messages() == before

    @invariant()
    def nothing_harmful_ran_twice(self) -> None:
        for name, times in self.ran.items():
            assert times <= 1 or self.effect_of[name] in REPEATABLE, name

    @invariant()
    def history_is_whole(self) -> None:
        messages = self.messages()
        questions = [m for m in messages if m["role"] == "user"]
        assert [m["content"] for m in questions] == [f"question {n}" for n in range(self.asked)]
        said = [m for m in messages if m["role"] == "assistant" and not m.get("tool_calls")]
        assert len(said) == self.ended
        assert all(m["content"] == CUT_OFF or m["content"].startswith("answer") for m in said)
        answered = Counter(m["tool_call_id"] for m in messages if m["role"] == "tool")
        assert all(times == 1 for times in answered.values())
        for message in messages:
            if message["role"] == "tool" and message["content"] == "done":
                assert self.ran[message["tool_call_id"]] >= 1

    @invariant()
    def the_store_is_sound(self) -> None:
        turn = self.db.get_turn("s")
        running = turn is not None and turn["state"] == "running"
        assert running == (self.holder is not None)
        if self.holder is not None and turn is not None:
            assert turn["fence"] == self.holder.fence
        known = {one["state"] for one in self.db.list_tool_runs("s")}
        assert running or known <= {"unknown"}


TestTurns = Turns.TestCase
TestTurns.settings = settings(
    max_examples=seeds.examples(12),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
