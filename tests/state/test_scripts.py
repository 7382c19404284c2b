"""What scripts written for Hermes Agent 0.19 rely on; docs/architecture.md lists it."""

import pytest

from hermes_state import SessionDB


@pytest.mark.parametrize("mark", [None, {"_delegate_from": "s"}, {"_branched_from": "s"}])
def test_an_empty_session_with_children_is_kept(db: SessionDB, mark: dict[str, str] | None) -> None:
    db.create_session("s", "cli")
    db.create_session("child", "cli", parent_session_id="s", model_config=mark)
    assert db.delete_session_if_empty("s") is False
    assert db.get_session("s") is not None
    db.delete_session("child")
    assert db.delete_session_if_empty("s") is True


def test_a_loaded_message_has_its_platform_id_as_message_id(db: SessionDB) -> None:
    db.create_session("s", "telegram")
    db.append_message("s", "user", "hi", platform_message_id="tg:7", timestamp=5)
    loaded = db.get_messages_as_conversation("s")
    assert loaded == [{"role": "user", "content": "hi", "timestamp": 5, "message_id": "tg:7"}]
    # It may be stored again as it is.
    db.replace_messages("s", loaded)
    assert db.has_platform_message_id("s", "tg:7")
    db.append_messages("s", [{"role": "user", "content": "again", "message_id": "tg:8"}])
    assert [row["platform_message_id"] for row in db.get_messages("s")] == ["tg:7", "tg:8"]


def test_observed_is_true_or_absent(db: SessionDB) -> None:
    db.create_session("s", "telegram")
    db.append_message("s", "user", "heard", observed=True)
    db.append_message("s", "user", "said")
    heard, said = db.get_messages_as_conversation("s")
    assert heard["observed"] is True
    assert "observed" not in said


def test_what_is_empty_is_absent(db: SessionDB) -> None:
    db.create_session("s", "cli")
    empty = dict.fromkeys(
        ("reasoning", "finish_reason", "tool_name", "tool_call_id", "api_content"), ""
    )
    db.append_message("s", "assistant", "x", timestamp=5, platform_message_id="", **empty)
    assert db.get_messages_as_conversation("s") == [
        {"role": "assistant", "content": "x", "timestamp": 5}
    ]
    db.append_message("s", "assistant", "", reasoning_content="")
    last = db.get_messages_as_conversation("s")[-1]
    assert (last["content"], last["reasoning_content"]) == ("", "")


def test_a_branch_without_a_mark_is_listed(db: SessionDB) -> None:
    db.create_session("parent", "cli")
    db.create_session("helper", "cli", parent_session_id="parent")
    db.end_session("parent", "branched")
    db.create_session("branch", "cli", parent_session_id="parent")
    db.create_session(
        "delegate", "cli", parent_session_id="parent", model_config={"_delegate_from": "parent"}
    )
    assert {row["id"] for row in db.list_sessions_rich()} == {"parent", "branch"}
    assert db.session_count(exclude_children=True) == 2


@pytest.mark.parametrize(
    ("title", "stored"),
    [
        ("half \ud83d a pair", "half \ufffd a pair"),
        ("\udc00", "\ufffd"),
        ("a \ud83d\ude00 pair", "a \U0001f600 pair"),
    ],
)
def test_a_lone_surrogate_in_a_title(db: SessionDB, title: str, stored: str) -> None:
    db.create_session("s", "cli")
    assert db.set_session_title("s", title)
    assert db.get_session_title("s") == stored
    assert db.get_session_by_title(stored) is not None


def test_a_lone_surrogate_in_a_text_comes_back(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", " half \ud83d a pair ", tool_name="n\ud800")
    loaded = db.get_messages_as_conversation("s")[0]
    assert loaded["content"] == " half \ud83d a pair "
    assert loaded["tool_name"] == "n\ufffd"
