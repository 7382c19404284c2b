"""Mode smart from end to end: a turn whose command a side model looks at first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent import AIAgent
from agent.auxiliary import Auxiliary
from agent.errors import ConnectionFailedError
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, call, fail, say
from hermes_state import SessionDB
from tools.base import Workspace
from tools.registry import Registry
from tools.terminal.tool import terminal


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def verdict(word: str) -> ScriptedModel:
    def answer(request: ModelRequest) -> Step:
        found = re.search("the code ([0-9a-f]+),", request.system)
        assert found and "rm -r generated" in str(request.messages[0]["content"])
        return say(f"{found[1]} {word}")

    return ScriptedModel([answer])


def run(db: SessionDB, tmp_path: Path, judge: ScriptedModel) -> tuple[str, bool]:
    """What the tool said, and whether the folder is still there."""
    folder = tmp_path / "project" / "generated"
    folder.mkdir(parents=True)
    agent = AIAgent(
        ScriptedModel([call("terminal", command="rm -r generated"), say("Done.")]),
        db=db,
        session_id="s",
        tools=Registry([terminal]),
        workspace=Workspace(
            tmp_path / "home", folder.parent, settings={"approvals": {"mode": "smart"}}
        ),
        auxiliary=Auxiliary(lambda: judge),
    )
    result = agent.run_conversation("Tidy up")
    agent.close()
    assert result["completed"]
    (told,) = [one["content"] for one in result["messages"] if one["role"] == "tool"]
    return told, folder.exists()


def test_what_the_judge_approves_is_done(db: SessionDB, tmp_path: Path) -> None:
    _, is_there = run(db, tmp_path, verdict("approve"))
    assert not is_there
    assert [one["choice"] for one in db.list_approvals("s")] == ["smart_approve"]


def test_what_the_judge_denies_is_not(db: SessionDB, tmp_path: Path) -> None:
    told, is_there = run(db, tmp_path, verdict("deny"))
    assert is_there and "Not allowed" in told
    assert [one["choice"] for one in db.list_approvals("s")] == ["smart_deny"]


def test_a_judge_that_cannot_be_reached_changes_nothing(db: SessionDB, tmp_path: Path) -> None:
    told, is_there = run(db, tmp_path, ScriptedModel([fail(ConnectionFailedError)]))
    assert is_there and "Nobody is there" in told
    assert [one["how"] for one in db.list_approvals("s")] == ["nobody"]
