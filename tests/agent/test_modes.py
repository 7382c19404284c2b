"""Modes of a conversation: kept with it, followed by every process, enforced by the wall."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import AIAgent
from agent.scripted import ScriptedModel, call, say
from hermes_state import SessionDB
from tools.base import Workspace
from tools.toolsets import default_tools


def make(db: SessionDB, model: ScriptedModel, tmp_path: Path, session_id: str = "s") -> AIAgent:
    home, root = tmp_path / "home", tmp_path / "root"
    home.mkdir(exist_ok=True)
    root.mkdir(exist_ok=True)
    settings = {"terminal": {"sandbox": "required"}}
    workspace = Workspace(home, root, settings=settings)
    tools = default_tools({}, home, [])
    return AIAgent(model, db=db, session_id=session_id, workspace=workspace, tools=tools)


def test_a_plan_changes_nothing_and_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_WALL", "landlock")
    model = ScriptedModel(
        [
            call("terminal", command="touch made.txt"),
            call("write_file", path="made.txt", content="x"),
            call("memory", action="add", target="memory", content="x"),
            call("web_fetch", url="http://127.0.0.1:1/"),
            say("The plan."),
        ]
    )
    with SessionDB(tmp_path / "state.db") as db:
        db.set_wall_mode("s", "plan")
        agent = make(db, model, tmp_path)
        assert agent.run_conversation("Do it")["final_response"] == "The plan."
        results = [str(row["content"]) for row in db.get_messages("s") if row["role"] == "tool"]
        agent.close()
    assert list((tmp_path / "root").iterdir()) == []
    assert ["plan mode" in text.lower() for text in results[1:]] == [True] * 3
    assert "Plan mode" in str(model.requests[0].messages)


def test_the_next_turn_follows_what_another_process_decided(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        agent = make(db, ScriptedModel([say("one"), say("two")]), tmp_path)
        agent.run_conversation("a")
        assert agent.workspace.mode == "guarded"
        with SessionDB(tmp_path / "state.db") as other:
            other.set_wall_mode("s", "full")
            other.set_wall_folders("s", ["/srv"])
        agent.run_conversation("b")
        assert agent.workspace.mode == "full"
        assert agent.workspace.folders == [Path("/srv")]
