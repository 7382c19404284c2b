"""Memories and skills on several machines over one store: the same everywhere, and nothing lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes_state import SessionDB, StoreBusyError, StoreUnavailableError
from tools import shared_files
from tools.base import ToolContext, ToolError, Workspace
from tools.memory import memory as memory_tool
from tools.memory import memory_path, read_entries
from tools.skills import skill_manage

pytestmark = pytest.mark.postgres

SKILL = "---\nname: {0}\ndescription: how to {0}\n---\nDo it.\n"


class Machine(NamedTuple):
    """A home of its own, over the store of all."""

    db: SessionDB
    home: Path

    @property
    def context(self) -> ToolContext:
        return ToolContext("s", "c", workspace=Workspace(self.home, self.home), db=self.db)

    def refresh(self) -> int:
        return shared_files.refresh(self.db, self.home)

    def remember(self, content: str, **more: Any) -> str:
        given = {"action": "add", "content": content, **more}
        return str(memory_tool.run(self.context, "memory", **given))

    def skill(self, action: str, name: str, **more: Any) -> str:
        return str(skill_manage.run(self.context, action, name, **more))

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def entries(self) -> list[str]:
        return read_entries(memory_path(self.home, "memory"))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    made = []
    for name in ("one", "two"):
        home = tmp_path / name
        home.mkdir()
        made.append(Machine(SessionDB(tmp_path / "state.db"), home))
    yield made
    for machine in made:
        machine.db.close()


def test_what_one_machine_remembers_the_other_reads(machines: list[Machine]) -> None:
    one, two = machines
    one.remember("Likes tea.")
    two.refresh()
    assert two.entries == ["Likes tea."]
    two.remember("Likes coffee.", action="replace", old_text="tea")
    two.remember("Lives in Rome.")
    one.remember("Has a dog.")
    assert one.entries == ["Likes coffee.", "Lives in Rome.", "Has a dog."]
    assert memory_path(two.home, "memory").stat().st_mode & 0o077 == 0


def test_two_that_write_at_once_lose_nothing(machines: list[Machine]) -> None:
    """The second reads again what the first has written in the middle of its work."""
    one, two = machines
    one.remember("First.")
    two.refresh()
    count = 0

    def work() -> int:
        nonlocal count
        count += 1
        if count == 1:
            two.remember("From two.")
        path = memory_path(one.home, "memory")
        path.write_text(path.read_text() + "§\nFrom one.\n")
        return count

    assert shared_files.change(one.db, one.home, work) == 2
    two.refresh()
    assert one.entries == two.entries == ["First.", "From two.", "From one."]
    assert not list(one.home.glob("backups/*/*"))


def test_many_that_write_at_once_lose_nothing(machines: list[Machine]) -> None:
    def write(machine: Machine, name: str) -> None:
        for number in range(5):
            machine.remember(f"{name} {number}")

    threads = [
        threading.Thread(target=write, args=(machine, f"{machine.home.name} {letter}"))
        for machine in machines
        for letter in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for machine in machines:
        machine.refresh()
        assert len(machine.entries) == len(set(machine.entries)) == 20


def test_who_is_never_first_is_told(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines
    monkeypatch.setattr(SessionDB, "change_kept_files", lambda self, changes: None)
    with pytest.raises(StoreBusyError):
        one.remember("Never.")
    assert one.entries == [], "what was not shared is not kept here either"


def test_skills_are_the_same_on_all_machines(machines: list[Machine]) -> None:
    one, two = machines
    one.skill("create", "bake", content=SKILL.format("bake"), category="kitchen")
    one.skill("write_file", "bake", file_path="scripts/oven.sh", file_content="echo hot")
    (one.home / "skills/kitchen/bake/scripts/oven.sh").chmod(0o700)
    one.write("skills/kitchen/bake/assets/cake.bin", "").write_bytes(b"\xff\x00")
    one.refresh()
    two.skill("patch", "bake", old_string="Do it.", new_string="Do it slowly.")
    assert (two.home / "skills/kitchen/bake/scripts/oven.sh").stat().st_mode & 0o777 == 0o700
    assert (two.home / "skills/kitchen/bake/assets/cake.bin").read_bytes() == b"\xff\x00"
    with pytest.raises(ToolError, match="already"):
        two.skill("create", "bake", content=SKILL.format("bake"))
    one.refresh()
    assert "slowly" in (one.home / "skills/kitchen/bake/SKILL.md").read_text()
    two.skill("delete", "bake")
    one.refresh()
    assert not (one.home / "skills/kitchen").exists()
    one.skill("create", "bake", content=SKILL.format("bake"), category="kitchen")
    two.refresh()
    assert (two.home / "skills/kitchen/bake/SKILL.md").exists()


def test_files_of_a_home_are_brought_in_once(
    machines: list[Machine], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = machines
    one.write("memories/MEMORY.md", "Old fact.\n")
    one.write("skills/old/SKILL.md", SKILL.format("old"))
    one.write("skills/old/.git/config", "not shared")
    one.write("memories/MEMORY.lock", "")
    with caplog.at_level(logging.WARNING):
        assert one.refresh() == 2
    (said,) = caplog.messages
    assert said.startswith("2 files of memories/ and skills/ were brought into")
    assert one.refresh() == two.refresh() == 0
    assert two.entries == ["Old fact."]
    assert (two.home / "skills/old/SKILL.md").read_text() == SKILL.format("old")
    assert not (two.home / "skills/old/.git").exists()


def test_what_is_edited_by_hand_is_shared(machines: list[Machine]) -> None:
    one, two = machines
    one.remember("Likes tea.")
    two.refresh()
    two.write("memories/MEMORY.md", "Likes wine.\n")
    assert two.refresh() == 1
    one.refresh()
    assert one.entries == ["Likes wine."]


def test_of_two_hands_the_first_counts_and_nothing_is_lost(
    machines: list[Machine], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = machines
    one.remember("Likes tea.")
    two.refresh()
    one.write("memories/MEMORY.md", "Likes wine.\n")
    two.write("memories/MEMORY.md", "Likes beer.\n")
    one.refresh()
    two.refresh()
    assert one.entries == two.entries == ["Likes wine."]
    (aside,) = two.home.glob("backups/files-*/memories/MEMORY.md")
    assert aside.read_text() == "Likes beer.\n"
    assert "is kept at" in caplog.text


def test_what_is_deleted_by_hand_comes_back(machines: list[Machine]) -> None:
    one, two = machines
    one.remember("Likes tea.")
    memory_path(one.home, "memory").unlink()
    one.refresh()
    assert one.entries == ["Likes tea."]
    (one.home / shared_files.MANIFEST).write_text("no manifest")
    memory_path(one.home, "memory").unlink()
    one.refresh()
    assert one.entries == ["Likes tea."]
    two.refresh()
    assert two.entries == ["Likes tea."]


def test_nothing_is_written_outside(machines: list[Machine], tmp_path: Path) -> None:
    from hermes_state import FileChange

    one, two = machines
    (one.home / "skills").mkdir()
    (one.home / "skills" / "away").symlink_to(tmp_path)
    names = ("../a", "/etc/b", "config.yaml", "skills/../c", "skills/away/d", "memories")
    two.db.change_kept_files([FileChange(name, b"x") for name in names])
    one.refresh()
    inside = {path.name for path in one.home.rglob("*")}
    assert inside == {"skills", "away", shared_files.MANIFEST, f"{shared_files.MANIFEST}.lock"}
    assert not (tmp_path / "d").exists()


def test_without_its_server_a_machine_has_what_it_had(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines
    one.remember("Likes tea.")

    def fail(*_: object) -> None:
        raise StoreUnavailableError("away")

    for name in ("get_kept_head", "list_kept_files", "change_kept_files"):
        monkeypatch.setattr(SessionDB, name, fail)
    assert one.refresh() == 0
    assert one.entries == ["Likes tea."]
    with pytest.raises(StoreUnavailableError):
        one.remember("Likes wine.")
    assert one.entries == ["Likes tea."]


async def test_a_session_begins_with_what_all_machines_know(machines: list[Machine]) -> None:
    from agent.build import build_agent
    from agent.config import load_config
    from agent.request import Question
    from agent.scripted import ScriptedModel, say

    one, two = machines
    one.remember("Likes tea.")
    one.skill("create", "bake", content=SKILL.format("bake"))
    model = ScriptedModel([say("hello"), say("A title")])
    agent = build_agent(load_config(two.home, {}), two.db, model=model)
    await agent.run(Question("hi"))
    said = model.requests[0].system
    assert "Likes tea." in said and "- bake: how to bake" in said
