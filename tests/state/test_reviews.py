"""When a conversation is looked back on: counted in the store, once for everybody."""

from __future__ import annotations

from hermes_state import SessionDB


def talk(db: SessionDB, session_id: str, turns: int) -> None:
    for number in range(turns):
        db.append_message(session_id, "user", f"question {number}")
        db.append_message(session_id, "assistant", "answer")


def test_a_review_is_due_once_for_every_so_many_turns(db: SessionDB) -> None:
    db.create_session("s", "cli")
    assert db.claim_review("s", 3) == 3
    talk(db, "s", 2)
    assert db.claim_review("s", 3) == 1
    talk(db, "s", 2)
    with SessionDB(db.db_path) as other:
        assert other.claim_review("s", 3) == 0
    assert db.claim_review("s", 3) == 3
    assert db.count_user_turns("s") == 4


def test_the_count_goes_on_through_a_compression_and_counts_nothing_twice(db: SessionDB) -> None:
    db.create_session("s", "cli")
    talk(db, "s", 3)
    assert db.claim_review("s", 3) == 0
    kept = db.get_messages_as_conversation("s")[-2:]
    db.rotate_session("s", "s2", kept)
    assert db.count_user_turns("s2") == db.count_user_turns("s") == 3
    assert db.claim_review("s2", 3) == 3
    talk(db, "s2", 3)
    assert db.claim_review("s", 3) == 0


def test_a_branch_is_counted_for_itself(db: SessionDB) -> None:
    db.create_session("s", "cli")
    talk(db, "s", 3)
    db.branch_session("s", "b")
    assert db.claim_review("b", 3) == 3
    assert db.claim_review("s", 3) == 0


def test_turns_that_were_taken_back_do_not_delay_the_next_review_for_ever(db: SessionDB) -> None:
    db.create_session("s", "cli")
    talk(db, "s", 6)
    assert db.claim_review("s", 6) == 0
    first = db.list_recent_user_messages("s", limit=6)[-1]["id"]
    db.rewind_to_message("s", first)
    assert db.claim_review("s", 6) == 6
    talk(db, "s", 2)
    assert db.claim_review("s", 2) == 0


def test_an_unknown_session_is_never_due_and_leaves_nothing(db: SessionDB) -> None:
    assert db.claim_review("nobody", 1) == 1
    assert db.count_user_turns("nobody") == 0
    assert db.get_meta("review:nobody") is None


def test_the_mark_goes_with_the_session(db: SessionDB) -> None:
    db.create_session("s", "cli")
    talk(db, "s", 1)
    assert db.claim_review("s", 1) == 0
    assert db.get_meta("review:s") == "1"
    db.delete_session("s")
    assert db.get_meta("review:s") is None


def test_neither_a_claim_nor_a_side_call_touches_the_session(db: SessionDB) -> None:
    db.create_session("s", "cli")
    talk(db, "s", 1)
    before = db.get_session("s")
    assert db.claim_review("s", 1) == 0
    db.record_auxiliary_usage("s", "review", model="m", input_tokens=5)
    assert db.get_session("s") == before
