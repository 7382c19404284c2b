"""The lease of a turn: one owner at a time, and whoever lost it can write nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_base.process import this_process
from hermes_state import SessionDB
from hermes_state import turns as turns_module
from hermes_state.errors import ConversationBusyError, LeaseLostError
from hermes_state.history import OUTCOME_UNKNOWN
from hermes_state.tool_runs import Started
from hermes_state.turn_log import CUT_OFF, NOT_STARTED, OVERTAKEN, Recorded
from hermes_state.turns import LEASE_SECONDS, Lease

from .raw import address
from .surface import dump

TO = {"id": "in1", "to": {"session_key": "k", "platform": "local", "chat_id": "7"}}


def begin(db: SessionDB, text: str = "Go", session_id: str = "s", **more: Any) -> Recorded:
    message = {"role": "user", "content": text}
    return db.begin_turn(session_id, message, source="cli", facts={}, leased=True, **more)


def lease_of(db: SessionDB, **more: Any) -> Lease:
    lease = begin(db, **more).lease
    assert lease is not None
    return lease


def reply(*calls: tuple[str, str]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": call_id, "function": {"name": name, "arguments": "{}"}}
            for call_id, name in calls
        ],
    }


def result(call_id: str, text: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "tool_name": "send", "content": text}


def abandon(db: SessionDB) -> None:
    """As if the process of every running turn had not been heard of for long."""
    db._execute_write(
        lambda conn: conn.execute(
            "UPDATE turns SET heartbeat_at = heartbeat_at - ?", (LEASE_SECONDS + 1,)
        )
    )


def texts(db: SessionDB, session_id: str = "s") -> list[str]:
    return [str(one["content"]) for one in db.get_messages(session_id)]


def test_one_turn_at_a_time(db: SessionDB) -> None:
    lease = lease_of(db)
    before = dump(db)
    with pytest.raises(ConversationBusyError, match="Another turn is running"):
        begin(db, "Me too")
    assert dump(db) == before
    db.record_step("s", [{"role": "assistant", "content": "Yes"}], lease=lease, ends=True)
    assert lease_of(db) == Lease("s", 2, this_process())


def test_a_turn_ends_with_its_last_step_and_cannot_be_written_afterwards(db: SessionDB) -> None:
    lease = lease_of(db)
    db.record_step("s", [{"role": "assistant", "content": "Yes"}], lease=lease, ends=True)
    before = dump(db)
    with pytest.raises(LeaseLostError):
        db.record_step("s", [{"role": "assistant", "content": "And"}], lease=lease)
    assert db.end_turn(lease) is False
    assert dump(db) == before


def test_whoever_lost_the_lease_can_write_nothing(db: SessionDB) -> None:
    old = lease_of(db)
    abandon(db)
    taken = db.take_over_turn("s", old.fence)
    assert (
        taken is not None and taken.lease == Lease("s", 2, this_process()) and taken.attempts == 2
    )
    before = dump(db)
    late: list[Any] = [
        lambda: db.record_step("s", [{"role": "assistant", "content": "late"}], lease=old),
        lambda: db.record_step("s", [], {"input_tokens": 5}, lease=old),
        lambda: db.deliver_results("s", lease=old),
        lambda: db.compact_seen("s", [1], [], "s2", lease=old),
        lambda: db.compact_seen("s", [1], [], lease=old),
    ]
    for write in late:
        with pytest.raises(LeaseLostError, match="taken over"):
            write()
    assert db.end_turn(old) is False
    assert db.beat_turns([old]) == [old]
    assert dump(db) == before
    db.record_step("s", [{"role": "assistant", "content": "Yes"}], lease=taken.lease, ends=True)
    assert texts(db) == ["Go", "Yes"]


def test_a_turn_is_taken_over_once(db: SessionDB) -> None:
    lease = lease_of(db)
    assert db.list_abandoned_turns() == []
    assert db.take_over_turn("s", lease.fence) is None, "it is being worked on"
    abandon(db)
    (found,) = db.list_abandoned_turns()
    assert (found["conversation_id"], found["fence"], found["source"]) == ("s", 1, "cli")
    assert db.take_over_turn("s", found["fence"]) is not None
    assert db.take_over_turn("s", found["fence"]) is None
    assert db.close_abandoned_turn("s", found["fence"]) is False
    assert db.list_abandoned_turns() == []


def test_a_take_over_of_unknown_outcome_is_found_to_be_the_callers(db: SessionDB) -> None:
    lease = lease_of(db)
    run = Started("a", "send", "effectful")
    db.record_step("s", [reply(("a", "send"))], lease=lease, starts=[run])
    abandon(db)
    first = db.take_over_turn("s", lease.fence)  # the answer is lost
    assert first is not None and first.unknown == ["send"]
    before = texts(db)
    assert db.take_over_turn("s", lease.fence, is_again=True) == first
    assert texts(db) == before, "nothing twice"
    turn = db.get_turn("s")
    assert turn is not None and (turn["fence"], turn["attempts"]) == (first.lease.fence, 2)
    db.record_step("s", [{"role": "assistant", "content": "Hm"}], lease=first.lease, ends=True)
    assert db.take_over_turn("s", lease.fence, is_again=True) is None, "it has ended"


def test_asking_again_takes_nothing_from_others(db: SessionDB) -> None:
    lease = lease_of(db)
    assert db.take_over_turn("s", lease.fence, is_again=True) is None, "it is being worked on"
    abandon(db)
    db._execute_write(lambda conn: conn.execute("UPDATE turns SET fence = 2, owner = 'x:1:1'"))
    assert db.take_over_turn("s", lease.fence, is_again=True) is None, "another was first"
    db._execute_write(lambda conn: conn.execute("UPDATE turns SET fence = 1"))
    assert db.take_over_turn("s", lease.fence, is_again=True) is not None, "the first try failed"


def test_a_heartbeat_keeps_a_turn(db: SessionDB) -> None:
    lease = lease_of(db)
    abandon(db)
    assert db.beat_turns([lease]) == []
    assert db.list_abandoned_turns() == []


def test_a_clock_that_was_set_back_does_not_keep_a_turn(db: SessionDB) -> None:
    lease_of(db)
    db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 9e10"))
    assert len(db.list_abandoned_turns()) == 1


CHILD = """
import os, sys
from hermes_state import SessionDB
db = SessionDB(sys.argv[1], server=sys.argv[2] or None)
db.begin_turn("s", {"role": "user", "content": "Go"}, source="cli", facts={}, leased=True)
print("begun", flush=True)
sys.stdin.read(1)
os._exit(9)
"""


def test_the_turn_of_a_process_that_ended_is_found_at_once(db: SessionDB) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(db.db_path), address(db)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n"
    assert db.list_abandoned_turns() == []
    with pytest.raises(ConversationBusyError):
        begin(db)
    child.kill()
    child.wait()
    (found,) = db.list_abandoned_turns("s")
    assert db.list_abandoned_turns("another") == []
    assert db.take_over_turn("s", found["fence"]) is not None


@pytest.mark.parametrize(
    ("effect", "is_unknown"), [("effectful", True), ("idempotent", False), ("none", False)]
)
def test_what_a_take_over_makes_of_a_started_tool(
    db: SessionDB, effect: str, is_unknown: bool
) -> None:
    lease = lease_of(db)
    db.record_step(
        "s",
        [reply(("a", "send"), ("b", "send"))],
        lease=lease,
        starts=[Started("a", "send", effect)],
    )
    abandon(db)
    taken = db.take_over_turn("s", lease.fence)
    assert taken is not None
    assert taken.unknown == (["send"] if is_unknown else [])
    answers = {one["tool_call_id"]: one for one in db.get_messages("s") if one["role"] == "tool"}
    assert list(answers) == (["a"] if is_unknown else []), "b had not started and is left open"
    states = {one["call_id"]: one["state"] for one in db.list_tool_runs("s")}
    assert states == ({"a": "unknown"} if is_unknown else {})
    if is_unknown:
        assert answers["a"]["content"] == OUTCOME_UNKNOWN
        assert answers["a"]["effect_disposition"] == "unknown"


def test_a_result_that_is_stored_is_used(db: SessionDB) -> None:
    lease = lease_of(db)
    db.record_step(
        "s",
        [reply(("a", "send"), ("b", "send"))],
        lease=lease,
        starts=[Started("a", "send", "effectful")],
    )
    db.record_step("s", [result("a")], lease=lease, starts=[Started("b", "send", "effectful")])
    abandon(db)
    taken = db.take_over_turn("s", lease.fence)
    assert taken is not None and taken.unknown == ["send"]
    assert texts(db)[2:] == ["done", OUTCOME_UNKNOWN]
    states = {one["call_id"]: one["state"] for one in db.list_tool_runs("s")}
    assert states == {"a": "finished", "b": "unknown"}
    db.record_step("s", [{"role": "assistant", "content": "Hm"}], lease=taken.lease, ends=True)
    assert [one["call_id"] for one in db.list_tool_runs("s")] == ["b"], "unknown ones stay"


def test_a_call_id_may_be_used_again(db: SessionDB) -> None:
    lease = lease_of(db)
    for _ in range(2):
        run = Started("call_0", "send", "effectful")
        db.record_step("s", [reply(("call_0", "send"))], lease=lease, starts=[run])
        db.record_step("s", [result("call_0")], lease=lease)
    db.record_step("s", [reply(("call_0", "send"))], lease=lease, starts=[run])
    abandon(db)
    taken = db.take_over_turn("s", lease.fence)
    assert taken is not None and taken.unknown == ["send"]
    assert texts(db)[-1] == OUTCOME_UNKNOWN


def test_the_next_question_closes_what_nobody_took_over(db: SessionDB) -> None:
    lease = lease_of(db)
    run = Started("a", "send", "effectful")
    db.record_step("s", [reply(("a", "send"), ("b", "send"))], lease=lease, starts=[run])
    abandon(db)
    recorded = begin(db, "Still there?")
    assert recorded.others_wrote and recorded.lease == Lease("s", 2, this_process())
    assert texts(db)[2:] == [OUTCOME_UNKNOWN, NOT_STARTED, CUT_OFF, "Still there?"]
    assert [one["state"] for one in db.list_tool_runs("s")] == ["unknown"]


def test_a_turn_that_ends_without_a_last_step_is_closed_in_its_history(db: SessionDB) -> None:
    lease = lease_of(db)
    run = Started("a", "send", "effectful")
    db.record_step("s", [reply(("a", "send"), ("b", "send"))], lease=lease, starts=[run])
    assert db.end_turn(lease) is True
    assert texts(db)[2:] == [OUTCOME_UNKNOWN, NOT_STARTED, CUT_OFF]
    turn = db.get_turn("s")
    assert turn is not None and turn["state"] != turns_module.TURN_RUNNING
    before = dump(db)
    assert db.end_turn(lease) is False
    assert dump(db) == before


@pytest.mark.parametrize(("to", "notice"), [(TO, None), (TO, ""), (None, "I was cut off.")])
def test_a_closed_turn_says_nothing_where_nobody_waits_or_nothing_is_to_be_said(
    db: SessionDB, to: dict[str, Any] | None, notice: str | None
) -> None:
    lease = lease_of(db, deliver_to=to)
    abandon(db)
    assert db.close_abandoned_turn("s", lease.fence, notice)
    assert db.list_deliveries() == []
    assert texts(db)[-1] == CUT_OFF


def test_a_closed_turn_tells_the_chat_that_waits_for_it_once(db: SessionDB) -> None:
    lease = lease_of(db, deliver_to=TO)
    abandon(db)
    (found,) = db.list_abandoned_turns()
    assert found["deliver_to"] == TO
    assert db.close_abandoned_turn("s", lease.fence, "I was cut off.")
    assert not db.close_abandoned_turn("s", lease.fence, "I was cut off.")
    (owed,) = db.list_deliveries()
    assert (owed["content"], owed["chat_id"]) == ("I was cut off.", "7")
    assert texts(db) == ["Go", CUT_OFF]
    assert db.list_abandoned_turns() == []


def test_a_turn_that_another_replaces_tells_the_chat_that_waits_for_it(db: SessionDB) -> None:
    lease_of(db, deliver_to=TO)
    abandon(db)
    begin(db, "Me too")
    (owed,) = db.list_deliveries()
    assert (owed["content"], owed["chat_id"], owed["session_key"]) == (OVERTAKEN, "7", "k")
    assert texts(db) == ["Go", CUT_OFF, "Me too"]


def test_a_turn_whose_end_its_own_process_has_reported_is_replaced_silently(db: SessionDB) -> None:
    given_up = lease_of(db, deliver_to=TO)
    begin(db, "Me too", given_up=given_up)
    assert db.list_deliveries() == []
    assert texts(db) == ["Go", CUT_OFF, "Me too"]


def test_a_turn_that_was_taken_over_can_be_taken_over_again(db: SessionDB) -> None:
    fence = lease_of(db, deliver_to=TO).fence
    for attempts in range(2, 5):
        abandon(db)
        taken = db.take_over_turn("s", fence)
        assert taken is not None
        assert (taken.attempts, taken.deliver_to, taken.lease.fence) == (attempts, TO, fence + 1)
        fence = taken.lease.fence


def test_a_turn_that_gets_somewhere_may_be_taken_over_any_number_of_times(db: SessionDB) -> None:
    lease = lease_of(db)
    for number in range(5):
        run = Started(f"c{number}", "send", "none")
        db.record_step("s", [reply((f"c{number}", "send"))], lease=lease, starts=[run])
        abandon(db)
        taken = db.take_over_turn("s", lease.fence)
        assert taken is not None and taken.attempts == number + 2
        lease = taken.lease
        db.record_step("s", [result(f"c{number}")], lease=lease)
    abandon(db)
    assert [turn["attempts_without_progress"] for turn in db.list_abandoned_turns()] == [0]


def test_the_lease_outlives_a_compression(db: SessionDB) -> None:
    lease = lease_of(db)
    (question,) = db.get_messages("s")
    outcome = db.compact_seen("s", [question["id"]], [question], "s2", lease=lease)
    assert outcome.created
    recorded = db.record_step("s", [reply(("a", "send"))], lease=lease)
    assert recorded.session_id == "s2"
    abandon(db)
    taken = db.take_over_turn("s", lease.fence)
    assert taken is not None and taken.session_id == "s2"
    with pytest.raises(ConversationBusyError):
        begin(db, session_id="s2")


def test_turns_go_with_their_conversation(db: SessionDB) -> None:
    lease = lease_of(db)
    (question,) = db.get_messages("s")
    db.compact_seen("s", [question["id"]], [question], "s2", lease=lease)
    db.delete_session("s")
    abandon(db)
    (found,) = db.list_abandoned_turns()
    assert found["session_id"] == "s2"
    db.delete_session("s2")
    assert db.get_turn("s") is None and db.list_tool_runs("s") == []


def test_a_live_lease_of_another_machine_holds(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns_module, "this_process", lambda: "elsewhere|boot|pid:[1]|1|1")
    lease = lease_of(db)
    monkeypatch.undo()
    with pytest.raises(ConversationBusyError):
        begin(db)
    abandon(db)
    assert db.take_over_turn("s", lease.fence) is not None


@pytest.mark.sqlite
def test_a_turn_is_in_a_store_that_was_copied(db: SessionDB, tmp_path: Path) -> None:
    lease_of(db, deliver_to=TO)
    abandon(db)
    db.close()
    copy = tmp_path / "copy.db"
    copy.write_bytes(db.db_path.read_bytes())
    with SessionDB(copy) as other:
        assert len(other.list_abandoned_turns()) == 1
