"""Goals in the store: each step once, paused by a person's message, gone on with after a crash."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB

CHAT = {"session_key": "k", "platform": "local", "chat_id": "1", "thread_id": None}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        store.create_session("s", "cli")
        yield store


def begin(db: SessionDB, **message: Any) -> list[str]:
    """Begin a turn; what it begins with."""
    before = len(db.get_messages("s"))
    asked = {"role": "user", "content": "hello", **message} if message else None
    begun = db.begin_turn("s", asked, source="cli", facts={}, leased=True)
    assert begun.lease is not None
    said = [str(row["content"]) for row in db.get_messages("s")[before:]]
    db.record_step("s", [{"role": "assistant", "content": "ok"}], lease=begun.lease, ends=True)
    return said


def judge(db: SessionDB, goal: dict[str, Any], is_met: bool = False, **more: Any) -> Any:
    return db.judge_goal(
        "s", goal["id"], goal["step"], is_met=is_met, reason="why", prompt="go on", **more
    )


def test_each_step_is_stored_once(db: SessionDB) -> None:
    goal = db.set_goal("s", "ship it", "begin", turns=2)
    assert begin(db) == ["begin"] and not db.has_notes("s")
    settled = []
    with SessionDB(db.db_path) as other:
        threads = [
            threading.Thread(target=lambda store=store: settled.append(judge(store, goal)))
            for store in (db, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    [second] = [each for each in settled if each is not None]
    assert second["step"] == 2 and begin(db) == ["go on"]
    ended = judge(db, second, tell=CHAT)
    assert ended["status"] == "spent" and ended["reason"] == "2 turns were taken"
    assert judge(db, second) is None and not db.has_notes("s")
    [told] = db.list_deliveries()
    assert told["content"] == "⌛ Goal not reached: ship it (2 turns were taken)"


def test_a_goal_that_is_met_is_told_and_goes_on_no_more(db: SessionDB) -> None:
    goal = db.set_goal("s", "ship it", "begin")
    begin(db)
    met = judge(db, goal, is_met=True, tell=CHAT)
    assert met["status"] == "met" and not db.has_notes("s") and db.list_stalled_goals() == []
    assert [row["content"] for row in db.list_deliveries()] == ["✅ Goal reached: ship it (why)"]


def test_a_person_who_speaks_pauses_it_and_a_job_does_not(db: SessionDB) -> None:
    goal = db.set_goal("s", "ship it", "begin")
    db.accept_message("job:j:1", "s", "tick", source="job")
    assert begin(db, content="tick", _inbox="job:j:1") == ["begin", "tick"]
    goal = judge(db, goal)
    assert begin(db, content="wait!") == ["wait!"]
    paused = db.get_goal("s")
    assert paused is not None and paused["status"] == "paused" and judge(db, goal) is None
    resumed = db.resume_goal("s", "on")
    assert resumed is not None and resumed["step"] == 3 and begin(db) == ["on"]


def test_budgets_of_money_and_time(db: SessionDB) -> None:
    goal = db.set_goal("s", "ship it", "begin", seconds=0.0)
    assert "hours went by" in judge(db, goal)["reason"]
    goal = db.set_goal("s", "ship it", "begin", usd=0.0)
    assert judge(db, goal)["reason"] == "$0.00 were spent"


def test_one_process_goes_on_with_what_another_left(db: SessionDB) -> None:
    goal = db.set_goal("s", "ship it", "begin")
    begin(db)
    assert db.list_stalled_goals() == []  # its process lives
    db.set_meta("goal:s", json.dumps({**goal, "owner": "gone:1:1"}))
    [stalled] = db.list_stalled_goals()
    assert stalled["session_id"] == "s"
    assert db.advance_goal("s", goal["id"], 1, "again") is not None
    assert db.advance_goal("s", goal["id"], 1, "again") is None
    assert begin(db) == ["again"] and db.list_stalled_goals() == []


def test_what_others_wrote_is_read_and_can_be_gone_on_with(db: SessionDB) -> None:
    for kept in ("ship it", '{"goal": "ship it", "max_turns": 20}'):
        db.set_meta("goal:s", kept)
        goal = db.get_goal("s")
        assert goal is not None and (goal["goal"], goal["status"]) == ("ship it", "paused")
    assert db.resume_goal("s", "on") is not None and begin(db) == ["on"]
    assert db.clear_goal("s") and not db.clear_goal("s") and db.get_goal("s") is None


def test_its_parts_are_judged_and_stay_reached(db: SessionDB) -> None:
    assert not db.set_subgoals("s", [])
    goal = db.set_goal("s", "ship it", "begin")
    parts = [{"text": text, "reached": False} for text in ("write", "test")]
    assert db.set_subgoals("s", parts)
    begin(db)
    second = judge(db, goal, reached=[1, 7])
    assert [part["reached"] for part in second["subgoals"]] == [True, False]
    begin(db)
    third = judge(db, second, reached=[2])
    assert [part["reached"] for part in third["subgoals"]] == [True, True]
    assert db.pause_goal("s", "a rest")
    assert [goal["status"] for goal in db.list_goals("operator")] == ["paused"]
    assert db.list_goals("telegram:1") == []
