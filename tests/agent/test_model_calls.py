"""Every model call leaves a row: with the step it led to, or however else it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from learning import new_agent, settled, side_model

from agent.agent import AIAgent
from agent.errors import AuthenticationError
from agent.learning.learner import LearningSettings
from agent.model import Usage
from agent.request import Question
from agent.scripted import ScriptedModel, call, fail, say
from hermes_state import SessionDB
from hermes_state.dialect import Connection, rows
from hermes_state.opening import FileConnection
from tools.base import ToolContext, tool
from tools.delegate import delegate_task
from tools.registry import Registry


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def stored_calls(db: SessionDB) -> list[dict[str, Any]]:
    def read(conn: Connection) -> list[dict[str, Any]]:
        return rows(conn, "SELECT * FROM model_calls ORDER BY made_at")

    return db._database.read(read)


def echo(context: ToolContext, text: str) -> str:
    return text


def tools() -> Registry:
    return Registry([tool(toolset="test", effect="none")(echo)])


def test_each_call_of_a_turn_has_its_row(db: SessionDB) -> None:
    asked = call("echo", text="a")
    model = ScriptedModel([asked, say("done", usage=Usage(100, 20, 50, 5, 7))], name="gpt-5")
    agent = AIAgent(
        model, db=db, user_id="ada", platform="telegram", tools=tools(),
        session_facts={"session_key": "k"},
    )  # fmt: skip
    agent.run_conversation("hello")
    first, last = stored_calls(db)
    for row in (first, last):
        assert (row["task"], row["outcome"], row["model"]) == ("turn", "complete", "gpt-5")
        assert (row["user_id"], row["session_key"], row["source"]) == ("ada", "k", "telegram")
        assert row["session_id"] == row["conversation_id"] == agent.session_id
        assert 0 <= row["first_token_seconds"] <= row["seconds"]
    counted = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    assert [last[name] for name in counted] == [100, 20, 50, 5]
    session = db.get_session(agent.session_id)
    assert session is not None
    assert session["estimated_cost_usd"] == pytest.approx(first["cost_usd"] + last["cost_usd"])


def test_a_call_that_failed_has_its_row_too(db: SessionDB) -> None:
    agent = AIAgent(ScriptedModel([fail(AuthenticationError("no key"))]), db=db)
    assert agent.run_conversation("hello")["failed"]
    (row,) = stored_calls(db)
    assert (row["outcome"], row["input_tokens"], row["cost_usd"]) == ("error", 0, None)
    session = db.get_session(agent.session_id)
    assert session is not None and session["api_call_count"] == 0


async def test_a_call_that_was_interrupted_has_its_row_too(db: SessionDB) -> None:
    spoken, never = asyncio.Event(), asyncio.Event()
    agent = AIAgent(ScriptedModel([say("a word", spoken.set, never.wait)]), db=db)
    turn = asyncio.create_task(agent.run(Question("hello")))
    await asyncio.wait_for(spoken.wait(), 30)
    agent.interrupt()
    assert (await turn).interrupted
    (row,) = stored_calls(db)
    assert row["outcome"] == "interrupted" and row["seconds"] >= 0


def test_side_tasks_and_sub_agents_count_for_whom_they_work(tmp_path: Path, db: SessionDB) -> None:
    steps = [call("delegate_task", goal="look"), say("found it"), say("done")]
    agent = new_agent(
        tmp_path, db, side=side_model("A title"), model=ScriptedModel(steps), user_id="ada",
        platform="telegram", tools=Registry([delegate_task]),
        settings=LearningSettings(titles=True, review_every=0),
        session_facts={"session_key": "k"},
    )  # fmt: skip
    agent.run_conversation("hello")
    settled(agent)
    names = ("task", "user_id", "session_key", "source")
    found = {tuple(row[name] for name in names) for row in stored_calls(db)}
    assert found == {
        (task, "ada", "k", "telegram") for task in ("turn", "delegation", "title_generation")
    }


def statements_of(db: SessionDB, work: Callable[[], object]) -> list[str]:
    """What the writing connection is told meanwhile."""
    told: list[str] = []
    writer = db._database._writer  # type: ignore[union-attr]
    assert isinstance(writer, FileConnection)
    writer.trace_v2(1, lambda event: told.append(event["sql"]))
    try:
        work()
    finally:
        writer.trace_v2(0, None)
    return told


def test_a_turn_takes_one_statement_more_per_call_and_no_commit(db: SessionDB) -> None:
    agent = AIAgent(ScriptedModel([say("one"), say("two")]), db=db)
    agent.run_conversation("first")
    told = statements_of(db, lambda: agent.run_conversation("second"))
    assert told.count("COMMIT") == 2  # the question; the answer with all that goes with it
    about_calls = [statement for statement in told if "model_calls" in statement]
    assert len(about_calls) == 1 and about_calls[0].startswith("INSERT INTO model_calls")
