"""Taking back, restoring, replacing and clearing: what is shown changes, the record as asked."""

from typing import Any

import pytest

from hermes_state import InvalidMessageError, SessionDB

CALLS = [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]


@pytest.fixture
def chat(db: SessionDB) -> SessionDB:
    """Messages 1 to 6: two turns, the second with a tool call."""
    db.create_session("s1", "cli")
    db.append_message("s1", "user", "one", timestamp=1)
    db.append_message("s1", "assistant", "two", timestamp=2)
    db.append_message("s1", "user", "three", timestamp=3)
    db.append_message("s1", "assistant", "four", tool_calls=CALLS, timestamp=4)
    db.append_message("s1", "tool", "five", tool_call_id="c1", timestamp=5)
    db.append_message("s1", "assistant", "six", timestamp=6)
    return db


def the(db: SessionDB, session_id: str = "s1") -> dict[str, Any]:
    session = db.get_session(session_id)
    assert session is not None
    return session


def said(db: SessionDB, session_id: str = "s1", **kwargs: Any) -> list[str]:
    return [m["content"] for m in db.get_messages_as_conversation(session_id, **kwargs)]


def counted(db: SessionDB, session_id: str = "s1") -> tuple[int, int, float]:
    session = the(db, session_id)
    return session["message_count"], session["tool_call_count"], session["last_active"]


def test_taking_back_hides_a_message_and_what_followed(chat: SessionDB) -> None:
    assert counted(chat) == (6, 1, 6)
    outcome = chat.rewind_to_message("s1", 3)
    assert (outcome["rewound_count"], outcome["new_head_id"]) == (4, 2)
    assert (outcome["target_message"]["id"], outcome["target_message"]["content"]) == (3, "three")
    assert said(chat) == ["one", "two"]
    assert said(chat, include_inactive=True) == ["one", "two", "three", "four", "five", "six"]
    assert said(chat, include_ancestors=True) == ["one", "two"]
    assert counted(chat) == (2, 0, 2)
    assert the(chat)["rewind_count"] == 1
    assert chat.message_count("s1") == 6


def test_taking_back_everything_leaves_no_head(chat: SessionDB) -> None:
    assert chat.rewind_to_message("s1", 1)["new_head_id"] is None
    assert said(chat) == []
    assert the(chat)["message_count"] == 0


def test_what_was_taken_back_can_be_restored(chat: SessionDB) -> None:
    before = counted(chat)
    chat.rewind_to_message("s1", 3)
    assert chat.restore_rewound("s1", 3) == 4
    assert said(chat) == ["one", "two", "three", "four", "five", "six"]
    assert counted(chat) == before
    assert chat.restore_rewound("s1", 3) == 0
    assert the(chat)["rewind_count"] == 1


def test_a_part_of_what_was_taken_back_can_be_restored(chat: SessionDB) -> None:
    chat.rewind_to_message("s1", 1)
    assert chat.restore_rewound("s1", 3) == 4
    assert said(chat) == ["three", "four", "five", "six"]


def test_a_new_course_leaves_the_old_one_taken_back(chat: SessionDB) -> None:
    chat.rewind_to_message("s1", 3)
    chat.append_message("s1", "user", "three again")
    assert said(chat) == ["one", "two", "three again"]
    assert chat.rewind_to_message("s1", 3)["rewound_count"] == 1  # what stands there now
    assert said(chat) == ["one", "two"]


@pytest.mark.parametrize(
    ("target", "reason"), [(2, "from the assistant"), (5, "from the tool"), (99, "no message 99")]
)
def test_only_a_user_message_of_the_session_can_be_gone_back_to(
    chat: SessionDB, target: int, reason: str
) -> None:
    before = the(chat)
    with pytest.raises(ValueError, match=reason):
        chat.rewind_to_message("s1", target)
    assert the(chat) == before
    chat.create_session("s2", "cli")
    with pytest.raises(ValueError, match="Session s2 has no message 1"):
        chat.rewind_to_message("s2", 1)


def test_a_compacted_message_cannot_be_gone_back_to(chat: SessionDB) -> None:
    """What stood before it is not in the live view any more: nothing would be left."""
    chat.archive_and_compact("s1", [{"role": "user", "content": "sum"}])
    with pytest.raises(ValueError, match="compacted"):
        chat.rewind_to_message("s1", 3)
    assert said(chat) == ["sum"]


def test_restoring_leaves_the_archive_alone(chat: SessionDB) -> None:
    chat.rewind_to_message("s1", 3)
    chat.archive_and_compact("s1", [{"role": "user", "content": "sum"}])
    assert chat.restore_rewound("s1", 1) == 4
    assert said(chat) == ["three", "four", "five", "six", "sum"]
    assert [m["content"] for m in chat.get_messages("s1", True) if m["compacted"]] == ["one", "two"]


def test_archived_rows_are_known(chat: SessionDB) -> None:
    assert not chat.has_archived_messages("s1")
    chat.rewind_to_message("s1", 3)
    assert chat.has_archived_messages("s1")
    chat.restore_rewound("s1", 3)
    assert not chat.has_archived_messages("s1")
    chat.archive_and_compact("s1", [])
    assert chat.has_archived_messages("s1")
    assert not chat.has_archived_messages("nobody")


def test_replacing_removes_what_was_there(chat: SessionDB) -> None:
    chat.rewind_to_message("s1", 3)
    chat.replace_messages(
        "s1",
        [
            {"role": "user", "content": "new", "timestamp": 10},
            {"role": "assistant", "content": "", "tool_calls": CALLS * 2, "timestamp": 11},
        ],
    )
    assert said(chat, include_inactive=True) == ["new", ""]
    assert counted(chat) == (2, 2, 11)


