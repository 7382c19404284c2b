"""Titles: clean, unique, numbered along a lineage."""

import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_state import SessionDB
from hermes_state.dialect import Connection
from hermes_state.titles import MAX_TITLE_LENGTH, sanitize_title

from .memory import MEMORY

UNSEEN = [
    "\x00", "\x07", "\x1b", "\x7f", "\x9f",  # control
    "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad",  # zero width
    "\u200e", "\u200f", "\u061c", "\u202a", "\u202e", "\u2066", "\u2069",  # direction
]  # fmt: skip


@pytest.fixture
def three(db: SessionDB) -> SessionDB:
    for session_id in ("s1", "s2", "s3"):
        db.create_session(session_id, "cli")
    return db


@pytest.mark.parametrize("char", UNSEEN, ids=lambda char: f"U+{ord(char):04X}")
def test_what_cannot_be_seen_is_dropped(three: SessionDB, char: str) -> None:
    assert three.sanitize_title(f"{char}Pl{char}an{char}") == "Plan"
    assert three.set_session_title("s1", f"{char}Pl{char}an")
    assert three.get_session_title("s1") == "Plan"


@pytest.mark.parametrize(
    ("given_title", "kept"),
    [
        (None, None),
        ("", None),
        (" \t\n ", None),
        ("\u200b\u202e", None),
        ("  a \t b\r\n\nc\u3000d\u2028e ", "a b c d e"),
        ("Überblick 計画 🗺️", "Überblick 計画 🗺️"),
        ("half \ud83d a pair", "half \ufffd a pair"),
        ("icon \ue0a0 and new emoji \U0001fae9", "icon \ue0a0 and new emoji \U0001fae9"),
        ("x" * MAX_TITLE_LENGTH, "x" * MAX_TITLE_LENGTH),
        (" " + "x" * MAX_TITLE_LENGTH + "\u200b" * 50, "x" * MAX_TITLE_LENGTH),
    ],
)
def test_titles_are_cleaned(given_title: str | None, kept: str | None) -> None:
    assert sanitize_title(given_title) == kept


def test_a_title_that_is_too_long_is_refused(three: SessionDB) -> None:
    three.set_session_title("s1", "Plan")
    with pytest.raises(ValueError, match="101 characters; at most 100"):
        three.set_session_title("s1", "x" * 101)
    assert three.get_session_title("s1") == "Plan"


@pytest.mark.parametrize("title", [5, b"Plan", ["Plan"], True])
def test_a_title_that_is_no_text_is_refused(three: SessionDB, title: object) -> None:
    with pytest.raises(ValueError, match="must be text"):
        three.set_session_title("s1", title)  # type: ignore[arg-type]


@given(st.text(st.characters(exclude_categories=()), max_size=140))
def test_a_clean_title_is_clean(title: str) -> None:
    try:
        cleaned = sanitize_title(title)
    except ValueError:
        assert len(title) > MAX_TITLE_LENGTH
        return
    if cleaned is None:
        return
    assert 0 < len(cleaned) <= MAX_TITLE_LENGTH
    assert cleaned == " ".join(cleaned.split())
    assert not {unicodedata.category(char) for char in cleaned} & {"Cc", "Cf", "Cs"}
    assert sanitize_title(cleaned) == cleaned


def test_a_title_is_taken_once(three: SessionDB) -> None:
    three.set_session_title("s1", "Plan")
    before = three.get_session("s2")
    with pytest.raises(ValueError, match=r"already in use by session s1.*'Plan #2'"):
        three.set_session_title("s2", " Pl\u200ban ")
    assert three.get_session("s2") == before
    assert three.set_session_title("s1", "Plan")  # its own again
    three.set_session_title("s1", "Other")
    assert three.set_session_title("s2", "Plan")
    assert three.set_session_title("s3", "plan")  # another title, to the letter


