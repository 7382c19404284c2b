"""Whose memories a conversation reads and writes, by who speaks, where, and whose it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_state import OPERATOR, SessionDB
from tools.base import ToolContext, ToolError, Workspace
from tools.files.read import read_file
from tools.memory import entries_in
from tools.memory import memory as memory_tool
from tools.memory_history import read_changes
from tools.memory_scope import OPERATORS, SHARED, MemoryScope, Space, may_be_told, written_down
from tools.skills import skill_manage, skill_view, skills_list

SKILL = "---\nname: {0}\ndescription: how to {0}\n---\nDo it.\n"


class Yes:
    """Agrees to everything, and notes what it was."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def approve(self, request: Any) -> str:
        self.asked.append(request.command)
        return "once"

    def clarify(self, question: str, choices: list[str]) -> str:
        return ""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        for name in ("ada", "bob"):
            store.ensure_person(f"t:{name}")
        yield store


def talk(db: SessionDB, home: Path, who: str | None, **more: Any) -> ToolContext:
    """A tool's surroundings in a chat of somebody."""
    session_id = more.pop("session_id", "")
    is_operator = more.pop("is_operator", who == OPERATOR)
    return ToolContext(
        session_id,
        "c",
        workspace=Workspace(home, home),
        db=db,
        user_id=who,
        asker=more.pop("asker", Yes()),
        memory=MemoryScope(who, is_operator=is_operator, **{"is_local": False, **more}),
    )


def remember(context: ToolContext, text: str, **more: Any) -> str:
    return str(memory_tool.run(context, "memory", action="add", content=text, **more))


def knows(context: ToolContext) -> list[str]:
    spaces = context.memory.spaces(context.db, context.session_id)
    return entries_in(context.workspace.home, "memory", spaces.read)


def test_everybody_has_their_own_and_the_operators_is_the_home(
    db: SessionDB, tmp_path: Path
) -> None:
    ada, bob = talk(db, tmp_path, "t:ada"), talk(db, tmp_path, "t:bob")
    operator = talk(db, tmp_path, OPERATOR, is_local=True)
    for context, fact in ((ada, "a"), (bob, "b"), (operator, "o")):
        remember(context, fact)
    assert [knows(context) for context in (ada, bob, operator)] == [["a"], ["b"], ["o"]]
    assert (tmp_path / "memories" / "MEMORY.md").read_text() == "o\n"
    for path in (tmp_path / "people").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_skills_are_apart_too_and_found_by_name_in_ones_own(db: SessionDB, tmp_path: Path) -> None:
    ada, bob = talk(db, tmp_path, "t:ada"), talk(db, tmp_path, "t:bob")
    skill_manage.run(ada, "create", "sew", content=SKILL.format("sew"))
    skill_manage.run(bob, "create", "sew", content=SKILL.format("sew").replace("Do", "Cut"))
    assert "Cut it" in skill_view.run(bob, "sew") and "Do it" in skill_view.run(ada, "sew")
    skill_manage.run(bob, "delete", "sew")
    assert "no skills" in skills_list.run(bob)
    assert "sew" in skills_list.run(ada)


def test_what_is_shared_everybody_reads_and_only_the_operator_writes(
    db: SessionDB, tmp_path: Path
) -> None:
    ada, asker = talk(db, tmp_path, "t:ada"), Yes()
    with pytest.raises(ToolError, match="Only the operator"):
        remember(ada, "Free beer.", shared=True)
    with pytest.raises(ToolError, match="Only the operator"):
        skill_manage.run(ada, "create", "sew", content=SKILL.format("sew"), shared=True)
    operator = talk(db, tmp_path, OPERATOR, asker=asker)
    remember(operator, "Closed on Mondays.", shared=True)
    assert len(asker.asked) == 1
    skill_manage.run(operator, "create", "sew", content=SKILL.format("sew"), shared=True)
    assert knows(ada) == ["Closed on Mondays."]
    assert "Do it" in skill_view.run(ada, "sew")
    with pytest.raises(ToolError, match="shared with everybody"):
        skill_manage.run(ada, "delete", "sew")
    with pytest.raises(ToolError, match="No entry contains"):
        memory_tool.run(ada, "memory", action="remove", old_text="Mondays")
    review = talk(db, tmp_path, OPERATOR, asker=asker)
    review.written_by = "review"
    with pytest.raises(ToolError, match="Only the operator"):
        remember(review, "Free beer.", shared=True)
    with pytest.raises(ToolError, match="not for everybody"):
        memory_tool.run(operator, "user", action="add", content="x", shared=True)


def test_who_is_not_allowed_to_share_does_not(db: SessionDB, tmp_path: Path) -> None:
    class No(Yes):
        def approve(self, request: Any) -> str:
            return "deny"

    operator = talk(db, tmp_path, OPERATOR, asker=No())
    with pytest.raises(ToolError, match="Not allowed"):
        remember(operator, "Closed on Mondays.", shared=True)
    assert not (tmp_path / "shared").exists()


def test_a_group_has_its_own_and_a_persons_is_read_there_if_they_say_so(
    db: SessionDB, tmp_path: Path
) -> None:
    ada = talk(db, tmp_path, "t:ada")
    remember(ada, "a")
    skill_manage.run(ada, "create", "sew", content=SKILL.format("sew"))
    here = talk(db, tmp_path, "t:ada", chat="t:-1")
    remember(here, "g")
    assert knows(here) == ["g"] and knows(ada) == ["a"]
    assert knows(talk(db, tmp_path, "t:bob", chat="t:-1")) == ["g"]
    assert knows(talk(db, tmp_path, "t:ada", chat="t:-2")) == []
    assert "no skills" in skills_list.run(here)
    db.show_memory("t:ada", "t:-1", True)
    assert here.memory.spaces(db, "").shown == (Space("person", "t:ada"),)
    assert "sew" in skills_list.run(here)
    assert "no skills" in skills_list.run(talk(db, tmp_path, "t:bob", chat="t:-1"))
    db.show_memory("t:ada", "t:-1", False)
    assert here.memory.spaces(db, "").shown == ()


