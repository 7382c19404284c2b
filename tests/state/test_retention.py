"""What may be deleted, archived or settled, and what is never touched."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB, StoreBusyError

from .raw import check_sound, query

DAY = 86_400.0


def make(db: SessionDB, session_id: str, days_ago: float = 100, **facts: Any) -> None:
    """A session of some days ago with one message, ended unless `end=None`."""
    at = time.time() - days_ago * DAY
    end = facts.pop("end", "cli_close")
    text = facts.pop("text", "hello")
    db.create_session(session_id, facts.pop("source", "cli"), started_at=at, **facts)
    if text:
        db.append_message(session_id, "user", text, timestamp=at + 1)
    if end:
        db.end_session(session_id, end)
        set_columns(db, session_id, ended_at=at + 2)


def set_columns(db: SessionDB, session_id: str, **columns: Any) -> None:
    assignments = ", ".join(f"{name} = ?" for name in columns)
    db._execute_write(
        lambda conn: conn.execute(
            f"UPDATE sessions SET {assignments} WHERE id = ?", (*columns.values(), session_id)
        )
    )


def left(db: SessionDB) -> set[str]:
    return {row["id"] for row in db.search_sessions(limit=1000)}


def candidates(db: SessionDB, *args: Any, **filters: Any) -> list[str]:
    return [row["id"] for row in db.list_prune_candidates(*args, **filters)]


def rotate(db: SessionDB, old: str, new: str) -> None:
    db.rotate_session(old, new, [{"role": "user", "content": f"summary of {old}"}])


def test_deleting_takes_messages_and_all_that_hangs_on_the_session(db: SessionDB) -> None:
    make(db, "a")
    make(db, "b")
    db.update_token_counts("a", 5, model="m")
    db.set_meta("goal:a", "x")
    db.set_meta("goal:ab", "y")
    db.try_acquire_compression_lock("a", "me")
    assert db.delete_session("a") is True
    assert db.delete_session("a") is False
    assert db.delete_session("nobody") is False
    assert (left(db), db.message_count()) == ({"b"}, 1)
    assert (db.get_meta("goal:a"), db.get_meta("goal:ab")) == (None, "y")
    for table in ("session_model_usage", "compression_locks"):
        assert query(db, f"SELECT COUNT(*) FROM {table}") == [(0,)]
    check_sound(db)


def test_delegates_go_and_branches_stay(db: SessionDB) -> None:
    make(db, "a")
    db.create_session("d1", "tool", parent_session_id="a", model_config={"_delegate_from": "a"})
    db.create_session("d2", "tool", parent_session_id="d1", model_config={"_delegate_from": "d1"})
    db.append_message("d2", "user", "deep work")
    db.branch_session("a", "b")
    db.create_session("helper", "cli", parent_session_id="a")
    db.delete_session("a")
    assert left(db) == {"b", "helper"}
    assert [m["content"] for m in db.get_messages("b")] == ["hello"]
    branch = db.get_session("b")
    assert branch and branch["parent_session_id"] is None


def test_several_are_deleted_as_one_change(db: SessionDB) -> None:
    for one in "abc":
        make(db, one)
    db.create_session("d", "tool", parent_session_id="a", model_config={"_delegate_from": "a"})
    assert db.delete_sessions(["a", "b", "a", "nobody"]) == 2  # the delegate was not asked for
    assert left(db) == {"c"}
    assert db.delete_sessions([]) == 0


def test_deleting_any_part_keeps_the_rest_one_conversation(db: SessionDB) -> None:
    for gone in ("s1", "s2", "s3", "s4"):
        names = ["s1", "s2", "s3", "s4"]
        make(db, "s1", end=None)
        for old, new in itertools.pairwise(names):
            rotate(db, old, new)
        db.delete_session(gone)
        names.remove(gone)
        for one in names:
            assert db.get_compression_lineage(one) == names
            assert db.get_compression_tip(one) == names[-1]
        assert [row["id"] for row in db.list_sessions_rich()] == [names[-1]]
        assert db.delete_conversation(names[0]) == 3
        assert left(db) == set()


@pytest.mark.parametrize(
    ("text", "title", "gone"),
    [("", None, True), ("hello", None, False), ("", "Plan", False), ("hello", "Plan", False)],
)
def test_only_an_empty_session_is_deleted_if_empty(
    db: SessionDB, text: str, title: str | None, gone: bool
) -> None:
    make(db, "a", text=text, end=None)
    if title:
        db.set_session_title("a", title)
    assert db.delete_session_if_empty("a") is gone
    assert (db.get_session("a") is None) is gone
    assert db.delete_session_if_empty("nobody") is False


def test_a_session_whose_messages_were_taken_back_is_not_empty(db: SessionDB) -> None:
    make(db, "a")
    db.rewind_to_message("a", 1)
    assert db.count_empty_sessions() == 0
    assert db.delete_session_if_empty("a") is False


def test_empty_sessions_are_counted_and_deleted(db: SessionDB) -> None:
    make(db, "empty", text="")
    make(db, "open", text="", end=None)
    make(db, "archived", text="")
    make(db, "full")
    db.set_session_archived("archived", True)
    assert db.count_empty_sessions() == 1
    assert db.delete_empty_sessions() == 1
    assert left(db) == {"open", "archived", "full"}
    assert db.count_empty_sessions() == db.delete_empty_sessions() == 0


def test_ghosts_are_old_terminal_sessions_without_anything(db: SessionDB) -> None:
    make(db, "ghost", 2, source="tui", text="")
    make(db, "open ghost", 2, source="tui", text="", end=None)
    make(db, "young", 0.5, source="tui", text="", end=None)
    make(db, "spoken", 2, source="tui")
    make(db, "elsewhere", 2, source="cli", text="")
    make(db, "titled", 2, source="tui", text="")
    db.set_session_title("titled", "Plan")
    make(db, "parent", 2, source="tui", text="")
    db.create_session("child", "tui", parent_session_id="parent")
    assert db.prune_empty_ghost_sessions() == 2
    assert left(db) == {"young", "spoken", "elsewhere", "titled", "parent", "child"}


def test_orphaned_continuations_are_ended_not_deleted(db: SessionDB) -> None:
    for name, days in (("old", 8), ("young", 6), ("used", 8), ("empty", 8), ("ended", 8)):
        make(db, f"{name} parent", 20, end=None)
        rotate(db, f"{name} parent", name)
        set_columns(db, name, started_at=time.time() - days * DAY)
    db.update_token_counts("used", 1, api_call_count=1)
    db.clear_messages("empty")
    db.end_session("ended", "idle")
    make(db, "no parent", 20, end=None)
    make(db, "reset parent", 20, end="session_reset")
    db.create_session("child", "cli", parent_session_id="reset parent", started_at=5.0)
    db.append_message("child", "user", "x")
    assert db.finalize_orphaned_compression_sessions() == 1
    assert db.finalize_orphaned_compression_sessions() == 0
    reasons = {row["id"]: row["end_reason"] for row in db.search_sessions(limit=99)}
    assert reasons["old"] == "orphaned_compression"
    assert [reasons[one] for one in ("young", "used", "empty", "no parent", "child")] == [None] * 5
    assert reasons["ended"] == "idle"
    assert db.message_count("old") == 1


def test_starting_up_settles_once_in_the_life_of_a_store(db: SessionDB, db_path: Path) -> None:
    make(db, "ghost", 2, source="tui", text="")
    report = db.settle_at_startup()
    assert report == {"ghost_session_prune_v1": 1, "orphaned_compression_finalize_v1": 0}
    make(db, "new ghost", 2, source="tui", text="")
    assert db.settle_at_startup() == {}
    with SessionDB(db_path) as other:
        assert other.settle_at_startup() == {}
    assert left(db) == {"new ghost"}


def test_only_what_has_not_been_used_for_long_is_pruned(db: SessionDB) -> None:
    make(db, "old", 91)
    make(db, "young", 89)
    make(db, "open", 200, end=None)
    make(db, "used since", 200)
    db.append_message("used since", "user", "again")
    make(db, "ended lately", 200, end=None)
    db.end_session("ended lately", "idle")
    assert candidates(db, 90) == ["old"]
    assert db.prune_sessions() == 1
    assert left(db) == {"young", "open", "used since", "ended lately"}
    assert db.prune_sessions(older_than_days=None) == 3
    assert left(db) == {"open"}


def test_no_part_of_an_open_or_recent_conversation_is_pruned(db: SessionDB) -> None:
    for name in ("open", "recent", "over"):
        make(db, f"{name} 1", 200, end=None)
        rotate(db, f"{name} 1", f"{name} 2")
        set_columns(db, f"{name} 1", ended_at=time.time() - 190 * DAY)
    db.end_session("recent 2", "idle")
    db.end_session("over 2", "idle")
    long_ago = time.time() - 150 * DAY
    set_columns(db, "over 2", started_at=long_ago, ended_at=long_ago, last_active=long_ago)
    assert candidates(db, 90) == ["over 1", "over 2"]
    assert set(candidates(db, None)) == {"over 1", "recent 1", "over 2", "recent 2"}
    assert db.prune_sessions(older_than_days=90) == 2
    assert left(db) == {"open 1", "open 2", "recent 1", "recent 2"}


@pytest.fixture
def many(db: SessionDB) -> SessionDB:
    """Two ended sessions that differ in everything one can filter by."""
    make(
        db, "small", 100, source="cli", model="gpt-small", user_id="ada", chat_id="1",
        chat_type="dm", cwd="/w/app", git_branch="main", billing_provider="OpenAI",
    )  # fmt: skip
    make(
        db, "large", 200, source="telegram", model="claude_large", user_id="bob", chat_id="2",
        chat_type="group", cwd="/w/application", git_branch="fix/100%", billing_provider="other",
        end="session_reset",
    )  # fmt: skip
    db.set_session_title("small", "Small talk")
    db.set_session_title("large", "Großes 100%")
    db.append_message("large", "assistant", "", tool_calls=[{"id": "a"}, {"id": "b"}], timestamp=1)
    db.update_token_counts("small", 5, 5, estimated_cost_usd=9.0, actual_cost_usd=0.5)
    db.update_token_counts("large", 100, 100, estimated_cost_usd=2.0)
    return db


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["large", "small"]),
        ({"source": "cli"}, ["small"]),
        ({"source": ""}, ["large", "small"]),
        ({"older_than_days": 150}, ["large"]),
        ({"older_than_days": 0}, ["large", "small"]),
        ({"min_messages": 2}, ["large"]),
        ({"max_messages": 1}, ["small"]),
        ({"min_tokens": 11}, ["large"]),
        ({"max_tokens": 10}, ["small"]),
        ({"min_cost": 1}, ["large"]),
        ({"max_cost": 0.5}, ["small"]),  # the actual cost counts where it is known
        ({"min_tool_calls": 1}, ["large"]),
        ({"max_tool_calls": 0}, ["small"]),
        ({"started_before": time.time() - 150 * DAY}, ["large"]),
        ({"started_before": time.time(), "older_than_days": 500}, ["large", "small"]),
        ({"started_after": time.time() - 150 * DAY}, ["small"]),
        ({"end_reason": "session_reset"}, ["large"]),
        ({"provider": "openai"}, ["small"]),
        ({"user_id": "ada"}, ["small"]),
        ({"chat_id": "2"}, ["large"]),
        ({"chat_id": 2}, ["large"]),
        ({"chat_type": "dm"}, ["small"]),
        ({"title_like": "TALK"}, ["small"]),
        ({"title_like": "100%"}, ["large"]),
        ({"title_like": "%"}, ["large"]),
        ({"model_like": "e_l"}, ["large"]),
        ({"branch_like": "fix"}, ["large"]),
        ({"cwd_prefix": "/w/app"}, ["small"]),
        ({"cwd_prefix": "/w/app/"}, ["small"]),
        ({"cwd_prefix": "/"}, ["large", "small"]),
        ({"archived": True}, []),
        ({"archived": False}, ["large", "small"]),
        ({"user_id": None, "min_messages": None}, ["large", "small"]),
        ({"user_id": "ada", "source": "telegram"}, []),
    ],
    ids="-".join,  # the names alone: times are other ones in every process
)
def test_each_filter_narrows_what_is_pruned(
    many: SessionDB, filters: dict[str, Any], expected: list[str]
) -> None:
    assert candidates(many, **filters) == expected
    assert many.prune_sessions(**{"older_than_days": None, **filters}) == len(expected)
    assert left(many) == {"small", "large"} - set(expected)


@pytest.mark.parametrize("method", ["list_prune_candidates", "archive_sessions", "prune_sessions"])
def test_a_filter_that_does_not_exist_deletes_nothing(many: SessionDB, method: str) -> None:
    with pytest.raises(TypeError, match="no filter 'colour'"):
        getattr(many, method)(None, colour="red")
    with pytest.raises(ValueError):
        getattr(many, method)(None, min_messages="few")
    assert left(many) == {"small", "large"}


def test_candidates_say_what_they_are(many: SessionDB) -> None:
    (large, small) = many.list_prune_candidates()
    assert set(large) == {
        "id", "source", "title", "model", "started_at", "ended_at", "message_count", "archived",
    }  # fmt: skip
    assert (small["title"], small["message_count"]) == ("Small talk", 1)


def test_old_conversations_can_be_archived_instead(many: SessionDB) -> None:
    make(many, "s1", 100, end=None)
    rotate(many, "s1", "s2")
    assert many.archive_sessions(user_id="ada") == 1
    assert many.archive_sessions(user_id="ada") == 0  # it is
    assert candidates(many, archived=True) == ["small"]
    many.end_session("s2", "idle")
    assert many.archive_sessions(50) == 1  # the conversation of s1 was used today
    archived = {row["id"] for row in many.search_sessions(limit=99) if row["archived"]}
    assert archived == {"small", "large"}
    assert many.archive_sessions() == 2
    assert many.session_count() == 0
    assert left(many) == {"small", "large", "s1", "s2"}


def files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def test_the_files_of_older_versions_go_with_the_session(db: SessionDB, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    kept = ["s10.json", "request_dump_s10_20250101.json", "s1.txt", "s.json"]
    files(folder, "s1.json", "s1.jsonl", "request_dump_s1_20250101.json", *kept)
    make(db, "s1")
    assert db.delete_session("s1", sessions_dir=folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(kept)


@pytest.mark.parametrize(
    "session_id", ["../outside", "..", "a/b", "a\\b", "*", "[s]*", "?", "a\x00b", ".", "x" * 300]
)
def test_an_id_that_is_a_path_or_a_pattern_reaches_nothing(
    db: SessionDB, tmp_path: Path, session_id: str
) -> None:
    folder = tmp_path / "sessions"
    names = ["s1.json", "request_dump_s1.json", "request_dump_s1_1.json", "a/b.json", ".json"]
    files(folder, *names)
    files(tmp_path, "outside.json", "outside.jsonl")
    make(db, session_id)
    assert db.delete_session(session_id, sessions_dir=folder)
    assert db.get_session(session_id) is None
    assert all((folder / name).exists() for name in names)
    assert (tmp_path / "outside.json").exists()


def test_a_folder_that_is_not_there_is_no_trouble(db: SessionDB, tmp_path: Path) -> None:
    make(db, "s1")
    assert db.delete_session("s1", sessions_dir=tmp_path / "nowhere")


def test_every_way_of_deleting_takes_the_files(db: SessionDB, tmp_path: Path) -> None:
    def empty_store(name: str, **facts: Any) -> None:
        db.delete_sessions(list(left(db)))
        make(db, name, 100, **facts)
        files(tmp_path, f"{name}.json")

    ways: list[tuple[dict[str, Any], Any]] = [
        ({}, lambda: db.delete_sessions(["s1"], tmp_path)),
        ({}, lambda: db.delete_conversation("s1", tmp_path)),
        ({}, lambda: db.prune_sessions(90, sessions_dir=tmp_path)),
        ({}, lambda: db.maybe_auto_prune_and_vacuum(sessions_dir=tmp_path)),
        ({"text": ""}, lambda: db.delete_session_if_empty("s1", tmp_path)),
        ({"text": ""}, lambda: db.delete_empty_sessions(tmp_path)),
        ({"text": "", "source": "tui"}, lambda: db.prune_empty_ghost_sessions(tmp_path)),
        ({"text": "", "source": "tui"}, lambda: db.settle_at_startup(tmp_path)),
    ]
    for facts, way in ways:
        empty_store("s1", **facts)
        assert way()
        assert not (tmp_path / "s1.json").exists()


def test_upkeep_runs_once_per_interval(db: SessionDB, db_path: Path) -> None:
    make(db, "old", 100)
    assert db.maybe_auto_prune_and_vacuum() == {"skipped": False, "pruned": 1, "vacuumed": True}
    make(db, "old", 100)
    assert db.maybe_auto_prune_and_vacuum() == {"skipped": True, "pruned": 0, "vacuumed": False}
    with SessionDB(db_path) as other:
        assert other.maybe_auto_prune_and_vacuum()["skipped"] is True
        assert other.maybe_auto_prune_and_vacuum(min_interval_hours=0)["pruned"] == 1
    db.set_meta("last_auto_prune", str(time.time() - 25 * 3600))
    assert db.maybe_auto_prune_and_vacuum()["skipped"] is False
    db.set_meta("last_auto_prune", "not a time")
    assert db.maybe_auto_prune_and_vacuum()["skipped"] is False


def test_upkeep_is_as_asked(db: SessionDB) -> None:
    make(db, "old", 100)
    make(db, "older", 200)
    report = db.maybe_auto_prune_and_vacuum(retention_days=150, vacuum=False)
    assert report == {"skipped": False, "pruned": 1, "vacuumed": False}
    assert left(db) == {"old"}
    idle = db.maybe_auto_prune_and_vacuum(retention_days=150, min_interval_hours=0)
    assert idle == {"skipped": False, "pruned": 0, "vacuumed": False}


def test_upkeep_that_fails_keeps_nobody_from_starting(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any) -> None:
        raise StoreBusyError("locked by another process")

    make(db, "old", 100)
    monkeypatch.setattr(db, "_execute_write", busy)
    report = db.maybe_auto_prune_and_vacuum()
    assert (report["pruned"], report["error"]) == (0, "locked by another process")
    monkeypatch.undo()
    assert left(db) == {"old"}


@pytest.mark.sqlite
def test_vacuum_gives_space_back(db: SessionDB) -> None:
    make(db, "big", text="x" * 2_000_000)
    db.delete_session("big")
    assert db.vacuum() > 1_000_000
    assert db.vacuum() == 0
    make(db, "after")
    assert left(db) == {"after"}


def test_whoever_keeps_more_of_a_conversation_is_told_when_it_is_gone(db: SessionDB) -> None:
    told: list[list[str]] = []
    db.on_conversations_deleted = told.append
    for name in ("a1", "b1", "empty"):
        db.create_session(name, "cli")
    for old, new in (("a1", "a2"), ("a2", "a3")):
        db.append_message(old, "user", "x")
        db.rotate_session(old, new, [{"role": "user", "content": "summary"}])
    db.create_session("d1", "tool", parent_session_id="b1", model_config={"_delegate_from": "b1"})
    db.delete_session("a1")
    db.delete_session("a3")
    assert told == []  # the conversation goes on, under the id of its first session
    db.delete_sessions(["a2", "b1", "nobody"])
    assert [sorted(one) for one in told] == [["a1", "b1", "d1"]]
    db.delete_session_if_empty("empty")
    db.delete_conversation("nobody")
    assert told[1:] == [["empty"]]
    make(db, "old", 91)
    db.prune_sessions(90)
    assert told[2:] == [["old"]]


@pytest.mark.parametrize(
    "delete",
    [
        lambda db: db.delete_session("s"),
        lambda db: db.delete_conversation("s"),
        lambda db: db.delete_sessions(["s"]),
        lambda db: db.prune_sessions(None),
    ],
)
def test_with_a_session_goes_what_was_asked_and_decided_in_it(
    db: SessionDB, delete: Callable[[SessionDB], object]
) -> None:
    for name in ("s", "other"):
        db.create_session(name, "cli")
        db.record_approval(
            session_id=name,
            command="rm x",
            description="deletes",
            pattern_keys=["rm"],
            approved=True,
            how="off",
        )
    db.end_session("s", "cli_close")
    delete(db)
    assert {row["session_id"] for row in db.list_approvals()} == {"other"}