def test_a_title_can_be_cleared(three: SessionDB) -> None:
    three.set_session_title("s1", "Plan")
    assert three.set_session_title("s1", "")
    assert three.get_session_title("s1") is None
    assert three.set_session_title("s2", "Plan")


def test_unknown_sessions_have_no_title(three: SessionDB) -> None:
    assert three.set_session_title("nobody", "Plan") is False
    assert three.set_auto_title_if_empty("nobody", "Plan") is False
    assert three.get_session_title("nobody") is None
    assert three.get_session_by_title("Plan") is None


def test_an_automatic_title_never_replaces_one(three: SessionDB) -> None:
    assert three.set_auto_title_if_empty("s1", "Guess") is True
    assert three.set_auto_title_if_empty("s1", "Another guess") is False
    assert three.set_auto_title_if_empty("s2", "\u200b") is False
    assert three.get_session_title("s1") == "Guess"
    assert three.get_session_title("s2") is None
    with pytest.raises(ValueError, match="in use"):
        three.set_auto_title_if_empty("s2", "Guess")


def test_setting_a_title_raises_the_version(three: SessionDB) -> None:
    before = three.get_session("s1")
    three.set_session_title("s1", "Plan")
    after = three.get_session("s1")
    assert before and after and after["version"] > before["version"]


def test_sessions_are_found_by_title(three: SessionDB) -> None:
    three.set_session_title("s1", "Plan")
    found = three.get_session_by_title("Plan")
    assert found and found["id"] == "s1"
    assert three.resolve_session_by_title("Plan") == "s1"
    assert three.get_session_by_title("Pla") is None
    assert three.resolve_session_by_title("Pla%") is None


def test_a_title_leads_to_the_highest_number(three: SessionDB) -> None:
    three.set_session_title("s1", "Plan")
    three.set_session_title("s2", "Plan #10")
    three.set_session_title("s3", "Plan #9")
    assert three.resolve_session_by_title("Plan") == "s2"
    assert three.resolve_session_by_title("Plan #9") == "s3"
    three.create_session("s4", "cli")
    three.set_session_title("s4", "Plan #11 or so")
    assert three.resolve_session_by_title("Plan") == "s2"


@pytest.mark.parametrize(
    ("taken", "base", "next_title"),
    [
        ([], "Plan", "Plan"),
        (["Plan"], "Plan", "Plan #2"),
        (["Plan", "Plan #2"], "Plan", "Plan #3"),
        (["Plan", "Plan #2"], "Plan #2", "Plan #3"),
        (["Plan", "Plan #2", "Plan #5"], "Plan #2", "Plan #6"),
        (["Plan #7"], "Plan #7", "Plan #8"),
        (["Plan #7"], "Plan", "Plan #8"),
        (["Plan #007"], "Plan #007", "Plan #8"),
        (["#7"], "#7", "#7 #2"),
        (["Plan #x"], "Plan #x", "Plan #x #2"),
        (["Plan#2"], "Plan#2", "Plan#2 #2"),
        (["Plan #2 #3"], "Plan #2 #3", "Plan #2 #4"),
        (["Plan #999999999"], "Plan #999999999", "Plan #1000000000"),
        (["100%", "100_ #4"], "100%", "100% #2"),
        (["x" * 100], "x" * 100, "x" * 97 + " #2"),
        (["x" * 100, "x" * 97 + " #2"], "x" * 100, "x" * 97 + " #3"),
        (["x" * 97 + " #9"], "x" * 97 + " #9", "x" * 96 + " #10"),
        (["x" * 95 + " y"], "x" * 95 + " y", "x" * 95 + " y #2"),
        (["x" * 96 + " yzz"], "x" * 96 + " yzz", "x" * 96 + " #2"),
    ],
)
def test_the_next_title_is_numbered_on(
    db: SessionDB, taken: list[str], base: str, next_title: str
) -> None:
    for number, title in enumerate(taken):
        db.create_session(f"s{number}", "cli")
        assert db.set_session_title(f"s{number}", title)
    assert db.get_next_title_in_lineage(base) == next_title
    if next_title not in taken:
        db.create_session("new", "cli")
        assert db.set_session_title("new", next_title)


