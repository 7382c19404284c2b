"""Every write that reads first and decides, with another in between: what must hold still does.

On a file all writes run one after the other; on a server only those about the same conversation do,
or about the store (`hermes_state.locks`). Each test holds one write in the middle of its
transaction, begins another, lets the first go on, and looks at what they made together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from hermes_state import (
    ConversationBusyError,
    InvalidMessageError,
    LeaseLostError,
    SessionDB,
)
from hermes_state import server as server_module
from hermes_state.history import OUTCOME_UNKNOWN
from hermes_state.tool_runs import Started
from hermes_state.turn_log import CUT_OFF
from hermes_state.turns import Lease

from .interleaving import Outcome, Pair, append, begin, chat, live, newest, nothing, one_of, say
from .raw import query, tamper

# Leases


@pytest.mark.parametrize("prepare", [nothing, chat])
def test_one_of_two_that_begin_has_the_turn(
    pair: Pair, prepare: Callable[[SessionDB, str], None]
) -> None:
    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        lease = one_of(first, second)
        errors = [outcome.error for outcome in (first, second) if outcome.is_error]
        assert [type(error) for error in errors] == [ConversationBusyError]
        assert live(db, name).count("question") == 1
        assert db.beat_turns([lease]) == []

    pair.every_way(prepare, begin, begin, check)


def with_open_call(db: SessionDB, name: str) -> None:
    """A turn in the middle of a tool that may do harm, whose process was not heard of for long."""
    lease = begin(db, name)
    call = {"id": "c", "function": {"name": "send", "arguments": "{}"}}
    asks = {"role": "assistant", "content": "", "tool_calls": [call]}
    db.record_step(name, [asks], lease=lease, starts=[Started("c", "send", "effectful")])
    abandon(db, name)


def abandon(db: SessionDB, name: str) -> None:
    tamper(db, f"UPDATE turns SET heartbeat_at = 0 WHERE conversation_id = '{name}'")


def old_lease(db: SessionDB, name: str) -> Lease:
    turn = db.get_turn(name)
    assert turn is not None
    return Lease(name, 1, turn["owner"])


def take_over(db: SessionDB, name: str) -> Any:
    return db.take_over_turn(name, 1)


def close_turn(db: SessionDB, name: str) -> bool:
    return db.close_abandoned_turn(name, 1)


@pytest.mark.parametrize("second", [take_over, close_turn])
def test_one_takes_an_abandoned_turn_over_and_can_write(
    pair: Pair, second: Callable[[SessionDB, str], Any]
) -> None:
    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        won = one_of(first, second)
        if won is not True:
            db.record_step(name, say("done", role="assistant"), lease=won.lease, ends=True)
        assert live(db, name).count(OUTCOME_UNKNOWN) == 1
        turn = db.get_turn(name)
        assert turn and (turn["fence"], turn["state"]) == (2, "ended")

    pair.every_way(with_open_call, take_over, second, check)


def test_a_step_is_before_its_turn_is_taken_over_or_not_at_all(pair: Pair) -> None:
    def step(db: SessionDB, name: str) -> Any:
        result = {"role": "tool", "tool_call_id": "c", "tool_name": "send", "content": "sent"}
        return db.record_step(name, [result], lease=Lease(name, 1, owners[name]))

    owners: dict[str, str] = {}

    def prepare(db: SessionDB, name: str) -> None:
        with_open_call(db, name)
        owners[name] = old_lease(db, name).owner

    def check(db: SessionDB, name: str, step: Outcome, taken: Outcome) -> None:
        results = [text for text in live(db, name) if text in ("sent", OUTCOME_UNKNOWN)]
        if step.is_error:
            assert isinstance(step.error, LeaseLostError)
            assert (results, taken.result.unknown) == ([OUTCOME_UNKNOWN], ["send"])
        else:  # whoever takes over has seen it
            assert (results, taken.result.unknown) == (["sent"], [])

    pair.every_way(prepare, step, take_over, check)


def test_a_compression_is_before_its_turn_is_taken_over_or_not_at_all(pair: Pair) -> None:
    owners: dict[str, str] = {}

    def prepare(db: SessionDB, name: str) -> None:
        owners[name] = begin(db, name).owner
        abandon(db, name)

    def compress(db: SessionDB, name: str) -> Any:
        seen = [message["_row"] for message in db.load_live(name).messages]  # type: ignore[union-attr]
        lease = Lease(name, 1, owners[name])
        return db.compact_seen(name, seen, say("sum"), f"{name}-2", lease=lease)

    def check(db: SessionDB, name: str, compressed: Outcome, taken: Outcome) -> None:
        tip = db.get_compression_tip(name)
        assert taken.result.session_id == tip
        assert (tip == name) == isinstance(compressed.error, LeaseLostError)

    pair.every_way(prepare, compress, take_over, check)


def test_what_a_crash_left_open_is_closed_once(pair: Pair) -> None:
    def unleased(db: SessionDB, name: str) -> Any:
        return db.begin_turn(name, say("next")[0], source="cli", facts={})

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert not first.is_error and not second.is_error
        said = Counter(live(db, name))
        assert (said["next"], said[OUTCOME_UNKNOWN]) == (2, 1)

    pair.every_way(with_open_call, unleased, unleased, check)


def test_a_turn_is_ended_or_closed_once(pair: Pair) -> None:
    owners: dict[str, str] = {}

    def prepare(db: SessionDB, name: str) -> None:
        owners[name] = begin(db, name).owner
        abandon(db, name)

    def end(db: SessionDB, name: str) -> bool:
        return db.end_turn(Lease(name, 1, owners[name]))

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert one_of(first, second) is True
        assert live(db, name) == ["question", CUT_OFF]

    pair.every_way(prepare, end, close_turn, check)
    pair.every_way(prepare, end, end, check)


def test_a_conversation_is_locked_by_its_own_name(pair: Pair) -> None:
    """Its first session may be gone, and another conversation's have that id."""

    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        db.rotate_session(name, f"{name}-2", say("sum"))
        db.delete_session(name)
        db.create_session(name, "cli")
        assert [found["conversation_id"] for found in sessions(db, name)] == [f"{name}~2", name]
        lease = begin(db, f"{name}-2")
        abandon(db, name)
        assert lease.conversation_id == name

    def sessions(db: SessionDB, name: str) -> list[dict[str, Any]]:
        return [db.get_session(one) or {} for one in (name, f"{name}-2")]

    def step(db: SessionDB, name: str) -> Any:
        lease = old_lease(db, name)
        return db.record_step(f"{name}-2", say("late", role="assistant"), lease=lease)

    def check(db: SessionDB, name: str, step: Outcome, taken: Outcome) -> None:
        assert taken.result.session_id == f"{name}-2"
        assert ("late" in live(db, f"{name}-2")) is not step.is_error
        for waited in (pair.hold(lambda db: db.end_turn(taken.result.lease)),):
            other = pair.start(lambda db: db.append_message(f"{name}-2", "user", "more"))
            if db.is_on_server:
                assert not other.is_over()  # the same lock, by whatever name
            assert waited.let_go().result is True
            assert other.outcome().result

    pair.every_way(prepare, step, take_over, check)


