"""What processes tell the one that runs a turn, and what they are shown of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hermes_state import EVENTS, EVERYBODY, LEASE_SECONDS, SIGNALS, EventBatch, Lease, SessionDB
from hermes_state.server_wake import ServerWake
from hermes_state.watches import EVENT_SECONDS, WATCH_SECONDS

from .owners import acting_as
from .raw import query, tamper

LONG = 60.0


def begin(db: SessionDB, session_id: str = "s", by: str = "a") -> Lease:
    with acting_as(by):
        lease = db.begin_turn(
            session_id, {"role": "user", "content": "?"}, source="cli", facts={}, leased=True
        ).lease
    assert lease is not None
    return lease


def test_a_signal_reaches_the_owner_of_the_turn_and_nobody_else(db: SessionDB) -> None:
    begin(db)
    with acting_as("b"):
        sent = db.send_signal("s", "steer", {"text": "Left\x00 and right"})
        assert sent is not None
        assert db.list_signals() == []
    with acting_as("a"):
        (signal,) = db.list_signals()
        assert (signal["id"], signal["kind"]) == (sent, "steer")
        assert signal["payload"] == {"text": "Left\x00 and right"}
        assert db.take_signal(sent)
        assert not db.take_signal(sent)
        assert db.list_signals() == []
    assert db.get_signal_outcome(sent) is None
    db.settle_signal(sent, "steered")
    assert db.get_signal_outcome(sent) == "steered"
    assert db.withdraw_signal(sent)
    assert query(db, "SELECT * FROM signals") == []


def test_a_signal_that_was_withdrawn_is_not_taken(db: SessionDB) -> None:
    begin(db)
    sent = db.send_signal("s", "stop")
    assert sent is not None
    assert not db.withdraw_signal(sent)
    assert not db.take_signal(sent)
    db.settle_signal(sent, "stopped")
    assert db.get_signal_outcome(sent) is None


def test_nobody_is_told_where_no_turn_runs(db: SessionDB) -> None:
    assert db.send_signal("unknown", "stop") is None
    lease = begin(db)
    db.end_turn(lease)
    assert db.send_signal("s", "stop") is None
    begin(db)
    tamper(db, f"UPDATE turns SET heartbeat_at = heartbeat_at - {LEASE_SECONDS + 1}")
    assert db.send_signal("s", "stop") is None


def test_a_signal_follows_the_turn_and_not_the_conversation(db: SessionDB) -> None:
    lease = begin(db)
    assert db.send_signal("s", "stop") is not None
    tamper(db, f"UPDATE turns SET heartbeat_at = heartbeat_at - {LEASE_SECONDS + 1}")
    with acting_as("b"):
        taken = db.take_over_turn("s", lease.fence)
        assert taken is not None
        assert [signal["kind"] for signal in db.list_signals()] == ["stop"]
        db.end_turn(taken.lease)
    begin(db, by="b")
    with acting_as("b"):
        assert db.list_signals() == []


def test_a_signal_for_a_turn_that_has_ended_is_not_sent_to_the_next(db: SessionDB) -> None:
    lease = begin(db)
    turn = db.get_turn("s")
    assert turn is not None
    assert db.send_signal("s", "stop", started_at=turn["started_at"]) is not None
    db.end_turn(lease)
    tamper(db, "UPDATE turns SET started_at = started_at - 1")  # the next begins later, surely
    begin(db)
    assert db.send_signal("s", "stop", started_at=turn["started_at"] - 1) is None
    with acting_as("a"):
        assert db.list_signals() == []


def test_a_signal_that_nobody_took_for_a_minute_is_nobodys(db: SessionDB) -> None:
    begin(db)
    db.send_signal("s", "stop")
    tamper(db, "UPDATE signals SET made_at = made_at - 61")
    with acting_as("a"):
        assert db.list_signals() == []


def test_a_signal_to_any_session_of_a_conversation_reaches_its_turn(db: SessionDB) -> None:
    begin(db)
    with acting_as("a"):
        db.rotate_session("s", "s2", [{"role": "user", "content": "so far"}])
        assert db.send_signal("s2", "stop") is not None
        assert [signal["conversation_id"] for signal in db.list_signals()] == ["s"]


def test_old_signals_go_with_the_next(db: SessionDB) -> None:
    begin(db)
    first = db.send_signal("s", "stop")
    tamper(db, "UPDATE signals SET made_at = made_at - 61")
    second = db.send_signal("s", "stop")
    assert first != second
    assert query(db, "SELECT id FROM signals") == [(second,)]


def show(db: SessionDB, conversation_id: str, *batches: EventBatch, by: str = "a") -> None:
    with acting_as(by):
        db.add_events(conversation_id, batches)


def test_a_watch_counts_while_it_is_renewed(db: SessionDB) -> None:
    begin(db)
    with acting_as("a"):
        assert db.list_watches() == []
    db.watch_turn("s", "v1", 0)
    db.watch_turn("s", "v2", 7)
    with acting_as("a"):
        assert [(one["viewer"], one["since"]) for one in db.list_watches()] == [
            ("v1", 0),
            ("v2", 7),
        ]
    with acting_as("b"):
        assert db.list_watches() == []
    tamper(db, f"UPDATE watches SET until = until - {WATCH_SECONDS + 1}")
    db.renew_watch("s", "v2", 9)
    with acting_as("a"):
        assert [(one["viewer"], one["since"]) for one in db.list_watches()] == [("v2", 9)]
    db.end_watch("s", "v2")
    assert query(db, "SELECT * FROM watches") == []


def test_viewers_read_what_is_for_all_and_what_is_their_own(db: SessionDB) -> None:
    begin(db)
    show(db, "s", EventBatch(5, "v1", "so far"), EventBatch(5, EVERYBODY, "a"))
    show(db, "s", EventBatch(8, "v2", "so far 2"), EventBatch(9, EVERYBODY, "b"))
    begin(db, "other")
    show(db, "other", EventBatch(6, EVERYBODY, "c"))
    assert [batch.lines for batch in db.list_events("s", "v1", -1)] == ["so far", "a", "b"]
    assert [batch.lines for batch in db.list_events("s", "v2", 5)] == ["so far 2", "b"]
    show(db, "s", EventBatch(9, EVERYBODY, "b"))  # a second run of the same write
    assert len(db.list_events("s", "v2", 8)) == 1


def test_nothing_is_shown_by_a_process_that_has_lost_the_turn(db: SessionDB) -> None:
    begin(db, by="b")
    show(db, "s", EventBatch(5, EVERYBODY, "late"), by="a")
    show(db, "s", EventBatch(1 << 33, EVERYBODY, "now"), by="b")
    assert [batch.lines for batch in db.list_events("s", "v", 0)] == ["now"]


def test_events_are_gone_soon(db: SessionDB) -> None:
    for name in ("s", "other"):
        begin(db, name)
        show(db, name, EventBatch(1, EVERYBODY, "a"))
    tamper(db, f"UPDATE watched_events SET made_at = made_at - {EVENT_SECONDS + 1}")
    show(db, "s", EventBatch(2, EVERYBODY, "b"))
    assert [batch.number for batch in db.list_events("s", "v", 0)] == [2]
    db.watch_turn("s", "v", 0)  # whoever watches next clears away what others have left
    assert db.list_events("other", "v", 0) == []
    show(db, "s", EventBatch(1 << 33, EVERYBODY, "of the next turn"))
    db.drop_events("s", 2)
    assert [batch.lines for batch in db.list_events("s", "v", 0)] == ["of the next turn"]
    db.drop_events("s", 1 << 33)
    assert db.list_events("s", "v", 0) == []


def test_all_of_it_goes_with_the_conversation(db: SessionDB) -> None:
    db.end_turn(begin(db))
    begin(db, "kept")
    for name in ("s", "kept"):
        db.watch_turn(name, "v", 0)
        show(db, name, EventBatch(1, EVERYBODY, "what was said"))
    begin(db)
    db.send_signal("s", "steer", {"text": "what was said"})
    tamper(db, "UPDATE turns SET state = 'ended' WHERE conversation_id = 's'")
    db.delete_session("s")
    for table in ("signals", "watches", "watched_events"):
        left = query(db, f"SELECT DISTINCT conversation_id FROM {table}")
        assert left in ([], [("kept",)])


@pytest.mark.parametrize("database", ["postgres"], indirect=True)  # a file does not tell topics
def test_a_signal_wakes_those_who_wait_for_it_and_nobody_else(db: SessionDB, db_path: Path) -> None:
    begin(db)
    with SessionDB(db_path) as other:  # a process of another machine
        assert isinstance(other.wake, ServerWake)
        signals, events = other.wake.topic(SIGNALS), other.wake.topic(EVENTS)
        assert other.wake.topic(SIGNALS) is signals
        started = other.wake.number
        other.wake.wait(started, LONG)  # it listens
        before = (other.wake.number, events.number)
        woken = threading.Event()

        def wait() -> None:
            seen = signals.number
            while not query(other, "SELECT 1 FROM signals"):
                seen = signals.wait(seen, LONG)
            woken.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        db.send_signal("s", "stop")
        assert woken.wait(LONG)
        waiting.join()
        assert (other.wake.number, events.number) == before
        seen = events.number
        show(db, "s", EventBatch(1, EVERYBODY, "a"))
        assert events.wait(seen, LONG) != seen
        assert other.wake.number == before[0]
