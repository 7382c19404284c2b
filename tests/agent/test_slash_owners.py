"""What is another's is answered exactly as what does not exist, whatever is typed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.slash import run
from hermes_state import SessionDB

from .slash_surface import Front

SECRET, NOWHERE = "20260101_120000_abcdef", "20260101_130000_fedcba"
TITLE, NO_TITLE = "Divorce", "Holiday"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session(SECRET, "telegram", user_id="telegram:ada")
        db.set_session_title(SECRET, TITLE)
        db.append_message(SECRET, "user", "a secret of mine")
        yield db


def answer(db: SessionDB, home: Path, line: str, *, spoken: bool = True) -> str:
    """What Eve is told, with the names that differ left out."""
    eve = Front(db, home, platform="telegram", user_id="telegram:eve", scope="gateway")
    if spoken:
        eve.build_agent().run_conversation("hello")
    own = eve.session_id
    said = str(run(eve, line))
    did = [(what, *rest) for what, *rest in eve.did]
    branch = eve.session_id
    for session in (branch, own):
        db.delete_session(session)
    text = f"{said} {did}"
    for name in (SECRET, NOWHERE, TITLE, NO_TITLE):
        text = text.replace(name, "NAME").replace(name[:15], "NAME").replace(name.lower(), "NAME")
    return text.replace(branch, "BRANCH").replace(own, "OWN")


@pytest.mark.parametrize("spoken", [True, False])
@pytest.mark.parametrize("command", ["resume", "branch", "new", "title", "sessions", "search"])
@pytest.mark.parametrize(
    ("theirs", "nobodys"),
    [
        (TITLE, NO_TITLE),
        (TITLE.lower(), NO_TITLE.lower()),
        (SECRET, NOWHERE),
        (SECRET[:15], NOWHERE[:15]),
        (SECRET[9:], NOWHERE[9:]),
    ],
    ids=["title", "title in small letters", "id", "beginning of an id", "end of an id"],
)
def test_nobody_finds_out_what_others_have(
    db: SessionDB, tmp_path: Path, command: str, theirs: str, nobodys: str, spoken: bool
) -> None:
    told = answer(db, tmp_path / "home", f"/{command} {theirs}", spoken=spoken)
    expected = answer(db, tmp_path / "home", f"/{command} {nobodys}", spoken=spoken)
    assert told.replace(theirs, "NAME") == expected.replace(nobodys, "NAME")
    assert "a secret" not in told


def test_the_same_title_twice_is_told_to_its_owner(db: SessionDB, tmp_path: Path) -> None:
    ada = Front(db, tmp_path / "home", platform="telegram", user_id="telegram:ada", scope="gateway")
    ada.build_agent().run_conversation("hello")
    assert "is taken. 'Divorce #2' is free" in ada.refused(f"/branch {TITLE}")
