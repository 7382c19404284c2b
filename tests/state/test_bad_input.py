"""What callers may get wrong: unknown ids, wrong types, strange text. Nothing is half written."""

import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes_state import (
    InvalidMessageError,
    SessionDB,
    StoreError,
    UnknownSessionError,
)

from .memory import memory_folder
from .raw import check_sound
from .surface import UNKNOWN, arguments, dump, method_names, parameters

# What these are asked to write, they may write, whether or not there is such a session.
CREATES = {
    "add_job",
    "waive_limit",
    "accept_message",
    "add_delivery",
    "add_note",
    "approve_pairing",
    "offer_pairing",
    "offer_link",
    "offer_device_code",
    "show_memory",
    "make_device",
    "add_person",
    "offer_person_code",
    "join_by_code",
    "take_link",
    "change_kept_files",
    "begin_blob",
    "add_chunk",
    "append_missing",
    "begin_turn",
    "create_delegation",
    "create_session",
    "ensure_session",
    "grant_patterns",
    "maybe_auto_prune_and_vacuum",
    "register_replica",
    "take_platform",
    "keep_platform_records",
    "add_platform_records",
    "create_bindings",
    "replace_gateway_routing_entries",
    "save_gateway_routing_entry",
    "set_goal",
    "set_meta",
    "set_wall_folders",
    "set_wall_mode",
    "set_webhooks",
    "note_preview",
    "settle_at_startup",
    "try_acquire_compression_lock",
}
NEEDS_SESSION = {
    "append_message",
    "append_messages",
    "archive_and_compact",
    "branch_session",
    "compact_seen",
    "create_approval",
    "record_step",
    "replace_messages",
    "rotate_session",
}


class Strange:
    pass


@pytest.fixture
def db_path(tmp_path: Path) -> Iterator[Path]:
    with memory_folder(tmp_path) as folder:
        yield folder / "home" / "state.db"


