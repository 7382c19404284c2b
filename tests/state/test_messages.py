"""Messages: appended in order, counted, and read back with everything that belongs to them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from hermes_state import InvalidMessageError, SessionDB

CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "/"}'}},
    {"id": "c2", "type": "function", "function": {"name": "pwd", "arguments": "{}"}},
]


@pytest.fixture
def chat(db: SessionDB) -> SessionDB:
    db.create_session("s1", "cli")
    return db


def the(db: SessionDB, session_id: str = "s1") -> dict[str, Any]:
    session = db.get_session(session_id)
    assert session is not None
    return session


def said(db: SessionDB, session_id: str = "s1", **kwargs: Any) -> list[str]:
    return [message["content"] for message in db.get_messages(session_id, **kwargs)]


def test_messages_come_back_in_the_order_of_their_ids(chat: SessionDB) -> None:
    ids = [chat.append_message("s1", "user", f"m{n}", timestamp=100 - n) for n in range(5)]
    assert ids == sorted(ids)
    assert said(chat) == [f"m{n}" for n in range(5)]  # not by time: clocks go backwards
    assert [m["id"] for m in chat.get_messages("s1")] == ids


def test_sessions_do_not_mix(chat: SessionDB) -> None:
    chat.create_session("s2", "cli")
    chat.append_message("s1", "user", "a")
    chat.append_message("s2", "user", "b")
    chat.append_message("s1", "assistant", "c")
    assert (said(chat), said(chat, "s2")) == (["a", "c"], ["b"])
    assert (chat.message_count(), chat.message_count("s1")) == (3, 2)
    assert chat.message_count("nobody") == 0
    assert said(chat, "nobody") == []


def test_everything_that_belongs_to_a_message_is_kept(chat: SessionDB) -> None:
    fields: dict[str, Any] = {
        "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": "data:"}],
        "tool_name": "ls",
        "tool_calls": CALLS,
        "tool_call_id": "c0",
        "token_count": 12,
        "finish_reason": "tool_calls",
        "reasoning": "because",
        "reasoning_content": "in detail",
        "reasoning_details": [{"type": "reasoning.text", "text": "x"}],
        "codex_reasoning_items": [{"id": "r1"}],
        "codex_message_items": [{"id": "m1"}],
        "platform_message_id": "tg:17",
        "effect_disposition": "read_only",
        "timestamp": 1234.5,
        "api_content": "look, with context",
    }
    chat.append_message("s1", "assistant", observed=True, **fields)
    row = chat.get_messages("s1")[0]
    assert {name: row[name] for name in fields} == fields
    assert (row["role"], row["observed"], row["active"], row["compacted"]) == ("assistant", 1, 1, 0)
    del fields["token_count"]  # the store's own; a model is not told
    fields["message_id"] = fields.pop("platform_message_id")
    assert chat.get_messages_as_conversation("s1") == [
        {**fields, "role": "assistant", "observed": True}
    ]


def test_a_conversation_holds_only_what_is_set(chat: SessionDB) -> None:
    chat.append_message("s1", "user", "hello", timestamp=5)
    chat.append_message("s1", "assistant", None, tool_calls=CALLS, timestamp=6)
    chat.append_message("s1", "tool", "", tool_call_id="c1", tool_name="ls", timestamp=7)
    assert chat.get_messages_as_conversation("s1") == [
        {"role": "user", "content": "hello", "timestamp": 5.0},
        {"role": "assistant", "content": None, "timestamp": 6.0, "tool_calls": CALLS},
        {"role": "tool", "content": "", "timestamp": 7.0, "tool_call_id": "c1", "tool_name": "ls"},
    ]


@pytest.mark.parametrize(
    ("given_time", "seconds"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000.25, 1_700_000_000.25),
        (0, 0.0),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000.0),
        (
            datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))),
            1_700_000_000.0,
        ),
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14 22:13:20.250+00:00", 1_700_000_000.25),
    ],
)
def test_a_time_is_a_number_a_datetime_or_iso_text(
    chat: SessionDB, given_time: Any, seconds: float
) -> None:
    chat.append_message("s1", "user", "x", timestamp=given_time)
    assert chat.get_messages("s1")[0]["timestamp"] == seconds
    assert the(chat)["last_active"] == seconds


def test_a_time_without_zone_is_local(chat: SessionDB) -> None:
    local = datetime(2023, 11, 14, 22, 13, 20)
    chat.append_message("s1", "user", "x", timestamp=local)
    chat.append_message("s1", "user", "x", timestamp=local.isoformat())
    assert {m["timestamp"] for m in chat.get_messages("s1")} == {local.timestamp()}


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": ""},
        {"role": None},
        {"role": 5},
        {"content": b"bytes"},
        {"timestamp": "yesterday"},
        {"timestamp": True},
        {"timestamp": [1]},
        {"timestamp": float("nan")},
        {"timestamp": float("inf")},
        {"timestamp": 10**400},
        {"timestamp": datetime.min},
        {"token_count": "12"},
        {"token_count": 1.5},
        {"token_count": 2**70},
        {"tool_calls": ...},
        {"tool_call_id": ["c1"]},
        {"platform_message_id": b"1"},
        {"reasoning": ...},
    ],
    ids=str,
)
def test_what_cannot_be_kept_is_refused_as_a_whole(chat: SessionDB, wrong: dict[str, Any]) -> None:
    before = the(chat)
    message = {"role": "user", "content": "x", **wrong}
    with pytest.raises(InvalidMessageError):
        chat.append_message("s1", **message)
    with pytest.raises(InvalidMessageError):
        chat.append_messages("s1", [{"role": "user", "content": "fine"}, message])
    assert the(chat) == before
    assert chat.message_count() == 0


def test_counters_follow_the_messages(chat: SessionDB) -> None:
    chat.append_message("s1", "user", "x", timestamp=10)
    chat.append_message("s1", "assistant", "", tool_calls=CALLS, timestamp=30)
    chat.append_message("s1", "tool", "ok", tool_call_id="c1", timestamp=20)
    chat.append_message("s1", "assistant", "", tool_calls='[{"id": "c3"}]', timestamp=25)
    session = the(chat)
    assert (session["message_count"], session["tool_call_count"]) == (4, 3)
    assert session["last_active"] == 30  # the newest time, not the last one written
    assert chat.get_messages("s1")[3]["tool_calls"] == [{"id": "c3"}]


def test_several_messages_are_one_change(chat: SessionDB) -> None:
    before = the(chat)["version"]
    ids = chat.append_messages(
        "s1",
        [
            {"role": "user", "content": "x", "timestamp": 1, "unknown": "ignored"},
            {"role": "assistant", "tool_calls": CALLS, "timestamp": 3},
            {"role": "tool", "name": "ls", "tool_call_id": "c1", "content": "ok", "timestamp": 2},
        ],
    )
    assert ids == [m["id"] for m in chat.get_messages("s1")]
    session = the(chat)
    assert (session["message_count"], session["tool_call_count"]) == (3, 2)
    assert (session["last_active"], session["version"]) == (3, before + 1)
    assert chat.get_messages("s1")[2]["tool_name"] == "ls"
    assert chat.append_messages("s1", []) == []
    assert the(chat)["version"] == before + 1


@pytest.mark.parametrize("wrong", [{"content": "no role"}, "text", None, ["role", "user"]], ids=str)
def test_one_wrong_message_refuses_them_all(chat: SessionDB, wrong: Any) -> None:
    with pytest.raises(InvalidMessageError):
        chat.append_messages("s1", [{"role": "user", "content": "fine"}, wrong])
    assert chat.message_count() == the(chat)["message_count"] == 0


def test_rows_of_one_session_can_be_appended_to_another(chat: SessionDB) -> None:
    chat.append_message("s1", "user", "one")
    chat.branch_session("s1", "b1")
    chat.create_session("s2", "cli")
    chat.append_messages("s2", chat.get_messages("b1"))
    assert said(chat, "s2") == ["one"]
    # A message in its own right, whatever the row it was taken from repeats.
    assert chat.get_messages("s2")[0]["origin_id"] is None


def test_pages_of_messages(chat: SessionDB) -> None:
    for number in range(5):
        chat.append_message("s1", "user", str(number))
    chat.rewind_to_message("s1", chat.get_messages("s1")[3]["id"])
    assert said(chat, limit=2) == ["0", "1"]
    assert said(chat, limit=2, offset=2) == ["2"]
    assert said(chat, include_inactive=True, limit=2, offset=3) == ["3", "4"]
    assert said(chat, limit=0) == []
    assert said(chat, offset=9) == []


def test_platform_ids_are_known_again(chat: SessionDB) -> None:
    chat.create_session("s2", "cli")
    chat.append_message("s1", "user", "x", platform_message_id="17")
    chat.append_message("s1", "user", "y", platform_message_id=18)  # type: ignore[arg-type]
    assert chat.has_platform_message_id("s1", "17")
    assert chat.has_platform_message_id("s1", "18")
    assert not chat.has_platform_message_id("s1", "1")
    assert not chat.has_platform_message_id("s2", "17")
    chat.rewind_to_message("s1", chat.get_messages("s1")[0]["id"])
    assert chat.has_platform_message_id("s1", "17")  # taken back, but not new


def test_what_was_sent_is_kept_with_the_newest_user_message(chat: SessionDB) -> None:
    chat.append_message("s1", "user", "one")
    chat.append_message("s1", "assistant", "two")
    chat.append_message("s1", "user", "three")
    assert chat.set_latest_user_api_content("s1", "three", "three, with memory") == 1
    assert chat.set_latest_user_api_content("s1", "one", "too late") == 0
    assert chat.set_latest_user_api_content("nobody", "three", "x") == 0
    assert [m["api_content"] for m in chat.get_messages("s1")] == [None, None, "three, with memory"]
    assert said(chat) == ["one", "two", "three"]
    parts = [{"type": "text", "text": "four"}]
    chat.append_message("s1", "user", parts)
    assert chat.set_latest_user_api_content("s1", parts, "sent") == 1


@pytest.fixture
def long_chat(chat: SessionDB) -> SessionDB:
    """Twenty messages; each third one is a tool result, the fifth has no text."""
    for number in range(20):
        role = ("user", "assistant", "tool")[number % 3]
        chat.append_message("s1", role, None if number == 4 else f"m{number}")
    return chat


def numbers(messages: list[dict[str, Any]]) -> list[int]:
    return [message["id"] - 1 for message in messages]


@pytest.mark.parametrize(
    ("anchor", "window", "expected"),
    [
        (10, 2, [8, 9, 10, 11, 12]),
        (0, 2, [0, 1, 2]),
        (19, 3, [16, 17, 18, 19]),
        (10, 0, [10]),
        (10, 100, list(range(20))),
    ],
)
def test_the_surroundings_of_a_message(
    long_chat: SessionDB, anchor: int, window: int, expected: list[int]
) -> None:
    view = long_chat.get_messages_around("s1", anchor + 1, window)
    assert numbers(view["window"]) == expected
    assert view["messages_before"] == expected.index(anchor)
    assert view["messages_after"] == len(expected) - expected.index(anchor) - 1


def test_there_is_nothing_around_an_unknown_message(long_chat: SessionDB) -> None:
    nothing = {"window": [], "messages_before": 0, "messages_after": 0}
    long_chat.create_session("s2", "cli")
    assert long_chat.get_messages_around("s1", 99) == nothing
    assert long_chat.get_messages_around("s2", 5) == nothing
    view = long_chat.get_anchored_view("s1", 99)
    assert view == {**nothing, "bookend_start": [], "bookend_end": []}


def test_the_surroundings_show_what_was_compacted_and_not_what_was_taken_back(
    long_chat: SessionDB,
) -> None:
    long_chat.rewind_to_message("s1", 19)
    long_chat.archive_and_compact("s1", [{"role": "user", "content": "sum"}])
    view = long_chat.get_messages_around("s1", 17, 5)
    assert [m["content"] for m in view["window"]][-3:] == ["m16", "m17", "sum"]
    assert long_chat.get_messages_around("s1", 19)["window"] == []


def test_an_anchored_view_shows_how_the_session_begins_and_ends(long_chat: SessionDB) -> None:
    view = long_chat.get_anchored_view("s1", 10 + 1, window=2, bookend=2)
    assert numbers(view["window"]) == [9, 10, 12]  # without tools
    assert (view["messages_before"], view["messages_after"]) == (2, 2)
    assert numbers(view["bookend_start"]) == [0, 1]
    assert numbers(view["bookend_end"]) == [18, 19]


def test_an_anchored_view_always_shows_its_anchor(long_chat: SessionDB) -> None:
    view = long_chat.get_anchored_view("s1", 11 + 1, window=1, bookend=0)
    assert numbers(view["window"]) == [10, 11, 12]
    assert view["window"][1]["role"] == "tool"
    assert view["bookend_start"] == view["bookend_end"] == []
    everything = long_chat.get_anchored_view("s1", 8, window=1, bookend=30, keep_roles=None)
    shown = (everything[part] for part in ("bookend_start", "window", "bookend_end"))
    assert [number for part in shown for number in numbers(part)] == list(range(20))


def test_bookends_have_text_and_do_not_overlap_the_window(long_chat: SessionDB) -> None:
    view = long_chat.get_anchored_view("s1", 7, window=2, bookend=9)
    assert numbers(view["bookend_start"]) == [0, 1, 3]  # 4 is empty and in the window
    assert numbers(view["window"]) == [4, 6, 7]
    start = long_chat.get_anchored_view("s1", 1, window=3)
    assert start["bookend_start"] == []
    assert numbers(start["bookend_end"]) == [16, 18, 19]


def test_recent_user_messages_are_listed_newest_first(chat: SessionDB) -> None:
    chat.append_message("s1", "user", "first\n\n  of  all")
    chat.append_message("s1", "assistant", "answer")
    chat.append_message("s1", "user", [{"type": "text", "text": "see"}, {"type": "image_url"}])
    last = chat.append_message("s1", "user", "x" * 500, timestamp=7)
    recent = chat.list_recent_user_messages("s1")
    assert [message["preview"] for message in recent] == ["x" * 80, "see [image]", "first of all"]
    assert recent[0] == {"id": last, "timestamp": 7.0, "preview": "x" * 80}
    assert len(chat.list_recent_user_messages("s1", limit=1)) == 1
    chat.rewind_to_message("s1", last)
    assert len(chat.list_recent_user_messages("s1")) == 2
    assert len(chat.list_recent_user_messages("s1", include_inactive=True)) == 3
    assert chat.list_recent_user_messages("nobody") == []


def test_the_last_question_of_a_session(chat: SessionDB) -> None:
    assert chat.get_last_question("s1") == chat.get_last_question("unknown") == ("", None)
    chat.append_message("s1", "user", "first", platform_message_id="m1")
    chat.append_message("s1", "assistant", "an answer", platform_message_id="m2")
    assert chat.get_last_question("s1") == ("first", "m1")
    chat.append_message("s1", "user", [{"type": "text", "text": "second"}])
    assert chat.get_last_question("s1") == ("second", None)
    chat.rewind_to_message("s1", chat.get_messages("s1")[-1]["id"])
    assert chat.get_last_question("s1") == ("first", "m1"), "what was taken back does not count"
