"""/mode, /yolo and /folder: what a conversation may do, kept with it and followed at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.scripted import Call, Step, say
from hermes_state import SessionDB
from tools.base import NobodyToAsk
from tools.toolsets import default_tools

from .slash_surface import Front


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def front(db: SessionDB, tmp_path: Path) -> Front:
    return Front(db, tmp_path / "home")


def test_the_mode_is_shown_with_what_it_means(front: Front) -> None:
    told = front.shown("/mode")
    assert told.startswith("Mode: guarded. Commands run inside a wall")
    assert "/mode plan: nothing can be written" in told
    assert "/mode full: neither wall nor questions" in told
    assert "/mode guarded" not in told


def test_a_mode_is_kept_with_the_conversation(front: Front, db: SessionDB) -> None:
    assert "Mode: plan. Nothing can be written" in front.shown("/mode PLAN")
    assert db.get_wall_settings(front.session_id)["mode"] == "plan"
    assert front.build_agent().workspace.mode == "guarded", "it has not begun a turn"
    front.ask("hello")
    assert front.build_agent().workspace.mode == "plan"
    front.type("/new")
    assert front.shown("/mode").startswith("Mode: guarded")


def test_what_is_no_mode_is_refused(front: Front) -> None:
    told = front.refused("/mode free")
    assert "'free'" in told
    assert "plan, guarded, full" in told


def test_a_running_turn_obeys_at_once(front: Front) -> None:
    path = front.config.home / "made.txt"
    front.tools = default_tools({}, front.config.home, [])
    wanted = Call("write_file", {"path": str(path), "content": "x"})
    front.steps = [Step((lambda: front.type("/mode plan"), wanted)), say("done")]
    front.ask("Write it")
    results = [one["content"] for one in front.db.get_messages(front.session_id)]
    assert any("plan mode" in str(text) for text in results)
    assert not path.exists()


def test_sub_agents_obey_too(front: Front) -> None:
    agent = front.build_agent()
    child = agent.delegation._new_agent({"goal": "look"}, NobodyToAsk())
    front.type("/mode plan")
    child.run_conversation("look")
    assert child.workspace.mode == "plan"


def test_yolo_is_the_mode_full(front: Front, db: SessionDB) -> None:
    agent = front.build_agent()
    assert "without asking" in front.shown("/yolo on")
    assert (agent.workspace.mode, db.get_wall_settings(front.session_id)["mode"]) == ("full",) * 2
    assert "Mode: guarded" in front.shown("/yolo off")
    assert agent.workspace.mode == "guarded"
    front.type("/mode plan")
    front.type("/yolo")
    assert agent.workspace.mode == "full"
    assert "on and off" in front.refused("/yolo perhaps")


def test_where_nothing_is_asked_yolo_off_says_so(db: SessionDB, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("approvals: {mode: 'off'}\n")
    front = Front(db, home)
    assert "approvals.mode is off" in front.shown("/yolo off")


def test_a_folder_is_added_listed_and_removed(front: Front, db: SessionDB, tmp_path: Path) -> None:
    more = tmp_path / "more and more"
    more.mkdir()
    (tmp_path / "link").symlink_to(more)
    agent = front.build_agent()
    assert str(agent.workspace.root) in front.shown("/folder")
    assert str(more) in front.shown(f"/folder add {tmp_path / 'link'}")
    assert agent.workspace.folders == [more]
    assert db.get_wall_settings(front.session_id)["folders"] == [str(more)]
    front.type(f"/folder add '{more}'")
    assert front.shown("/folders list").count(str(more)) == 1
    front.type(f"/folder remove {more}")
    assert agent.workspace.folders == []
    assert "was not added" in front.refused(f"/folder remove {more}")


def test_some_folders_cannot_be_added(front: Front, tmp_path: Path) -> None:
    (front.config.home / "skills").mkdir()
    (tmp_path / "file").touch()
    assert "not a folder" in front.refused(f"/folder add {tmp_path / 'none'}")
    assert "not a folder" in front.refused(f"/folder add {tmp_path / 'file'}")
    assert "whole machine" in front.refused("/folder add /")
    assert "belongs to the agent" in front.refused(f"/folder add {front.config.home}")
    assert "belongs to the agent" in front.refused(f"/folder add {front.config.home / 'skills'}")
    assert "are in it" in front.refused(f"/folder add {tmp_path}")
    assert "/folder add PATH" in front.refused("/folder put x")
    assert front.db.get_wall_settings(front.session_id)["folders"] == []


def test_the_status_names_the_wall_where_the_person_sits(
    front: Front, db: SessionDB, tmp_path: Path
) -> None:
    front.type("/mode plan")
    assert "Wall: none (HERMES_WALL allows none)" in front.shown("/status")
    assert "(mode plan)" in front.shown("/status")
    chat = Front(db, tmp_path / "home", platform="telegram", user_id="ada", scope="gateway")
    assert "Wall" not in chat.shown("/status")
