"""A process that cannot reach its server gives its turns up before others may take them over."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.heartbeat import Heart
from agent.outcome import Superseded
from agent.request import Question
from agent.scripted import Call, ScriptedModel, calls, say
from hermes_base.clock import elapsed
from hermes_state import LEASE_SECONDS, Beat, Lease, PlatformLease, SessionDB
from tools.base import ToolContext, tool
from tools.registry import Registry

from ..postgres import own_server


def _begin(db: SessionDB) -> Lease:
    begun = db.begin_turn(
        "s", {"role": "user", "content": "hello"}, source="cli", facts={}, leased=True
    )
    assert begun.lease is not None
    return begun.lease


def test_a_turn_is_given_up_while_its_server_does_not_answer(tmp_path: Path) -> None:
    with own_server() as server:
        server.create("hermes")
        with SessionDB(tmp_path / "state.db", server=server.url("hermes")) as db:
            lease = _begin(db)
            lost = threading.Event()
            beating = Heart(seconds=0.05, unheard_seconds=0.5)
            beating.begin(db, lease, lost.set)
            begun = elapsed()
            while beating._heard.get(db, 0.0) < begun + 1.0:  # longer than what is given up after
                time.sleep(0.01)
            assert not lost.is_set() and not beating.has_given_up(lease)
            server.signal_all(signal.SIGSTOP)
            try:
                assert lost.wait(20)
            finally:
                server.signal_all(signal.SIGCONT)
            assert beating.has_given_up(lease)
            turn = db.get_turn(lease.conversation_id)
            assert turn is not None and turn["state"] == "running", "left to be taken over"


def test_a_machine_that_was_suspended_gives_its_turns_up_when_it_wakes_up(
    tmp_path: Path,
) -> None:
    with own_server() as server:
        server.create("hermes")
        with SessionDB(tmp_path / "state.db", server=server.url("hermes")) as db:
            asleep = 0.0
            beating = Heart(seconds=600, clock=lambda: elapsed() + asleep)
            lost = threading.Event()
            lease = _begin(db)
            beating.begin(db, lease, lost.set)
            assert beating.is_sure(db, lease)
            asleep = LEASE_SECONDS  # what the process itself slept through
            assert not beating.is_sure(db, lease), "nothing is done under it"
            db._execute_write(
                lambda conn: conn.execute("UPDATE turns SET fence = fence + 1, owner = 'another'")
            )
            beating.beat()
            assert lost.is_set() and not beating.beats_for(lease)


def test_a_turn_that_was_given_up_writes_nothing_more(tmp_path: Path, monkeypatch: Any) -> None:
    from agent import journal

    beating = Heart(seconds=60)
    monkeypatch.setattr(journal, "heart", beating)
    with SessionDB(tmp_path / "state.db") as db:
        agent = AIAgent(ScriptedModel([say(lambda: give_up(), "an answer")]), db=db, session_id="s")

        def give_up() -> None:
            (_, lease), turn = next(iter(beating._turns.items()))
            beating._given_up.add(lease)
            turn.lost()

        outcome = agent.run_blocking(Question("hello"))
        assert isinstance(outcome, Superseded)
        turn = db.get_turn("s")
        assert turn is not None and turn["state"] == "running"
        assert [one["content"] for one in db.get_messages("s")] == ["hello"]


def _marking(done: list[str]) -> Registry:
    def mark(context: ToolContext) -> str:
        done.append("marked")
        return "marked"

    return Registry([tool(toolset="test", effect="effectful")(mark)])


def test_a_turn_that_was_taken_over_while_its_process_was_stopped_runs_no_tool(
    tmp_path: Path, monkeypatch: Any
) -> None:
    from agent import journal

    # As after a stop: nothing was heard for longer than a lease, and the store was not asked.
    beating = Heart(seconds=60, unheard_seconds=0.0)
    monkeypatch.setattr(journal, "heart", beating)
    done: list[str] = []
    with SessionDB(tmp_path / "state.db") as db:
        require = journal.Journal.require_turn

        async def taken_over(self: journal.Journal) -> None:
            # Between the word that the tool starts, and its start.
            db._execute_write(
                lambda conn: conn.execute("UPDATE turns SET fence = fence + 1, owner = 'another'")
            )
            await require(self)

        monkeypatch.setattr(journal.Journal, "require_turn", taken_over)
        model = ScriptedModel([calls([Call("mark", {})]), say("an answer")])
        agent = AIAgent(model, db=db, session_id="s", tools=_marking(done))
        assert isinstance(agent.run_blocking(Question("hello")), Superseded)
    assert done == []


@pytest.mark.sqlite
def test_a_file_that_was_slow_does_not_cost_a_turn(tmp_path: Path, monkeypatch: Any) -> None:
    from agent import journal

    monkeypatch.setattr(journal, "heart", Heart(seconds=60, unheard_seconds=0.0))
    done: list[str] = []
    with SessionDB(tmp_path / "state.db") as db:
        model = ScriptedModel([calls([Call("mark", {})]), say("an answer")])
        agent = AIAgent(model, db=db, session_id="s", tools=_marking(done))
        assert agent.run_blocking(Question("hello")).text == "an answer"
    assert done == ["marked"]


def test_a_turn_that_is_not_certainly_ours_is_left_to_be_taken_over_here_too(
    tmp_path: Path, monkeypatch: Any
) -> None:
    from agent import journal

    beating = Heart(seconds=60, unheard_seconds=0.0)
    monkeypatch.setattr(journal, "heart", beating)
    done: list[str] = []
    with own_server() as server:
        server.create("hermes")
        with SessionDB(tmp_path / "state.db", server=server.url("hermes")) as db:
            model = ScriptedModel([calls([Call("mark", {})]), say("an answer")])
            agent = AIAgent(model, db=db, session_id="s", tools=_marking(done))
            assert isinstance(agent.run_blocking(Question("hello")), Superseded)
            turn = db.get_turn("s")
            assert turn is not None and turn["state"] == "running" and not done
            lease = Lease("s", turn["fence"], turn["owner"])
            assert beating.has_given_up(lease) and not beating.beats_for(lease)


class _Gateway:
    def __init__(self, lease: PlatformLease) -> None:
        self.lease = lease
        self.beats: list[Beat] = []

    def leases(self) -> list[PlatformLease]:
        return [self.lease]

    def wants(self) -> list[str]:
        return ["matrix"]

    def heard(self, begun: float, leases: list[PlatformLease], beat: Beat) -> None:
        assert leases == [self.lease] and begun <= elapsed()
        self.beats.append(beat)


def test_one_beat_is_for_a_gateway_and_its_turns(tmp_path: Path) -> None:
    with own_server() as server:
        server.create("hermes")
        with SessionDB(tmp_path / "state.db", server=server.url("hermes")) as db:
            db.register_replica()
            held = db.take_platform("telegram:1")
            assert held is not None
            gateway, beating = _Gateway(held), Heart(seconds=60)
            beating.join(db, gateway)
            beating.beat()
            lost: list[str] = []
            lease = _begin(db)
            beating.begin(db, lease, lambda: lost.append("lost"))
            assert beating.is_sure(db, lease)
            assert db.end_turn(lease)
            db.release_platform(held)
            beating.beat()
            assert [beat.lost for beat in gateway.beats] == [[], [held]]
            assert [replica["wants"] for replica in db.list_replicas()] == [["matrix"]]
            assert lost == ["lost"]
            assert not beating.is_sure(db, lease)
            beating.leave(db)
            beating.beat()
            assert len(gateway.beats) == 2
