"""Session rows: created when there is something to keep, ended once, never overwritten."""

import time
from pathlib import Path
from typing import Any

import pytest

from hermes_state import InvalidMessageError, SessionDB, UnknownSessionError

FACTS: dict[str, str] = {
    "model": "m",
    "system_prompt": "be kind",
    "user_id": "ada",
    "session_key": "agent:main:telegram:dm:42",
    "chat_id": "42",
    "chat_type": "dm",
    "thread_id": "7",
    "display_name": "Ada",
    "cwd": "/w",
    "git_branch": "main",
    "git_repo_root": "/w",
    "profile_name": "work",
    "billing_provider": "p",
    "billing_base_url": "https://p.example",
    "billing_mode": "api",
}


def the(db: SessionDB, session_id: str = "s1") -> dict[str, Any]:
    session = db.get_session(session_id)
    assert session is not None
    return session


def test_an_empty_store_has_no_rows(db: SessionDB) -> None:
    assert db.session_count() == db.message_count() == 0
    assert db.get_session("s1") is None


def test_a_session_keeps_what_it_is_created_with(db: SessionDB) -> None:
    before = time.time()
    facts = {**FACTS, "model_config": {"temperature": 0.5}, "origin_json": '{"chat": 42}'}
    assert db.create_session("s1", "telegram", **facts) == "s1"
    session = the(db)
    assert {name: session[name] for name in FACTS} == FACTS
    assert (session["model_config"], session["origin_json"]) == (
        '{"temperature":0.5}',
        '{"chat": 42}',
    )
    assert (session["source"], session["conversation_id"]) == ("telegram", "s1")
    assert before <= session["started_at"] <= time.time()
    assert session["ended_at"] is None
    assert (session["message_count"], session["archived"], session["rewind_count"]) == (0, 0, 0)


def test_creating_again_fills_gaps_and_overwrites_nothing(db: SessionDB) -> None:
    db.create_session("s1", "telegram", model="first", started_at=100)
    db.create_session("s1", "cli", model="second", cwd="/w", started_at=5)
    session = the(db)
    assert (session["source"], session["model"], session["cwd"]) == ("telegram", "first", "/w")
    assert session["started_at"] == 100.0
    assert db.ensure_session("s1", model="third", user_id="ada") == "s1"
    assert (the(db)["model"], the(db)["user_id"]) == ("first", "ada")
    assert db.session_count() == 1


def test_ensuring_creates_a_row_if_there_is_none(db: SessionDB) -> None:
    db.ensure_session("s1")
    db.ensure_session("s2", "cli", "m", cwd="/w")
    assert (the(db)["source"], the(db)["model"]) == ("unknown", None)
    assert (the(db, "s2")["source"], the(db, "s2")["model"]) == ("cli", "m")


@pytest.mark.parametrize("session_id", ["", None, 5, b"x", ["x"], "half \ud800 a pair"])
def test_an_id_must_be_text(db: SessionDB, session_id: Any) -> None:
    with pytest.raises(InvalidMessageError):
        db.create_session(session_id, "cli")
    assert db.session_count() == 0


@pytest.mark.parametrize("session_id", ["s 1", "../up", "a\x00b", "%", "_", "'; DROP--", "ü" * 500])
def test_any_other_text_is_an_id(db: SessionDB, session_id: str) -> None:
    db.create_session(session_id, "cli")
    db.append_message(session_id, "user", "hello")
    assert the(db, session_id)["message_count"] == 1
    assert db.resolve_session_id(session_id) == session_id
    assert db.delete_session(session_id)


def test_unknown_facts_and_wrong_types_are_refused(db: SessionDB) -> None:
    with pytest.raises(TypeError, match="colour"):
        db.create_session("s1", "cli", colour="red")
    with pytest.raises(InvalidMessageError, match="model must be text"):
        db.create_session("s1", "cli", model=["m"])
    with pytest.raises(InvalidMessageError, match="model_config"):
        db.create_session("s1", "cli", model_config={"a": object()})
    with pytest.raises(ValueError):
        db.create_session("s1", "cli", started_at="yesterday")
    with pytest.raises(UnknownSessionError, match="nobody"):
        db.create_session("s1", "cli", parent_session_id="nobody")
    assert db.session_count() == 0


def test_ids_are_found_by_an_unambiguous_prefix(db: SessionDB) -> None:
    ids = ("20250101_120000_aaaaaa", "20250101_120001_bbbbbb", "x%y", "x_y", "ab", "abc")
    for session_id in ids:
        db.create_session(session_id, "cli")
    assert db.resolve_session_id("20250101_120000") == "20250101_120000_aaaaaa"
    assert db.resolve_session_id("20250101") is None
    assert db.resolve_session_id("ab") == "ab"  # exact, though it is a prefix too
    assert db.resolve_session_id("x%") == "x%y"
    assert db.resolve_session_id("x_") == "x_y"
    assert db.resolve_session_id("") is None
    assert db.resolve_session_id("nobody") is None


