"""What is remembered is found as people ask; what changed is found by either form."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import memory_actions as actions
from agent.memory_actions import Desk
from agent.memory_find import describe, find
from hermes_state import SessionDB, rank_texts
from tools.memory_history import Author
from tools.memory_scope import MemoryScope

from ..state.concepts import Concepts


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    db = SessionDB(tmp_path / "state.db")
    desk = actions.desk_for(tmp_path, db, MemoryScope("operator", is_operator=True), "s")
    for text in (
        "The office is in Hamburg", "Ada likes green tea", "Backups run at night",
        "We ordered a mixer for Ada",
    ):  # fmt: skip
        actions.add(desk, text)
    return desk


def texts(desk: Desk, query: str) -> list[str]:
    return [found.entry.text for found in find(desk, query) if found.entry]


def test_a_question_finds_it(desk: Desk) -> None:
    assert texts(desk, "where are our offices?")[:1] == ["The office is in Hamburg"]
    assert texts(desk, "what does Ada like to drink")[0] == "Ada likes green tea"
    assert texts(desk, "zebra") == []
    assert "fits" in describe(desk, "zebra")
    assert "/memory find" in describe(desk, " ")


def test_what_changed_is_found_by_both_and_the_older_is_struck(desk: Desk) -> None:
    actions.edit(desk, "Hamburg", "The office is in Bremen")
    actions.edit(desk, "Bremen", "The agency moved to Kiel")
    for query in ("what is in Hamburg?", "Bremen", "Kiel"):
        said = describe(desk, query).splitlines()
        assert "The agency moved to Kiel" in said[0]
        assert "written by command" in said[0]
        assert said[1].strip().startswith("- ~~The office is in Bremen~~ (until 20")
        assert said[2].strip().startswith("- ~~The office is in Hamburg~~ (until 20")


def test_what_was_forgotten_is_struck_or_gone_for_good(desk: Desk) -> None:
    actions.forget(desk, "green tea")
    assert describe(desk, "tea").strip().startswith("- ~~Ada likes green tea~~ (forgotten on")
    actions.forget(desk, "Backups", for_good=True)
    assert describe(desk, "backups") == "Nothing that is remembered fits."


def test_what_was_said_again_is_not_struck(desk: Desk) -> None:
    actions.edit(desk, "Hamburg", "The office is in Bremen")
    actions.edit(desk, "Bremen", "The office is in Hamburg")
    assert "~~The office is in Hamburg~~" not in describe(desk, "Hamburg office")
    actions.forget(desk, "green tea")
    actions.undo(desk)
    assert "~~" not in describe(desk, "green tea")


def test_by_meaning_too(desk: Desk) -> None:
    assert desk.db is not None
    assert texts(desk, "which present?") == []
    desk.db.embedder = Concepts
    assert texts(desk, "which present?") == ["We ordered a mixer for Ada"]


def test_only_ones_own(desk: Desk, tmp_path: Path) -> None:
    other = Desk(desk.home, desk.db, (), (), Author(), "eve")
    assert find(other, "office") == []


def test_texts_are_ranked_by_what_they_cover() -> None:
    some = ["roof and wall", "the wall", "garden", "数据库每天备份"]
    assert [place for place, _ in rank_texts("what about the roof and the walls?", some)] == [0, 1]
    assert rank_texts("数据库什么时候备份", some)[0][0] == 3
    assert rank_texts("", some) == rank_texts("roof", []) == []
    assert [place for place, _ in rank_texts('"the wall"', some)] == [1]
