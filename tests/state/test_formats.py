"""Two releases on one store: what only the newer understands is left to it, and said to wait."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_state import INBOX_ID, LEASE_SECONDS, ConversationBusyError, Lease, SessionDB, formats
from hermes_state.notes import WAKING
from hermes_state.server_schema import OLDEST_READER

from .owners import acting_as, owner
from .raw import tamper

TO = {"session_key": "k", "platform": "local", "chat_id": "1", "thread_id": None}
COLUMN_SINCE = 13
"""The schema that has `needs_format`."""


@contextlib.contextmanager
def newer_release(*new: str) -> Iterator[None]:
    """Meanwhile this process is of the next release, to which these names are new."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "UNDERSTOOD", 2)
        patch.setattr(formats, "NEEDED", dict.fromkeys(new, 2))
        yield


def accept(db: SessionDB, name: str, key: str = "k", **facts: Any) -> None:
    assert db.accept_message(name, "s", name, source="local", session_key=key, facts=facts)


def begin(db: SessionDB, by: str, message: str = "?", **given: Any) -> Lease:
    asked = {"role": "user", "content": message}
    if inbox_id := given.pop("inbox_id", None):
        asked[INBOX_ID] = inbox_id
    with acting_as(by):
        begun = db.begin_turn("s", asked, source="local", facts={}, leased=True, **given)
    assert begun.lease is not None
    return begun.lease


def fall_silent(db: SessionDB) -> None:
    for table in ("turns", "replicas"):
        tamper(db, f"UPDATE {table} SET heartbeat_at = heartbeat_at - {LEASE_SECONDS + 1}")


def waiting(db: SessionDB) -> list[tuple[str, str, bool]]:
    return [(one["kind"], one["name"], one["is_taken"]) for one in db.list_for_newer()]


def test_a_release_that_asks_for_more_refuses_those_that_would_not_notice() -> None:
    assert formats.UNDERSTOOD == formats.FIRST or OLDEST_READER >= COLUMN_SINCE
    assert all(formats.FIRST < number <= formats.UNDERSTOOD for number in formats.NEEDED.values())


def test_what_everybody_understands_names_no_format(db: SessionDB) -> None:
    with newer_release("inbox.location"):
        accept(db, "m", source={"chat_id": "1"})
    (message,) = db.list_waiting()
    assert (message["needs_format"], message["is_held"]) == (None, False)


@pytest.mark.parametrize("new", ["inbox.location", "inbox.source.planet"])
def test_a_message_that_only_a_newer_release_understands_waits_for_it(
    db: SessionDB, new: str
) -> None:
    with newer_release(new), acting_as("a"):
        db.register_replica(host="a")
        accept(db, "m", location="here", source={"planet": "Mars"})
    assert db.list_waiting() == []
    assert not db.claim_message("m", owner("a"))
    assert not db.begin_command("m")
    assert waiting(db) == [("message", "m", True)]
    fall_silent(db)  # the last newer one is gone
    assert db.list_waiting() == []
    assert waiting(db) == [("message", "m", False)]
    with newer_release(new):
        assert [message["id"] for message in db.list_waiting()] == ["m"]
        assert db.list_for_newer() == []
        assert db.claim_message("m", owner("a"))


def test_what_is_behind_it_in_its_chat_waits_while_somebody_can_take_it(db: SessionDB) -> None:
    with newer_release("inbox.location"), acting_as("a"):
        db.register_replica(host="a")
        accept(db, "m1", location="here")
    accept(db, "m2")
    accept(db, "other", key="another chat")
    assert [message["id"] for message in db.list_waiting()] == ["other"]
    held = {message["id"]: message["is_held"] for message in db.list_waiting(with_held=True)}
    assert held == {"m1": True, "m2": True, "other": False}
    fall_silent(db)
    assert [message["id"] for message in db.list_waiting()] == ["m2", "other"]


def test_a_command_that_a_newer_release_was_at_is_its_to_tell_of(db: SessionDB) -> None:
    with newer_release("inbox.location"), acting_as("a"):
        accept(db, "m", location="here")
        assert db.begin_command("m")
    assert db.list_abandoned_commands() == []
    with newer_release("inbox.location"):
        assert [command["id"] for command in db.list_abandoned_commands()] == ["m"]