def test_the_first_end_stays(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.end_session("s1", "cli_close")
    ended = the(db)["ended_at"]
    db.end_session("s1", "session_reset")
    assert (the(db)["end_reason"], the(db)["ended_at"]) == ("cli_close", ended)
    assert ended >= the(db)["started_at"]


def test_reopening_clears_the_end(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.end_session("s1", "cli_close")
    db.reopen_session("s1")
    assert (the(db)["ended_at"], the(db)["end_reason"]) == (None, None)
    db.end_session("s1", "idle")
    assert the(db)["end_reason"] == "idle"


def test_a_compressed_session_without_a_continuation_can_be_reopened(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.end_session("s1", "compression")
    db.reopen_session("s1")
    assert the(db)["ended_at"] is None


@pytest.mark.parametrize(
    ("reason", "promoted"),
    [
        (None, True),
        ("agent_close", True),
        ("ws_orphan_reap", True),
        ("cli_close", False),
        ("session_reset", False),
        ("compression", False),
    ],
)
def test_only_accidental_ends_are_promoted(
    db: SessionDB, reason: str | None, promoted: bool
) -> None:
    db.create_session("s1", "cli")
    if reason:
        db.end_session("s1", reason)
    ended = the(db)["ended_at"]
    assert db.promote_to_session_reset("s1", "session_switch") is promoted
    assert the(db)["end_reason"] == ("session_switch" if promoted else reason)
    assert the(db)["ended_at"] is not None
    assert ended in (None, the(db)["ended_at"])


def test_promoting_says_what_it_did(db: SessionDB) -> None:
    assert db.promote_to_session_reset("nobody") is False
    db.create_session("s1", "cli")
    assert db.promote_to_session_reset("s1") is True
    assert the(db)["end_reason"] == "session_reset"


def test_archiving_takes_the_whole_conversation(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.append_message("s1", "user", "one")
    db.rotate_session("s1", "s2", [{"role": "user", "content": "sum"}])
    db.branch_session("s2", "b1")
    assert db.set_session_archived("s1", True) is True
    assert [the(db, one)["archived"] for one in ("s1", "s2", "b1")] == [1, 1, 0]
    assert db.set_session_archived("s2", False) is True
    assert [the(db, one)["archived"] for one in ("s1", "s2")] == [0, 0]
    assert db.set_session_archived("nobody", True) is False


def test_the_working_directory_moves_and_git_facts_stay_known(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.update_session_cwd("s1", "/w/a", "main", "/w")
    db.update_session_cwd("s1", "/w/b")
    session = the(db)
    assert (session["cwd"], session["git_branch"], session["git_repo_root"]) == (
        "/w/b",
        "main",
        "/w",
    )


def test_repository_roots_are_filled_in_where_unknown(db: SessionDB) -> None:
    db.create_session("s1", "cli", cwd="/w")
    db.create_session("s2", "cli", cwd="/w", git_repo_root="/known")
    db.create_session("s3", "cli", cwd="/elsewhere")
    db.backfill_repo_roots({"/w": "/root", "/elsewhere": "", "/unused": "/x"})
    roots = [the(db, one)["git_repo_root"] for one in ("s1", "s2", "s3")]
    assert roots == ["/root", "/known", None]


def test_model_and_prompt_can_change(db: SessionDB) -> None:
    db.create_session("s1", "cli", model="a", model_config={"x": 1})
    db.update_session_meta("s1", '{"x": 2}')
    assert (the(db)["model"], the(db)["model_config"]) == ("a", '{"x": 2}')
    db.update_session_meta("s1", '{"x": 3}', "b")
    assert the(db)["model"] == "b"
    db.update_session_model("s1", "c")
    db.update_system_prompt("s1", "be brief")
    assert (the(db)["model"], the(db)["system_prompt"]) == ("c", "be brief")


def test_a_new_model_configuration_keeps_a_branch_a_branch(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.append_message("s1", "user", "one")
    db.branch_session("s1", "b1")
    db.update_session_meta("b1", '{"temperature": 1}', "m")
    assert {row["id"] for row in db.list_sessions_rich()} == {"s1", "b1"}


@pytest.mark.parametrize("config", ["not json", "[1]", "null", ""])
def test_a_branch_does_not_need_a_readable_model_configuration(db: SessionDB, config: str) -> None:
    db.create_session("s1", "cli")
    db.update_session_meta("s1", config)
    db.branch_session("s1", "b1")
    assert the(db, "b1")["model_config"] == '{"_branched_from":"s1"}'
    db.end_session("s1", "compression")
    assert db.get_compression_tip("s1") == "s1"


def test_a_new_billing_route_makes_the_stored_prompt_stale(db: SessionDB) -> None:
    db.create_session("s1", "cli", system_prompt="I am on route a")
    db.update_session_billing_route("s1", provider="p", base_url="u", billing_mode="api")
    db.update_session_billing_route("s1", provider="q", base_url="v")
    session = the(db)
    assert (session["billing_provider"], session["billing_base_url"]) == ("q", "v")
    assert (session["billing_mode"], session["system_prompt"]) == ("api", None)


def test_expiry_is_remembered(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    db.set_expiry_finalized("s1")
    assert the(db)["expiry_finalized"] == 1
    db.set_expiry_finalized("s1", False)
    assert the(db)["expiry_finalized"] == 0


def test_meta_is_a_table_of_texts(db: SessionDB) -> None:
    assert db.get_meta("goal:s1") is None
    db.set_meta("goal:s1", "ship it")
    db.set_meta("goal:s1", "ship it well")
    assert db.get_meta("goal:s1") == "ship it well"


WRITES = {
    "create_session": ("s1", "cli"),
    "ensure_session": ("s1",),
    "append_message": ("s1", "user", "x"),
    "append_messages": ("s1", [{"role": "user", "content": "x"}]),
    "replace_messages": ("s1", [{"role": "user", "content": "x"}]),
    "clear_messages": ("s1",),
    "archive_and_compact": ("s1", [{"role": "user", "content": "x"}]),
    "set_latest_user_api_content": ("s1", "hello", "sent"),
    "end_session": ("s1", "idle"),
    "reopen_session": ("s1",),
    "promote_to_session_reset": ("s1",),
    "set_session_title": ("s1", "Plan"),
    "set_session_archived": ("s1", True),
    "update_session_cwd": ("s1", "/w"),
    "update_session_meta": ("s1", "{}"),
    "update_system_prompt": ("s1", "x"),
    "update_session_model": ("s1", "x"),
    "update_token_counts": ("s1", 1),
    "set_expiry_finalized": ("s1",),
    "request_handoff": ("s1", "telegram"),
    "record_compression_failure_cooldown": ("s1", 1e12),
    "clear_compression_failure_cooldown": ("s1",),
    "set_compression_fallback_streak": ("s1", 1),
    "rotate_session": ("s1", "s2", []),
}


@pytest.mark.parametrize("name", WRITES)
def test_every_write_raises_the_version(db: SessionDB, name: str) -> None:
    db.create_session("s1", "cli")
    db.append_message("s1", "user", "hello")
    before = the(db)["version"]
    getattr(db, name)(*WRITES[name])
    assert the(db)["version"] > before


NOTHING_TO_CHANGE = {
    "end_session": ("nobody", "idle"),
    "reopen_session": ("nobody",),
    "update_session_cwd": ("nobody", "/w"),
    "update_session_meta": ("nobody", "{}"),
    "update_system_prompt": ("nobody", "x"),
    "update_session_model": ("nobody", "x"),
    "update_token_counts": ("nobody", 1),
    "record_auxiliary_usage": ("nobody", "title"),
    "set_expiry_finalized": ("nobody",),
    "clear_messages": ("nobody",),
    "complete_handoff": ("nobody",),
    "fail_handoff": ("nobody", "x"),
    "record_compression_failure_cooldown": ("nobody", 1e12),
    "clear_compression_failure_cooldown": ("nobody",),
    "set_compression_fallback_streak": ("nobody", 1),
    "release_compression_lock": ("nobody", "x"),
}


@pytest.mark.parametrize("name", NOTHING_TO_CHANGE)
def test_no_write_makes_a_row_for_an_unknown_session(db: SessionDB, name: str) -> None:
    assert getattr(db, name)(*NOTHING_TO_CHANGE[name]) is None
    assert db.session_count() == 0


UNKNOWN_IS_AN_ERROR = {
    "append_message": ("nobody", "user", "x"),
    "append_messages": ("nobody", [{"role": "user", "content": "x"}]),
    "replace_messages": ("nobody", []),
    "archive_and_compact": ("nobody", []),
    "rotate_session": ("nobody", "s2", []),
    "branch_session": ("nobody", "b1"),
}


@pytest.mark.parametrize("name", UNKNOWN_IS_AN_ERROR)
def test_nothing_is_kept_for_an_unknown_session(db: SessionDB, name: str) -> None:
    with pytest.raises(UnknownSessionError, match="nobody"):
        getattr(db, name)(*UNKNOWN_IS_AN_ERROR[name])
    assert db.session_count() == db.message_count() == 0


def test_two_stores_on_one_file_see_each_other(db: SessionDB, db_path: Path) -> None:
    with SessionDB(db_path) as other:
        other.create_session("s1", "cli")
        db.append_message("s1", "user", "one")
        other.append_message("s1", "assistant", "two")
        assert [m["content"] for m in db.get_messages("s1")] == ["one", "two"]
        assert the(db)["version"] == the(other)["version"] == 3