# Compression


def test_what_is_said_while_a_session_is_rotated_is_carried_over(pair: Pair) -> None:
    seen: dict[str, int] = {}

    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        seen[name] = newest(db, name)

    def rotate(db: SessionDB, name: str) -> Any:
        return db.rotate_session(name, f"{name}-2", say("sum"), covers_until=seen[name])

    def record(db: SessionDB, name: str) -> Any:
        return db.record_step(name, say("late"))

    def append(db: SessionDB, name: str) -> Any:
        return db.append_message(name, "user", "late")

    def check(db: SessionDB, name: str, rotated: Outcome, said: Outcome) -> None:
        assert rotated.result.created and not said.is_error
        assert live(db, name) == ["sum", "late"]

    def check_appended(db: SessionDB, name: str, rotated: Outcome, said: Outcome) -> None:
        # Whoever appends to a session by its id does so to where it is told, before or after.
        parent = [message["id"] for message in db.get_messages(name)]
        assert rotated.result.created and said.result == parent[-1]
        was_before = said.result < newest(db, f"{name}-2")
        assert live(db, name) == (["sum", "late"] if was_before else ["sum"])

    pair.every_way(prepare, rotate, record, check)
    pair.every_way(prepare, rotate, append, check_appended)


def compact(db: SessionDB, name: str) -> Any:
    return db.archive_and_compact(name, say("sum"), covers_until=covered(db, name))


def covered(db: SessionDB, name: str) -> int:
    ((last,),) = query(
        db, "SELECT MAX(id) FROM messages WHERE session_id = ? AND content = 'two'", (name,)
    )
    return int(last)


def check_compacted(db: SessionDB, name: str, compacted: Outcome, said: Outcome) -> None:
    assert not compacted.is_error and not said.is_error
    assert live(db, name) == ["sum", "late"]


def test_what_is_said_while_a_session_is_compacted_stays_live(pair: Pair) -> None:
    pair.every_way(chat, compact, append, check_compacted)