titles = st.sampled_from(
    ["Plan", "Plan #2", "Plan #7", "#7", "a #999999999", "x" * 100, "x" * 97 + " #9", "y" * 150]
) | st.text(st.characters(exclude_categories=()), max_size=110)


@settings(deadline=None, max_examples=40)
@given(st.lists(titles, min_size=1, max_size=6))
def test_the_next_title_is_always_free_and_valid(bases: list[str]) -> None:
    with TemporaryDirectory(dir=MEMORY) as folder, SessionDB(Path(folder) / "state.db") as db:
        for number, base in enumerate(bases * 2):
            title = db.get_next_title_in_lineage(base)
            assert sanitize_title(title) == (title or None)
            db.create_session(f"s{number}", "cli")
            assert db.set_session_title(f"s{number}", title)


# Owners


def two_owners(db: SessionDB) -> SessionDB:
    for owner in ("ada", "eve"):
        for number in (1, 2):
            db.create_session(f"{owner}{number}", "telegram", user_id=owner)
    return db


def test_what_titles_another_owner_has_cannot_be_found_out(db: SessionDB) -> None:
    two_owners(db)
    db.set_session_title("ada1", "Divorce")
    assert db.get_session_by_title("Divorce", "eve") is None
    assert db.resolve_session_by_title("Divorce", "eve") is None
    assert db.get_next_title_in_lineage("Divorce", "eve") == "Divorce"
    assert db.set_session_title("eve1", "Divorce")
    with pytest.raises(ValueError, match=r"in use by session eve1.*'Divorce #2'"):
        db.set_session_title("eve2", "Divorce")
    assert db.resolve_session_by_title("Divorce", "ada") == "ada1"
    assert db.resolve_session_by_title("Divorce", "eve") == "eve1"
    # The operator sees both, the last used first.
    db.append_message("ada1", "user", "hello", timestamp=5e9)
    assert db.resolve_session_by_title("Divorce") == "ada1"


def test_continuations_and_branches_count_among_their_owners_titles(db: SessionDB) -> None:
    two_owners(db)
    db.set_session_title("ada1", "Plan")
    db.set_session_title("ada2", "Plan #2")
    db.set_session_title("eve1", "Plan")
    assert db.rotate_session("eve1", "eve3", []).title == "Plan #2"
    db.branch_session("eve3", "eve4")
    assert db.get_session_title("eve4") == "Plan #3"


def test_a_session_that_gets_an_owner_keeps_to_the_owners_titles(db: SessionDB) -> None:
    two_owners(db)
    db.set_session_title("ada1", "Plan")
    db.create_session("loose", "telegram")
    db.set_session_title("loose", "Plan")
    db.create_session("loose", "telegram", user_id="ada")
    assert db.get_session_title("loose") == "Plan #2"
    db.set_session_title("eve1", "Plan")
    db.record_gateway_session_peer("eve1", source="telegram", user_id="ada")
    assert db.get_session_title("eve1") == "Plan #3"


@pytest.mark.sqlite
def test_a_store_whose_titles_were_unique_over_all_owners_is_upgraded(db_path: Path) -> None:
    with SessionDB(db_path) as db:
        two_owners(db)
        db.set_session_title("ada1", "Plan")

        def age(conn: Connection) -> None:
            conn.execute("DROP INDEX idx_sessions_title_owner_unique")
            conn.execute("CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title)")
            conn.execute("PRAGMA user_version = 5")

        db._execute_write(age)
    with SessionDB(db_path) as db:
        assert db.set_session_title("eve1", "Plan")
        assert db.get_session_title("ada1") == "Plan"
        with pytest.raises(ValueError, match="already in use"):
            db.set_session_title("eve2", "Plan")