def test_nobody_leaves_a_trace(db: SessionDB, tmp_path: Path) -> None:
    stranger = talk(db, tmp_path, None)
    with pytest.raises(ToolError, match="Nothing is kept"):
        remember(stranger, "x")
    assert stranger.memory.spaces(db, "").read == (SHARED,)


def test_in_anothers_conversation_nothing_of_theirs_is_read_or_written(
    db: SessionDB, tmp_path: Path
) -> None:
    db.create_session("hers", "t", user_id="t:ada")
    remember(talk(db, tmp_path, "t:ada", session_id="hers"), "a")
    guest = talk(db, tmp_path, "t:bob", session_id="hers")
    assert knows(guest) == []
    with pytest.raises(ToolError, match="Nothing is kept"):
        remember(guest, "b")
    # Who sits at the machine and goes on with it learns for her.
    remember(talk(db, tmp_path, OPERATOR, session_id="hers", is_local=True), "more")
    assert knows(talk(db, tmp_path, "t:ada")) == ["a", "more"]


def test_a_private_conversation_in_a_group_leaves_nothing_there(
    db: SessionDB, tmp_path: Path
) -> None:
    db.create_session("dm", "t", user_id="t:ada", chat_type="dm", chat_id="ada")
    db.create_session("g", "t", user_id="t:ada", chat_type="group", chat_id="-1")
    with pytest.raises(ToolError, match="Nothing is kept"):
        remember(talk(db, tmp_path, "t:ada", session_id="dm", chat="t:-1"), "x")
    remember(talk(db, tmp_path, "t:bob", session_id="g", chat="t:-1"), "g")
    assert knows(talk(db, tmp_path, OPERATOR, session_id="g", is_local=True)) == ["g"]


def test_a_merge_takes_memories_along_and_its_undoing_gives_them_back(
    db: SessionDB, tmp_path: Path
) -> None:
    ada, bob = talk(db, tmp_path, "t:ada"), talk(db, tmp_path, "t:bob")
    remember(ada, "a")
    remember(bob, "b")
    db.show_memory("t:ada", "t:-1", True)
    merge = db.merge_persons("t:bob", "t:ada")
    assert knows(ada) == knows(bob) == ["a", "b"]
    assert talk(db, tmp_path, "t:ada", chat="t:-1").memory.spaces(db, "").shown == (
        Space("person", "t:ada"),
    )
    remember(bob, "since")
    memory_tool.run(ada, "memory", action="replace", old_text="b", content="b2")
    db.unmerge_persons(merge.id)
    assert knows(ada) == ["a", "since"]
    assert knows(bob) == ["b2"]


def test_who_comes_back_after_their_memory_went_to_another_begins_anew(
    db: SessionDB, tmp_path: Path
) -> None:
    remember(talk(db, tmp_path, "t:ada"), "a")
    db.merge_persons("t:ada", "t:bob")
    db.remove_person("t:bob")
    again = db.ensure_person("t:ada")
    assert knows(talk(db, tmp_path, again.id)) == []
    remember(talk(db, tmp_path, again.id), "new")
    db.ensure_person("t:bob")
    assert knows(talk(db, tmp_path, "t:bob")) == ["a"]


def test_files_of_another_do_not_exist_for_the_file_tools(db: SessionDB, tmp_path: Path) -> None:
    ada, bob = talk(db, tmp_path, "t:ada"), talk(db, tmp_path, "t:bob")
    remember(ada, "a secret of hers")
    remember(talk(db, tmp_path, OPERATOR), "o")
    hers = Space("person", "t:ada").folder(tmp_path) / "memories" / "MEMORY.md"
    operators = tmp_path / "memories" / "MEMORY.md"
    for path in (hers, operators, hers.parent / "history" / "changes.jsonl"):
        with pytest.raises(ToolError, match="does not exist"):
            read_file.run(bob, str(path))
    with pytest.raises(ToolError, match="does not exist"):
        read_file.run(talk(db, tmp_path, OPERATOR), str(hers))


def test_what_a_prompt_tells_may_be_told_where_all_of_it_may() -> None:
    ada, bob = Space("person", "t:ada"), Space("person", "t:bob")
    merged = MemoryScope("t:ada", is_local=False).spaces(None, "")._replace(read=(ada, bob, SHARED))
    alone = merged._replace(read=(ada, SHARED))
    assert may_be_told(written_down(alone.read), "", merged)
    assert not may_be_told(written_down(merged.read), "", alone)
    # Prompts of earlier releases told the one memory that there was.
    assert may_be_told(None, "# Memory\nx", MemoryScope().spaces(None, ""))
    assert not may_be_told(None, "Hi.\n\n# Memory\nx", alone)
    assert may_be_told(None, "You are a pirate.", alone)
    assert json.loads(written_down([OPERATORS])) == ["person:operator"]


def test_what_was_learnt_says_where(db: SessionDB, tmp_path: Path) -> None:
    db.create_session("s1", "t", user_id="t:ada")
    context = talk(db, tmp_path, "t:ada", session_id="s1")
    remember(context, "a")
    context.written_by = "review"
    memory_tool.run(context, "memory", action="replace", old_text="a", content="b")
    folder = Space("person", "t:ada").folder(tmp_path)
    assert [(c.action, c.before, c.after, c.how, c.session_id) for c in read_changes(folder)] == [
        ("add", "", "a", "agent", "s1"),
        ("replace", "a", "b", "review", "s1"),
    ]
