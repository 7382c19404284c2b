"""Notes: what a conversation is told without anybody having asked, each exactly once."""

from __future__ import annotations

import threading

import pytest

from hermes_state import SessionDB
from hermes_state.delegations import NOTE
from hermes_state.notes import LONGEST_SECONDS, QUIET, STEERED


def said(db: SessionDB, session_id: str) -> list[str]:
    return [message["content"] for message in db.get_messages(session_id)]


def begin(db: SessionDB, session_id: str, text: str) -> None:
    db.begin_turn(session_id, {"role": "user", "content": text}, source="cli", facts={})


def test_a_note_is_kept_once_and_is_no_message_of_a_front_end(db: SessionDB) -> None:
    begin(db, "s", "hello")
    assert db.add_note("p:ended", "s", "it ended")
    assert not db.add_note("p:ended", "s", "it ended, told again")
    assert db.list_waiting("s") == [] and db.list_waiting() == []
    assert db.has_notes("s") and db.list_noted() == ["s"]
    with pytest.raises(ValueError, match="no kind of note"):
        db.add_note("p", "s", "text", "shout")


def test_the_next_message_brings_it(db: SessionDB) -> None:
    begin(db, "s", "hello")
    db.add_note("a", "s", "it ended")
    db.add_note("b", "s", "Look left.", STEERED)
    db.add_note("c", "s", "it was stopped", QUIET)
    begin(db, "s", "and?")
    assert said(db, "s")[-4:] == ["it ended", "Look left.", "it was stopped", "and?"]
    reasons = [message["finish_reason"] for message in db.get_messages("s")][-4:]
    assert reasons == [NOTE, None, NOTE, None]
    assert not db.has_notes("s") and db.list_noted() == []
    assert not db.add_note("a", "s", "it ended"), "what was told is remembered"


def test_a_turn_of_its_own(db: SessionDB) -> None:
    assert db.begin_noted_turn("s", source="cli", facts={}) is None
    assert db.get_session("s") is None
    begin(db, "s", "hello")
    db.add_note("a", "s", "it was stopped", QUIET)
    assert db.begin_noted_turn("s", source="cli", facts={}) is None, "a quiet one begins no turn"
    db.add_note("b", "s", "it ended")
    recorded = db.begin_noted_turn("s", source="cli", facts={})
    assert recorded is not None and recorded.lease is not None
    assert said(db, "s")[-2:] == ["it was stopped", "it ended"]
    db.end_turn(recorded.lease)
    assert db.begin_noted_turn("s", source="cli", facts={}) is None


def test_it_follows_its_conversation_through_a_compression(db: SessionDB) -> None:
    begin(db, "s", "hello")
    db.add_note("a", "s", "it ended")
    db.rotate_session("s", "s2", [{"role": "user", "content": "what was said"}])
    assert db.has_notes("s2")
    begin(db, "s", "and?")
    assert said(db, "s2")[-2:] == ["it ended", "and?"]


def test_of_many_that_begin_at_once_one_tells(db: SessionDB) -> None:
    begin(db, "s", "hello")
    db.add_note("a", "s", "it ended")
    begun: list[object] = []

    def tell() -> None:
        try:
            begun.append(db.begin_noted_turn("s", source="cli", facts={}))
        except Exception as error:  # noqa: BLE001 - the others find a turn running
            begun.append(error)

    threads = [threading.Thread(target=tell) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 8
    assert said(db, "s").count("it ended") == 1


def test_what_nobody_came_for_begins_no_turn_after_a_week(db: SessionDB) -> None:
    begin(db, "s", "hello")
    db.add_note("a", "s", "it ended")
    db._execute_write(
        lambda conn: conn.execute(
            "UPDATE inbox SET received_at = received_at - ?", (LONGEST_SECONDS + 1,)
        )
    )
    assert db.list_noted() == [] and db.has_notes("s")


def test_dropped_with_its_conversation(db: SessionDB) -> None:
    begin(db, "s", "hello")
    db.add_note("a", "s", "it ended")
    assert db.drop_notes("s") == 1
    assert not db.has_notes("s")
    db.add_note("b", "s", "more")
    db.delete_session("s")
    assert db.list_noted() == []


def test_results_of_background_work_are_notes(db: SessionDB) -> None:
    begin(db, "s", "hello")
    for name, state in (("one", "interrupted"), ("two", "completed")):
        db.create_delegation(name, "s", {"goals": [name]})
        db.finish_delegation(name, state, f"report {name}")
        assert db.has_notes("s") == (state == "completed"), "what was stopped wakes nobody"
    assert db.list_noted() == ["s"]
    assert db.begin_noted_turn("s", source="cli", facts={}) is not None
    assert [text.count("report") for text in said(db, "s")[-2:]] == [1, 1]