def test_replacing_the_live_view_keeps_the_rest(chat: SessionDB) -> None:
    chat.archive_and_compact("s1", [{"role": "user", "content": "sum"}])
    chat.append_message("s1", "user", "seven")
    chat.rewind_to_message("s1", 8)
    chat.replace_messages("s1", [{"role": "user", "content": "new sum"}], active_only=True)
    assert said(chat) == ["new sum"]
    assert said(chat, include_inactive=True) == [
        "one", "two", "three", "four", "five", "six", "seven", "new sum",
    ]  # fmt: skip
    assert the(chat)["message_count"] == 1


def test_replacing_with_its_own_rows_changes_nothing_that_is_read(chat: SessionDB) -> None:
    chat.archive_and_compact("s1", chat.get_messages_as_conversation("s1")[-2:])
    live = chat.get_messages_as_conversation("s1")
    chat.replace_messages("s1", chat.get_messages("s1"))
    assert chat.get_messages_as_conversation("s1") == live
    # The originals are gone, so these are the originals now.
    assert [m["origin_id"] for m in chat.get_messages("s1")] == [None, None]


@pytest.mark.parametrize("wrong", [[{"content": "no role"}], ["text"], [{"role": "user"}, None]])
def test_a_replacement_that_fails_leaves_everything(chat: SessionDB, wrong: list[Any]) -> None:
    before = the(chat), chat.get_messages("s1")
    with pytest.raises(InvalidMessageError):
        chat.replace_messages("s1", wrong)
    assert (the(chat), chat.get_messages("s1")) == before


def test_clearing_removes_all_rows_of_one_session(chat: SessionDB) -> None:
    chat.create_session("s2", "cli")
    chat.append_message("s2", "user", "stays")
    chat.archive_and_compact("s1", [{"role": "user", "content": "sum"}])
    chat.clear_messages("s1")
    assert chat.message_count("s1") == 0
    assert (the(chat)["message_count"], the(chat)["tool_call_count"]) == (0, 0)
    assert said(chat, "s2") == ["stays"]


def summary(of: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"summary of {of}"}, *more]


@pytest.mark.parametrize("remove", ["clear", "delete"])
def test_what_loses_its_original_is_still_shown_once(chat: SessionDB, remove: str) -> None:
    """The tail "six" is carried from s1 to s2 to s3 and into a branch; then s1 goes."""
    tail = chat.get_messages_as_conversation("s1")[-1:]
    chat.rotate_session("s1", "s2", summary("s1", *tail))
    chat.branch_session("s2", "b1")
    chat.rotate_session("s2", "s3", summary("s2", *tail))
    if remove == "clear":
        chat.clear_messages("s1")
    else:
        chat.delete_session("s1")
    assert said(chat, "s3", include_ancestors=True) == ["summary of s1", "six", "summary of s2"]
    assert said(chat, "s3") == ["summary of s2", "six"]
    assert said(chat, "b1") == said(chat, "b1", include_ancestors=True) == ["summary of s1", "six"]


def test_a_copy_of_something_taken_back_is_shown(chat: SessionDB) -> None:
    chat.branch_session("s1", "b1")
    tail = chat.get_messages_as_conversation("s1")[-1:]
    chat.rotate_session("s1", "s2", summary("s1", *tail))
    chat.rewind_to_message("s1", 3)
    assert said(chat, "s2", include_ancestors=True) == ["one", "two", "summary of s1", "six"]
    assert said(chat, "b1", include_ancestors=True)[-1] == "six"
    chat.restore_rewound("s1", 3)
    assert said(chat, "s2", include_ancestors=True).count("six") == 1


def test_a_compressed_branch_shows_each_message_once(chat: SessionDB) -> None:
    chat.branch_session("s1", "b1")
    tail = chat.get_messages_as_conversation("b1")[-1:]
    chat.rotate_session("b1", "b2", summary("b1", *tail))
    chat.archive_and_compact("b2", summary("b2", *tail))
    everything = ["one", "two", "three", "four", "five", "six", "summary of b1", "summary of b2"]
    assert said(chat, "b2", include_ancestors=True) == everything
    chat.delete_session("s1")
    assert said(chat, "b2", include_ancestors=True) == everything
    assert said(chat, "b2") == ["summary of b2", "six"]


def test_the_first_telling_is_one_that_can_be_seen(chat: SessionDB) -> None:
    """Search reads first tellings: hiding or deleting one must not hide its repetitions."""

    def first_tellings() -> set[tuple[str, str]]:
        rows = [row for one in ("s1", "b1", "b2") for row in chat.get_messages(one, True)]
        seen = {row["id"]: row["active"] or row["compacted"] for row in rows}
        assert all(seen[row["origin_id"]] for row in rows if row["origin_id"] and seen[row["id"]])
        return {(row["session_id"], row["content"]) for row in rows if not row["origin_id"]}

    chat.branch_session("s1", "b1", until_message_id=3)
    chat.branch_session("b1", "b2")
    assert ("s1", "three") in first_tellings()
    chat.rewind_to_message("s1", 3)
    assert ("b1", "three") in first_tellings()
    chat.restore_rewound("s1", 3)
    assert ("s1", "three") in first_tellings()
    chat.rewind_to_message("b1", chat.get_messages("b1")[-1]["id"])
    assert ("s1", "three") in first_tellings()
    chat.rewind_to_message("s1", 3)
    assert ("b2", "three") in first_tellings()
    chat.rewind_to_message("b2", chat.get_messages("b2")[-1]["id"])
    chat.restore_rewound("b1", 1)
    assert ("b1", "three") in first_tellings()
    chat.clear_messages("b1")
    assert {content for _, content in first_tellings()} >= {"one", "two", "three"}
