"""A conversation by pages, over compressions; branches from before one; turns as they went."""

from __future__ import annotations

from typing import Any

from hermes_state import SessionDB


def talk(db: SessionDB, number: int) -> str:
    session_id = db.create_session("talk", "tui")
    for n in range(number):
        role = ("user", "assistant")[n % 2]
        db.append_messages(session_id, [{"role": role, "content": f"message {n}"}])
    return session_id


def texts(page: Any) -> list[str]:
    return [message["content"] for message in page["messages"]]


def test_pages_backwards_and_forwards_cover_everything(db: SessionDB) -> None:
    session_id = talk(db, 25)
    page = db.get_message_page(session_id, limit=10)
    assert texts(page) == [f"message {n}" for n in range(15, 25)] and page["older"]
    seen = page["messages"]
    while page["older"]:
        page = db.get_message_page(session_id, before=seen[0]["id"], limit=10)
        seen = [*page["messages"], *seen]
    assert [message["content"] for message in seen] == [f"message {n}" for n in range(25)]
    after = db.get_message_page(session_id, after=seen[20]["id"], limit=10)
    assert texts(after) == [f"message {n}" for n in range(21, 25)] and not after["newer"]
    around = db.get_message_page(session_id, around=seen[12]["id"], limit=4)
    assert "message 12" in texts(around) and around["older"] and around["newer"]


def test_pages_go_over_a_rotation_and_show_each_message_once(db: SessionDB) -> None:
    session_id = talk(db, 6)
    record = {"role": "user", "content": "record", "finish_reason": "compression_record"}
    kept = [{"role": "assistant", "content": "message 5"}]
    db.rotate_session(session_id, "next", [record, *kept])
    db.append_messages("next", [{"role": "user", "content": "after"}])
    page = db.get_message_page("next", limit=100)
    assert texts(page).count("after") == 1
    assert texts(page)[:6] == [f"message {n}" for n in range(6)]
    sent = db.get_message_page("next", limit=100, view="sent")
    assert texts(sent)[0] == "record" and texts(sent)[-1] == "after"


def test_a_branch_from_before_a_compression_in_place(db: SessionDB) -> None:
    session_id = talk(db, 6)
    third = db.get_messages(session_id)[2]["id"]
    record = {"role": "user", "content": "record", "finish_reason": "compression_record"}
    db.archive_and_compact(session_id, [record])
    db.append_messages(session_id, [{"role": "assistant", "content": "after"}])
    db.branch_session(session_id, "branch", until_message_id=third)
    assert [row["content"] for row in db.get_messages("branch")] == [
        "message 0",
        "message 1",
        "message 2",
    ]
    then = db.get_message_page(session_id, around=third, view="sent")
    assert texts(then) == ["message 0", "message 1", "message 2"]


def test_turns_are_put_together_from_what_is_stored(db: SessionDB) -> None:
    session_id = db.create_session("turns", "tui")
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    db.append_messages(
        session_id,
        [
            {"role": "user", "content": "first", "timestamp": 100.0},
            {"role": "assistant", "content": "", "tool_calls": [call], "timestamp": 102.0},
            {"role": "tool", "content": "x", "tool_call_id": "c1", "tool_name": "ls",
             "timestamp": 105.0},
            {"role": "assistant", "content": "done", "timestamp": 106.0},
            {"role": "user", "content": "second", "timestamp": 200.0},
        ],
    )  # fmt: skip
    newest, oldest = db.list_turns(session_id)
    assert (newest["text"], oldest["text"]) == ("second", "first")
    assert [(step["kind"], step["name"], step["seconds"]) for step in oldest["steps"]] == [
        ("tool", "ls", 3.0)
    ]
    assert oldest["ended_at"] == 106.0


def test_activity_for_charts(db: SessionDB) -> None:
    talk(db, 4)
    found = db.activity_by(0.0)
    assert sum(found["messages"].values()) == 4
    assert sum(time["messages"] for time in found["times"]) == 2
    assert found["sources"] == [{"name": "tui", "messages": 4}]