@pytest.fixture
def chat(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    db.append_message("s", "user", "hello")
    return db


@pytest.mark.parametrize("name", method_names())
def test_an_unknown_id_is_no_accident(chat: SessionDB, name: str) -> None:
    before = dump(chat)
    try:
        getattr(chat, name)(**arguments(name))
    except (StoreError, ValueError, LookupError) as error:
        assert str(error)
        assert dump(chat) == before
    else:
        assert name not in NEEDS_SESSION
    if name not in CREATES:
        assert dump(chat) == before
    assert chat.append_message("s", "user", "goes on")


@pytest.mark.parametrize("name", sorted(NEEDS_SESSION))
def test_what_needs_a_session_says_that_there_is_none(chat: SessionDB, name: str) -> None:
    with pytest.raises(UnknownSessionError, match=UNKNOWN) as raised:
        getattr(chat, name)(**arguments(name))
    assert raised.value.session_id == UNKNOWN


STRANGE_VALUES = [
    "", "\0", "\ud800", "x" * 200, 5, -1, 2**70, 1.5, math.nan, math.inf, b"x", None, True, ["x"],
    [None], {"a": "b"}, Strange(), [{"role": 5}], [{"role": "user", "content": Strange()}],
]  # fmt: skip
# Several transactions, each of them whole.
SEVERAL_STEPS = {"maybe_auto_prune_and_vacuum", "settle_at_startup"}


@pytest.mark.parametrize("name", [one for one in method_names() if one not in SEVERAL_STEPS])
def test_no_wrong_value_leaves_half_a_change(db_path: Path, name: str) -> None:
    with SessionDB(db_path) as db:
        for parameter in parameters(name):
            for value in STRANGE_VALUES:
                if parameter.name == "sessions_dir":
                    continue  # a folder, looked at when everything is done
                if not db.get_messages(UNKNOWN):
                    db.ensure_session(UNKNOWN, "cli", cwd=UNKNOWN)
                    db.append_message(UNKNOWN, "user", "hello")
                before = dump(db)
                try:
                    getattr(db, name)(**arguments(name, **{parameter.name: value}))
                except (StoreError, ValueError, LookupError, TypeError, AttributeError) as error:
                    assert type(error) is not UnicodeEncodeError
                    assert dump(db) == before, (parameter.name, value)
        for session in db.list_sessions_rich(limit=-1, include_children=True):
            assert session["message_count"] == len(db.get_messages(session["id"]))
            db.export_session_lineage(session["id"])
            db.get_messages_as_conversation(session["id"], include_ancestors=True)
        check_sound(db)


WRONG_FIELDS: list[tuple[str, Any]] = [
    ("content", b"bytes"),
    ("content", [{"type": "text", "text": Strange()}]),
    ("content", {1, 2}),
    ("content", [b"part"]),
    ("role", ""),
    ("role", None),
    ("role", 5),
    ("role", ["user"]),
    ("tool_calls", Strange()),
    ("tool_calls", [{"id": b"1"}]),
    ("tool_name", ["name"]),
    ("tool_name", b"name"),
    ("tool_call_id", {"id": 1}),
    ("token_count", 1.5),
    ("token_count", "7"),
    ("token_count", 2**63),
    ("finish_reason", ["stop"]),
    ("reasoning", b"hm"),
    ("reasoning_content", bytearray(b"hm")),
    ("reasoning_details", [Strange()]),
    ("codex_reasoning_items", {"x": {1}}),
    ("codex_message_items", [b"x"]),
    ("platform_message_id", [1]),
    ("effect_disposition", True),
    ("timestamp", "yesterday"),
    ("timestamp", math.nan),
    ("timestamp", math.inf),
    ("timestamp", 10**400),
    ("timestamp", [1.0]),
    ("timestamp", True),
    ("api_content", memoryview(b"x")),
]


@pytest.mark.parametrize(("field", "value"), WRONG_FIELDS)
def test_a_message_that_cannot_be_kept_is_refused_by_name(
    chat: SessionDB, field: str, value: Any
) -> None:
    before = dump(chat)
    message = {"role": "user", "content": "x", field: value}
    good = {"role": "user", "content": "good"}
    with pytest.raises(InvalidMessageError):
        chat.append_message("s", **message)
    for write in (
        lambda: chat.append_messages("s", [good, message]),
        lambda: chat.replace_messages("s", [good, message]),
        lambda: chat.archive_and_compact("s", [good, message]),
        lambda: chat.rotate_session("s", "s2", [good, message]),
        lambda: chat.rotate_session("s", "s2", [good], unsaved=[message]),
        lambda: chat.record_step("s", [good, message]),
    ):
        with pytest.raises(InvalidMessageError):
            write()
    assert dump(chat) == before


@pytest.mark.parametrize(
    "facts",
    [
        {"user_id": ["ada"]},
        {"model": b"m"},
        {"model_config": Strange()},
        {"origin_json": {1, 2}},
        {"cwd": {"path": "/"}},
        {"started_at": "soon"},
        {"system_prompt": b"be kind"},
        {"thread_id": True},
    ],
)
def test_a_session_that_cannot_be_kept_is_refused_by_name(
    chat: SessionDB, facts: dict[str, Any]
) -> None:
    before = dump(chat)
    for session_id in ("new", "s"):
        with pytest.raises(ValueError):
            chat.create_session(session_id, "cli", **facts)
    assert dump(chat) == before


@pytest.mark.parametrize("session_id", [5, None, "", b"s", ["s"], True, "\ud800"])
def test_an_id_is_text(chat: SessionDB, session_id: Any) -> None:
    before = dump(chat)
    with pytest.raises(InvalidMessageError):
        chat.create_session(session_id, "cli")
    with pytest.raises((UnknownSessionError, InvalidMessageError)):
        chat.append_message(session_id, "user", "x")
    assert dump(chat) == before


@pytest.mark.parametrize("title", [["a"], 5, b"title", {"a": 1}, "x" * 101])
def test_a_title_that_cannot_be_one_is_a_value_error(chat: SessionDB, title: Any) -> None:
    before = dump(chat)
    with pytest.raises(ValueError, match="title"):
        chat.set_session_title("s", title)
    assert dump(chat) == before


@pytest.mark.parametrize("count", ["many", 1.5, [1], b"1", math.nan, 2**70])
@pytest.mark.parametrize("name", ["input_tokens", "reasoning_tokens"])
def test_a_count_is_a_whole_number(chat: SessionDB, name: str, count: Any) -> None:
    before = dump(chat)
    with pytest.raises(StoreError):
        chat.update_token_counts("s", model="m", **{name: count})
    with pytest.raises(StoreError):
        chat.record_auxiliary_usage("s", "title", **{name: count})
    assert dump(chat) == before


# Strange text

TEXTS = ["nul \0 inside", "\0", "lone \ud800 and \udfff", "\0json:[1]", "\0json:", "a\r\nb\x1b[0m"]
LONG_TEXTS = ("content", "reasoning", "reasoning_content", "api_content")
SHORT_TEXTS = (
    "tool_name",
    "tool_call_id",
    "finish_reason",
    "platform_message_id",
    "effect_disposition",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("field", LONG_TEXTS)
def test_any_text_comes_back_as_it_was(chat: SessionDB, field: str, text: str) -> None:
    message_id = chat.append_message("s", "assistant", **{"content": "x", field: text})
    for message in (chat.get_messages("s")[-1], chat.get_messages_as_conversation("s")[-1]):
        assert message[field] == text
    assert chat.get_messages_around("s", message_id)["window"][-1][field] == text
    chat.rotate_session("s", "s2", chat.get_messages_as_conversation("s"))
    assert chat.get_messages_as_conversation("s2")[-1][field] == text


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("field", SHORT_TEXTS)
def test_short_texts_keep_everything_but_lone_surrogates(
    chat: SessionDB, field: str, text: str
) -> None:
    chat.append_message("s", "tool", "x", **{field: text})
    expected = text.replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")
    assert chat.get_messages("s")[-1][field] == expected


@pytest.mark.parametrize("text", TEXTS)
def test_json_holds_any_text(chat: SessionDB, text: str) -> None:
    calls = [{"id": "1", "function": {"name": text, "arguments": text}}]
    chat.append_message(
        "s",
        "assistant",
        [{"type": "text", "text": text}],
        tool_calls=calls,
        reasoning_details=calls,
    )
    message = chat.get_messages("s")[-1]
    assert (message["tool_calls"], message["reasoning_details"]) == (calls, calls)
    assert message["content"] == [{"type": "text", "text": text}]


@pytest.mark.parametrize("text", TEXTS)
def test_session_facts_take_any_text(chat: SessionDB, text: str) -> None:
    chat.create_session(
        "n", text, user_id=text, model=text, system_prompt=text, cwd=text, model_config={"k": text}
    )
    chat.update_system_prompt("n", text)
    chat.update_session_cwd("n", text, git_branch=text)
    chat.set_meta("key", text)
    chat.set_meta(text, "value")
    chat.save_gateway_routing_entry(text, text)
    chat.end_session("n", text)
    chat.record_compression_failure_cooldown("n", 9e9, text)
    chat.request_handoff("n", text)
    chat.set_session_title("n", f"T {text}")
    expected = text.replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")
    session = chat.get_session("n")
    assert session is not None
    for name in ("source", "user_id", "system_prompt", "cwd", "git_branch", "end_reason"):
        assert session[name] == expected, name
    assert chat.get_meta("key") == expected
    assert chat.load_gateway_routing_entries() == {expected: expected}
    assert chat.export_session("n")
    assert {row["id"] for row in chat.list_sessions_rich()} == {"n", "s"}


@pytest.mark.parametrize("session_id", ["a\0b", "\0", "../../x", "a/b", "*", "%", "_", "a'b\"c"])
def test_an_id_may_be_any_text(chat: SessionDB, tmp_path: Path, session_id: str) -> None:
    (tmp_path / "sessions").mkdir()
    kept = [tmp_path / "x.json", tmp_path / "sessions" / "request_dump_s_1.json"]
    for path in kept:
        path.touch()
    chat.create_session(session_id, "cli")
    chat.append_message(session_id, "user", "hi")
    chat.set_session_title(session_id, "Odd")
    assert chat.resolve_session_id(session_id) == session_id
    assert chat.resolve_session_by_title("Odd") == session_id
    rotated = chat.rotate_session(session_id, session_id + "2", [{"role": "user", "content": "x"}])
    assert chat.get_compression_tip(session_id) == rotated.session_id
    assert chat.delete_session(session_id, tmp_path / "sessions")
    assert chat.get_session(session_id) is None
    assert chat.get_session("s") is not None
    assert all(path.exists() for path in kept)


def test_times_may_be_given_in_several_ways(chat: SessionDB) -> None:
    at = datetime(2025, 1, 2, 3, 4, 5)
    for given in (at, at.isoformat(), at.timestamp(), int(at.timestamp())):
        chat.append_message("s", "user", "x", timestamp=given)
        assert chat.get_messages("s")[-1]["timestamp"] == at.timestamp()


# Size


def test_a_message_of_50_megabytes(chat: SessionDB) -> None:
    large = "0123456789" * 5_000_000
    message_id = chat.append_message("s", "user", large)
    assert chat.get_messages("s")[-1]["content"] == large
    chat.append_message("s", "assistant", [{"type": "text", "text": large}])
    assert chat.get_messages("s")[-1]["content"][0]["text"] == large
    assert [row["preview"] for row in chat.list_sessions_rich()] == ["hello"]
    recent = chat.list_recent_user_messages("s")[0]
    assert (recent["id"], len(recent["preview"])) == (message_id, 80)


@pytest.mark.sqlite
def test_more_than_sqlite_can_hold_is_named(chat: SessionDB) -> None:
    before = dump(chat)
    chat._database._writer.limit(apsw.SQLITE_LIMIT_LENGTH, 100_000)
    with pytest.raises(StoreError, match="larger than SQLite can store"):
        chat.append_message("s", "user", "x" * 200_000)
    assert dump(chat) == before
    assert chat.append_message("s", "user", "small")