def test_without_its_lock_a_compaction_would_archive_what_it_never_saw(
    pair: Pair, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That these tests can see what they look for."""
    if database == "sqlite":
        pytest.skip("a file has one writer, whatever locks it is told")
    monkeypatch.setattr(server_module, "_lock", lambda *_: "SELECT hermes_lock('')")
    name = pair.fresh()
    chat(pair.one, name)
    held = pair.hold(lambda db: compact(db, name), "first change")
    # Its session's row is not changed yet: the append does not wait.
    said = pair.start(lambda db: append(db, name)).outcome()
    with pytest.raises(AssertionError):
        check_compacted(pair.one, name, held.let_go(), said)


def test_a_session_is_rotated_or_reopened_but_a_conversation_is_open_once(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        tamper(
            db,
            f"UPDATE sessions SET ended_at = 1, end_reason = 'compression' WHERE id = '{name}'",
        )

    def rotate(db: SessionDB, name: str) -> Any:
        return db.rotate_session(name, f"{name}-2", say("sum"))

    def reopen(db: SessionDB, name: str) -> None:
        db.reopen_session(name)

    def check(db: SessionDB, name: str, rotated: Outcome, reopened: Outcome) -> None:
        assert not rotated.is_error and not reopened.is_error
        open_ones = query(
            db,
            "SELECT id FROM sessions WHERE conversation_id = ? AND ended_at IS NULL",
            (name,),
        )
        assert open_ones == [(f"{name}-2",)]

    pair.every_way(prepare, rotate, reopen, check)


def test_a_session_is_rotated_once(pair: Pair) -> None:
    def to(suffix: str) -> Callable[[SessionDB, str], Any]:
        return lambda db, name: db.rotate_session(name, f"{name}-{suffix}", say(suffix))

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert first.result.session_id == second.result.session_id
        assert first.result.created != second.result.created
        assert len(db.get_compression_lineage(name)) == 2

    pair.every_way(chat, to("a"), to("b"), check)


def test_two_conversations_do_not_become_one(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        chat(db, f"{name}-other")

    def rotate(db: SessionDB, name: str) -> Any:
        return db.rotate_session(name, f"{name}-new", say("sum"))

    def rotate_other(db: SessionDB, name: str) -> Any:
        return db.rotate_session(f"{name}-other", f"{name}-new", say("sum"))

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        one_of(first, second)
        (error,) = (outcome.error for outcome in (first, second) if outcome.is_error)
        assert isinstance(error, InvalidMessageError)

    pair.every_way(prepare, rotate, rotate_other, check)


def test_a_conversation_is_archived_whole(pair: Pair) -> None:
    def rotate(db: SessionDB, name: str) -> Any:
        return db.rotate_session(name, f"{name}-2", say("sum"))

    def archive(db: SessionDB, name: str) -> bool:
        return db.set_session_archived(name, True)

    def check(db: SessionDB, name: str, rotated: Outcome, archived: Outcome) -> None:
        assert rotated.result.created and archived.result
        states = query(db, "SELECT archived FROM sessions WHERE conversation_id = ?", (name,))
        assert states == [(1,), (1,)]

    pair.every_way(chat, rotate, archive, check)


# The order of ids


def test_within_a_session_ids_are_in_the_order_of_commits(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without the conversation's lock: the counters hold the session's row."""
    monkeypatch.setattr(server_module, "_lock", lambda *_: "SELECT hermes_lock('')")
    name = pair.fresh()
    chat(pair.one, name)
    held = pair.hold(lambda db: db.append_message(name, "user", "first"))
    other = pair.start(lambda db: db.append_messages(name, say("second", "third")))
    assert not other.is_over()
    assert live(pair.one, name) == ["one", "two"]
    first = held.let_go().result
    assert other.outcome().result == [first + 1, first + 2]
    assert live(pair.one, name) == ["one", "two", "first", "second", "third"]


def test_a_message_that_commits_late_is_seen_by_whoever_looks_again(pair: Pair) -> None:
    """On a server another session's message, with a higher id, may be there before."""
    name, other_name = pair.fresh(), pair.fresh()
    for one in (name, other_name):
        chat(pair.one, one)
    before = pair.one.load_live(name)
    assert before is not None
    held = pair.hold(lambda db: db.append_message(name, "user", "late"))
    other = pair.start(lambda db: db.append_message(other_name, "user", "early"))
    if pair.one.is_on_server:
        assert other.is_over()
        assert live(pair.one, other_name)[-1] == "early"
    unchanged = pair.one.load_live(name)
    assert unchanged == before
    late = held.let_go().result
    assert late < other.outcome().result
    after = pair.one.load_live(name)
    assert after is not None and after.version > before.version
    assert [message["_row"] for message in after.messages][-1] == late
    # Whoever goes on from what it saw before is told that others wrote.
    step = pair.one.record_step(name, say("next"), seen_version=before.version)
    assert step.others_wrote
