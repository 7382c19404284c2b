"""A process that cannot reach its server gives its turns up before others may take them over."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.heartbeat import Heart
from agent.outcome import Superseded
from agent.request import Question
from agent.scripted import ScriptedModel, say
from hermes_state import Lease, SessionDB

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
            begun = time.monotonic()
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