def test_notes_signals_deliveries_and_hand_offs_wait_too(db: SessionDB) -> None:
    db.create_session("s", "local")
    begin(db, "a")
    new = (f"note.{WAKING}", "signal.wink", "delivery.local", "handoff.local")
    with newer_release(*new):
        assert db.add_note("n", "s", "a note")
        assert db.send_signal("s", "wink") is not None
        assert db.add_delivery("d", "an answer", **TO)
        assert db.request_handoff("s", "local")
    assert not db.has_notes("s") and db.list_noted() == []
    assert db.deliver_results("s") is None
    with acting_as("a"):
        assert db.list_signals() == []
    assert db.list_deliveries() == [] and not db.begin_delivery("d")
    assert db.list_pending_handoffs() == [] and not db.claim_handoff("s")
    assert {kind for kind, _, _ in waiting(db)} == {"note", "delivery", "hand-off"}
    with newer_release(*new):
        assert db.has_notes("s") and db.list_noted() == ["s"]
        assert db.deliver_results("s") is not None
        with acting_as("a"):
            assert [signal["kind"] for signal in db.list_signals()] == ["wink"]
        with acting_as("b"):
            assert db.begin_delivery("d") and db.claim_handoff("s")
    assert db.list_abandoned_deliveries() == [] and db.list_abandoned_handoffs() == []
    with newer_release(*new):
        assert len(db.list_abandoned_deliveries()) == len(db.list_abandoned_handoffs()) == 1


def test_other_answers_do_not_wait_for_one_that_is_not_understood(db: SessionDB) -> None:
    with newer_release("delivery.local"):
        db.add_delivery("d1", "new", **TO)
    db.add_delivery("d2", "plain", **TO)
    assert [delivery["obligation_id"] for delivery in db.list_deliveries()] == ["d2"]


@pytest.mark.parametrize("by_message", [True, False])
def test_a_turn_of_a_newer_release_is_left_to_be_taken_over_by_one(
    db: SessionDB, by_message: bool
) -> None:
    new = "inbox.location" if by_message else "turn.to.planet"
    with newer_release(new), acting_as("a"):
        db.register_replica(host="a")
        if by_message:
            accept(db, "m", location="here")
            lease = begin(db, "a", inbox_id="m")
        else:
            lease = begin(db, "a", deliver_to={"id": "x", "to": {"planet": "Mars"}})
    assert waiting(db) == [], "it runs"
    fall_silent(db)
    assert waiting(db) == [("turn", "s", False)]
    assert db.list_abandoned_turns() == []
    assert db.take_over_turn("s", lease.fence) is None
    assert not db.close_abandoned_turn("s", lease.fence, "closed")
    assert db.send_signal("s", "stop") is None
    with pytest.raises(ConversationBusyError):
        begin(db, "b")
    with newer_release(new), acting_as("c"):
        assert [turn["conversation_id"] for turn in db.list_abandoned_turns()] == ["s"]
        taken = db.take_over_turn("s", lease.fence)
        assert taken is not None
        assert db.end_turn(taken.lease)
    begin(db, "b")  # the next turn is anybody's again
    fall_silent(db)
    assert len(db.list_abandoned_turns()) == 1


def test_a_turn_that_reads_such_a_message_on_its_way_takes_a_newer_release_too(
    db: SessionDB,
) -> None:
    with newer_release("inbox.location"):
        lease = begin(db, "a")
        accept(db, "m", location="here")
        with acting_as("a"):
            db.record_step("s", [{"role": "user", "content": "m", INBOX_ID: "m"}], lease=lease)
    fall_silent(db)
    assert db.list_abandoned_turns() == []


def test_a_hand_off_that_waits_moves_on_with_its_conversation(db: SessionDB) -> None:
    db.create_session("s", "local")
    db.append_message("s", "user", "hello")
    with newer_release("handoff.local"):
        assert db.request_handoff("s", "local")
    db.rotate_session("s", "s2", [{"role": "user", "content": "a summary"}])
    assert db.list_pending_handoffs() == []
    with newer_release("handoff.local"):
        assert [session["id"] for session in db.list_pending_handoffs()] == ["s2"]
