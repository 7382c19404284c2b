"""Lists of sessions: one row per conversation, as it is now, complete page by page."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_state import SessionDB

START = 1_700_000_000.0


def make(db: SessionDB, session_id: str, *texts: str, source: str = "cli", **facts: Any) -> None:
    db.create_session(session_id, source, **facts)
    for number, text in enumerate(texts):
        at = facts.get("started_at", START) + number
        db.append_message(session_id, ("user", "assistant")[number % 2], text, timestamp=at)


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def listed(db: SessionDB, **filters: Any) -> list[str]:
    return ids(db.list_sessions_rich(limit=1000, **filters))


@pytest.fixture
def shelf(db: SessionDB) -> SessionDB:
    """Conversations of all kinds; `chat` was compressed twice."""
    make(db, "plain", "hello there", started_at=START, cwd="/w/app", user_id="ada")
    make(db, "empty", started_at=START + 10, cwd="/w")
    make(
        db, "chat1", "first question", "answer", source="telegram", started_at=START + 20,
        cwd="/w/app/sub", user_id="bob", display_name="Bob's group",
    )  # fmt: skip
    db.set_session_title("chat1", "Trip")
    db.rotate_session("chat1", "chat2", [{"role": "user", "content": "sum 1"}])
    db.rotate_session("chat2", "chat3", [{"role": "user", "content": "sum 2"}])
    make(db, "apart", "x", started_at=START + 30, cwd="/w/application", user_id="bob")
    db.branch_session("plain", "branch")
    db.create_session(
        "delegate", "cli", parent_session_id="plain", model_config={"_delegate_from": "plain"}
    )
    db.create_session("helper", "cli", parent_session_id="plain")
    db.create_session("tool", "tool", parent_session_id="chat1")
    db.append_message("helper", "user", "hidden")
    make(db, "old", "archived", started_at=START - 10)
    db.set_session_archived("old", True)
    return db


VISIBLE = ["branch", "apart", "chat3", "empty", "plain"]


def test_one_row_per_conversation_newest_first(shelf: SessionDB) -> None:
    assert listed(shelf) == VISIBLE


def test_a_compressed_conversation_is_shown_as_its_tip(shelf: SessionDB) -> None:
    row = next(row for row in shelf.list_sessions_rich() if row["id"] == "chat3")
    assert (row["_lineage_root_id"], row["started_at"]) == ("chat1", START + 20)
    assert (row["title"], row["preview"]) == ("Trip #3", "first question")
    assert (row["parent_session_id"], row["message_count"]) == (None, 1)
    assert row["last_active"] > START + 20
    others = [row for row in shelf.list_sessions_rich() if row["id"] != "chat3"]
    assert not any("_lineage_root_id" in row for row in others)


def test_or_as_its_first_session(shelf: SessionDB) -> None:
    rows = shelf.list_sessions_rich(project_compression_tips=False)
    assert ids(rows) == ["branch", "apart", "chat1", "empty", "plain"]
    assert "_lineage_root_id" not in rows[2]


def test_or_every_session_as_a_row(shelf: SessionDB) -> None:
    everything = listed(shelf, include_children=True, include_archived=True)
    hidden = ["chat1", "chat2", "delegate", "helper", "tool", "old"]
    assert sorted(everything) == sorted([*VISIBLE, *hidden])
    assert shelf.session_count(include_archived=True) == len(everything)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"source": "telegram"}, ["chat3"]),
        ({"source": "nowhere"}, []),
        ({"exclude_sources": ["telegram"]}, ["branch", "apart", "empty", "plain"]),
        ({"exclude_sources": ["telegram", "cli"]}, []),
        ({"exclude_sources": []}, VISIBLE),
        ({"cwd_prefix": "/w/app"}, ["branch", "chat3", "plain"]),
        ({"cwd_prefix": "/w/app/"}, ["branch", "chat3", "plain"]),
        ({"cwd_prefix": "/w"}, VISIBLE),
        ({"cwd_prefix": "/"}, VISIBLE),
        ({"cwd_prefix": "/w_app"}, []),
        ({"min_message_count": 1}, ["branch", "apart", "chat3", "plain"]),
        ({"min_message_count": 2}, ["chat3"]),  # its first session had two
        ({"include_archived": True}, [*VISIBLE, "old"]),
        ({"archived_only": True}, ["old"]),
        ({"user_id": "ada"}, ["branch", "plain"]),
        ({"user_id": "bob"}, ["apart", "chat3"]),
        ({"user_id": "eve"}, []),
        ({"user_id": ""}, []),
        ({"id_query": "chat2"}, ["chat3"]),
        ({"id_query": "CHAT"}, ["chat3"]),
        ({"id_query": "a%t"}, []),
        ({"search_query": "trip"}, ["chat3"]),
        ({"search_query": "bob's"}, ["chat3"]),
        ({"search_query": "pla"}, ["plain"]),
        ({"search_query": "%"}, []),
        ({"search_query": "_"}, []),
        ({"search_query": "\\"}, []),
        ({"search_query": "'"}, ["chat3"]),
        ({"user_id": "bob", "source": "cli", "cwd_prefix": "/w"}, ["apart"]),
    ],
    ids=str,
)
def test_filters(shelf: SessionDB, filters: dict[str, Any], expected: list[str]) -> None:
    assert listed(shelf, **filters) == expected


COUNTABLE = [
    {},
    {"source": "telegram"},
    {"exclude_sources": ["telegram"]},
    {"cwd_prefix": "/w/app"},
    {"min_message_count": 1},
    {"min_message_count": 2},
    {"include_archived": True},
    {"archived_only": True},
    {"source": "cli", "min_message_count": 1, "include_archived": True},
]


@pytest.mark.parametrize("filters", COUNTABLE, ids=str)
def test_counts_are_the_lengths_of_lists(shelf: SessionDB, filters: dict[str, Any]) -> None:
    assert shelf.session_count(exclude_children=True, **filters) == len(listed(shelf, **filters))
    assert shelf.session_count(**filters) == len(listed(shelf, include_children=True, **filters))


def test_the_folder_of_a_conversation_is_where_it_is_now(shelf: SessionDB) -> None:
    shelf.update_session_cwd("chat3", "/elsewhere")
    assert listed(shelf, cwd_prefix="/elsewhere") == ["chat3"]
    assert "chat3" not in listed(shelf, cwd_prefix="/w")
    assert shelf.session_count(cwd_prefix="/elsewhere", exclude_children=True) == 1


def test_most_recently_used_first(shelf: SessionDB) -> None:
    shelf.append_message("empty", "user", "now", timestamp=START + 10_000_000_000)
    order = listed(shelf, order_by_last_active=True)
    assert order[0] == "empty"
    assert sorted(order) == sorted(VISIBLE)
    used = [row["last_active"] for row in shelf.list_sessions_rich(order_by_last_active=True)]
    assert used == sorted(used, reverse=True)


def test_rows_say_how_they_begin(db: SessionDB) -> None:
    make(db, "a", "  hello\n\tworld  ")
    make(db, "b", "x" * 500)
    db.create_session("c", "cli")
    db.append_message("c", "user", [{"type": "image_url"}, {"type": "text", "text": "what is it?"}])
    db.create_session("d", "cli", started_at=5)
    previews = {row["id"]: row["preview"] for row in db.list_sessions_rich()}
    assert previews == {
        "a": "hello world",
        "b": "x" * 60,
        "c": "[image] what is it?",
        "d": "",
    }
    assert next(r for r in db.list_sessions_rich() if r["id"] == "d")["last_active"] == 5
    db.archive_and_compact("a", [{"role": "user", "content": "sum"}])
    assert next(r for r in db.list_sessions_rich() if r["id"] == "a")["preview"] == "hello world"
    db.rewind_to_message("b", db.get_messages("b")[0]["id"])
    assert next(r for r in db.list_sessions_rich() if r["id"] == "b")["preview"] == ""


def test_compact_rows_leave_out_the_prompt(db: SessionDB) -> None:
    make(db, "a", "x", system_prompt="long " * 1000)
    assert "system_prompt" not in db.list_sessions_rich(compact_rows=True)[0]
    assert db.list_sessions_rich()[0]["system_prompt"]


def test_a_fork_that_an_older_version_left_is_shown(db: SessionDB) -> None:
    make(db, "a", "x")
    db.rotate_session("a", "b", [{"role": "user", "content": "sum"}])
    db.create_session("fork", "cli", parent_session_id="a")
    assert sorted(listed(db)) == ["b", "fork"]


def test_a_session_named_like_a_deleted_one_is_another_conversation(db: SessionDB) -> None:
    make(db, "a", "x")
    db.rotate_session("a", "b", [{"role": "user", "content": "sum"}])
    db.delete_session("a")
    db.ensure_session("a", "cli")  # by somebody who still held the old id
    assert sorted(listed(db)) == ["a", "b"]
    assert db.session_count(exclude_children=True) == 2
    assert db.get_compression_tip("a") == "a"
    assert db.get_compression_lineage("b") == ["b"]
    db.set_session_archived("a", True)
    assert listed(db) == ["b"]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=14),
    st.integers(1, 5),
    st.booleans(),
)
def test_pages_are_complete_and_stable(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[int, bool]],
    size: int,
    by_use: bool,
) -> None:
    """Also where many sessions share a time."""
    with SessionDB(tmp_path_factory.mktemp("pages") / "state.db") as db:
        for number, (at, rotated) in enumerate(made):
            make(db, f"cron_j_20250101_{number:06}", "x", started_at=float(at))
            if rotated:
                db.rotate_session(f"cron_j_20250101_{number:06}", f"r{number}", [])
        ways: list[Any] = [
            lambda **page: db.list_sessions_rich(order_by_last_active=by_use, **page),
            lambda **page: db.list_sessions_rich(include_children=True, **page),
            db.search_sessions,
            lambda **page: db.list_cron_job_runs("j", **page),
        ]
        for way in ways:
            whole = ids(way(limit=1000))
            pages = [ids(way(limit=size, offset=start)) for start in range(0, len(whole) + 1, size)]
            assert [one for page in pages for one in page] == whole
            assert len(set(whole)) == len(whole)


def test_finding_by_id_puts_the_closest_first(shelf: SessionDB) -> None:
    make(shelf, "my chat3 notes", "x")
    make(shelf, "chat30", "x")
    assert ids(shelf.search_sessions_by_id("chat3")) == ["chat3", "chat30", "my chat3 notes"]
    assert ids(shelf.search_sessions_by_id("chat1")) == ["chat3"]  # found by an earlier session
    assert ids(shelf.search_sessions_by_id("  old ")) == ["old"]
    assert shelf.search_sessions_by_id("old", include_archived=False) == []
    assert shelf.search_sessions_by_id(" ") == []
    assert len(shelf.search_sessions_by_id("a", limit=2)) == 2


def test_all_sessions_by_use(shelf: SessionDB) -> None:
    assert set(ids(shelf.search_sessions(source="telegram"))) == {"chat1", "chat2", "chat3"}
    everything = shelf.search_sessions(limit=100)
    assert len(everything) == shelf.session_count(include_archived=True)
    used = [row["last_active"] for row in everything]
    assert used == sorted(used, reverse=True)


def test_folders_with_sessions(shelf: SessionDB) -> None:
    shelf.update_session_cwd("old", "/archive")
    folders = {row["cwd"]: row["sessions"] for row in shelf.distinct_session_cwds()}
    assert folders == {"/w/app": 2, "/w": 1, "/w/app/sub": 3, "/w/application": 1}
    assert "/archive" in {row["cwd"] for row in shelf.distinct_session_cwds(include_archived=True)}
    used = [row["last_active"] for row in shelf.distinct_session_cwds()]
    assert used == sorted(used, reverse=True)


def test_the_runs_of_a_scheduled_job(db: SessionDB) -> None:
    for day in (1, 2, 3):
        make(db, f"cron_job_2025010{day}_120000", f"run {day}", started_at=START + day)
    make(db, "cron_job_b_20250101_120000", "another job's", started_at=START)
    make(db, "cron_job", "no run", started_at=START)
    runs = db.list_cron_job_runs("job")
    assert [run["preview"] for run in runs] == ["run 3", "run 2", "run 1"]
    assert ids(db.list_cron_job_runs("job", limit=1, offset=1)) == ["cron_job_20250102_120000"]
    assert ids(db.list_cron_job_runs("job_b")) == ["cron_job_b_20250101_120000"]
    assert db.list_cron_job_runs("nothing") == []
    assert db.list_cron_job_runs("%") == []
