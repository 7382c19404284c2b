"""The steps of a turn: at the tip, valid, each once, and honest about what others wrote."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_state import SessionDB, UnknownSessionError
from hermes_state.history import OUTCOME_UNKNOWN, repair_message_sequence
from hermes_state.turn_log import CUT_OFF, ROW_ID

CALL = {"id": "x", "type": "function", "function": {"name": "t", "arguments": "{}"}}


def begin(db: SessionDB, text: str, session_id: str = "s", seen: int | None = None) -> Any:
    message = {"role": "user", "content": text}
    facts = {"model": "m", "user_id": "ada"}
    return db.begin_turn(session_id, message, source="cli", facts=facts, seen_version=seen)


def said(db: SessionDB, session_id: str = "s") -> list[tuple[str, Any]]:
    return [(m["role"], m["content"]) for m in db.get_messages_as_conversation(session_id)]


def test_the_row_comes_with_the_first_message(db: SessionDB) -> None:
    first = begin(db, "hello")
    assert not first.others_wrote
    session = db.get_session("s")
    assert session and (session["model"], session["user_id"]) == ("m", "ada")
    step = db.record_step(
        "s", [{"role": "assistant", "content": "hi"}], {"input_tokens": 5}, first.version
    )
    assert not step.others_wrote
    assert db.get_session("s")["input_tokens"] == 5  # type: ignore[index]
    assert not begin(db, "again", seen=step.version).others_wrote


def test_others_writes_are_noticed(db: SessionDB) -> None:
    first = begin(db, "hello")
    db.append_message("s", "assistant", "from elsewhere")
    assert db.record_step("s", [{"role": "user", "content": "x"}], None, first.version).others_wrote


@pytest.mark.parametrize(
    ("left_open", "closed_with"),
    [
        ([], []),
        ([{"role": "user", "content": "q"}], [("assistant", CUT_OFF)]),
        (
            [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [CALL]}],
            [("tool", OUTCOME_UNKNOWN), ("assistant", CUT_OFF)],
        ),
        (
            [
                {"role": "user", "content": "q"},
                {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": "y"}]},
                {"role": "tool", "tool_call_id": "x", "content": "done"},
            ],
            [("tool", OUTCOME_UNKNOWN), ("assistant", CUT_OFF)],
        ),
        (
            [
                {"role": "user", "content": "q"},
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "x", "content": "done"},
            ],
            [("assistant", CUT_OFF)],
        ),
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], []),
    ],
)
def test_what_a_crash_left_open_is_closed_first(
    db: SessionDB, left_open: list[dict[str, Any]], closed_with: list[tuple[str, str]]
) -> None:
    db.create_session("s", "cli")
    db.append_messages("s", left_open)
    result = begin(db, "next")
    assert said(db)[len(left_open) :] == [*closed_with, ("user", "next")]
    assert len(result.ids) == len(closed_with) + 1
    conversation = db.get_messages_as_conversation("s")
    assert repair_message_sequence(conversation) == conversation


def test_a_turn_goes_to_where_the_conversation_is(db: SessionDB) -> None:
    begin(db, "one")
    db.record_step("s", [{"role": "assistant", "content": "1"}])
    db.rotate_session("s", "tip", [{"role": "user", "content": "sum"}])
    db.record_step("s", [{"role": "assistant", "content": "late"}])
    assert begin(db, "two").session_id == "tip"
    assert said(db, "tip") == [("user", "sum"), ("assistant", "late"), ("user", "two")]
    view = db.load_live("s")
    assert view and view.session_id == "tip"
    assert [m[ROW_ID] for m in view.messages] == [m["id"] for m in db.get_messages("tip")]
    assert db.load_live("nobody") is None


def test_an_ended_session_goes_on(db: SessionDB) -> None:
    begin(db, "one")
    db.end_session("s", "cli_close")
    begin(db, "two")
    assert db.get_session("s")["ended_at"] is None  # type: ignore[index]


def test_a_step_for_nobody_is_refused(db: SessionDB) -> None:
    with pytest.raises(UnknownSessionError):
        db.record_step("nobody", [{"role": "user", "content": "x"}])


def test_only_what_is_missing_is_appended(db: SessionDB) -> None:
    facts: dict[str, Any] = {"source": "cli", "facts": {}}
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert db.append_missing("s", [], **facts) is None
    assert db.get_session("s") is None
    assert len(db.append_missing("s", history, **facts).ids) == 2  # type: ignore[union-attr]
    assert db.append_missing("s", history, **facts) is None
    more = [*history, {"role": "user", "content": "a"}]
    assert len(db.append_missing("s", more, **facts).ids) == 1  # type: ignore[union-attr]
    assert [text for _, text in said(db)] == ["a", "b", "a"]


def test_after_a_compression_neither_view_is_written_again(db: SessionDB) -> None:
    facts: dict[str, Any] = {"source": "cli", "facts": {}}
    full = [
        {"role": r, "content": c} for r, c in (("user", "a"), ("assistant", "b"), ("user", "c"))
    ]
    db.append_missing("s", full, **facts)
    db.rotate_session("s", "tip", [{"role": "user", "content": "sum"}, full[1], full[2]])
    compressed = db.get_messages_as_conversation("tip")
    assert db.append_missing("s", full, **facts) is None
    assert db.append_missing("s", compressed, **facts) is None
    new = db.append_missing("s", [*full, {"role": "assistant", "content": "d"}], **facts)
    assert new and new.session_id == "tip"
    assert said(db, "tip")[-1] == ("assistant", "d")


def test_what_was_taken_back_stays_so(db: SessionDB) -> None:
    facts: dict[str, Any] = {"source": "cli", "facts": {}}
    begin(db, "keep")
    db.record_step("s", [{"role": "assistant", "content": "ok"}])
    target = begin(db, "undo me").ids[-1]
    view = db.load_live("s")
    assert view is not None
    db.rewind_to_message("s", target)
    assert db.append_missing("s", view.messages, **facts) is None
    # Typed again, it is a new message.
    again = [*view.messages[:2], {"role": "user", "content": "undo me"}]
    assert len(db.append_missing("s", again, **facts).ids) == 1  # type: ignore[union-attr]
