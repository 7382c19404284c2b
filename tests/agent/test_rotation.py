"""A compression moves a conversation to another session: whoever holds its id is told, once."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.compression.record import Record
from agent.config.schema import CompressionSettings
from agent.context_engine import ContextEngine
from agent.model import Message
from agent.request import TakenOver
from agent.rotation import HOLDERS, Rotation, RotationHolders
from agent.scripted import Call, calls, say
from hermes_base.session_context import get_session_env
from hermes_state import Lease, SessionDB, StoreError
from tools.base import ToolContext, Workspace, tool
from tools.checkpoints import list_checkpoints
from tools.files.write import write_file
from tools.registry import Registry

from .compressing import GOOD, Summariser, agent_on, in_place, store_talk, words


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as opened:
        yield opened


def recorder(agent: AIAgent) -> list[Rotation]:
    """What a front end of the agent is told."""
    told: list[Rotation] = []
    agent.holders.add("live session", told.append)
    return told


@tool(toolset="test", effect="none")
def read(context: ToolContext, number: int) -> str:
    """Read something long."""
    return f"contents {number} " * 300


def reading_agent(db: SessionDB, **options: Any) -> AIAgent:
    """An agent whose next turn reads so much that it is compressed more than once."""
    steps = [calls([Call("read", {"number": n}), Call("read", {"number": -n})]) for n in range(8)]
    agent, _ = agent_on(db, *steps, say("All read."), tools=Registry([read]), **options)
    return agent


ROTATION = Rotation("old", "new", "root")


def test_everybody_is_told_in_the_order_of_the_list() -> None:
    told: list[str] = []
    holders = RotationHolders()
    for name in reversed(HOLDERS):
        holders.add(name, lambda rotation, name=name: told.append(name))  # type: ignore[misc]
    holders.tell(ROTATION)
    assert told == holders.names == list(HOLDERS)


def test_who_is_not_in_the_list_cannot_be_added_and_nobody_twice() -> None:
    holders = RotationHolders()
    with pytest.raises(ValueError, match=r"'a drawer' is not among .*agent/rotation\.py"):
        holders.add("a drawer", print)
    holders.add("live session", print)
    with pytest.raises(ValueError, match="already"):
        holders.add("live session", print)


def test_one_that_fails_is_logged_and_the_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[Rotation] = []

    def fail(rotation: Rotation) -> None:
        raise OSError("no room")

    holders = RotationHolders()
    holders.add("chat bindings", fail)
    holders.add("live session", told.append)
    with caplog.at_level(logging.ERROR):
        holders.tell(ROTATION)
    assert told == [ROTATION]
    assert "The chat bindings did not follow from old to new" in caplog.text


def test_an_agent_has_those_of_its_own(db: SessionDB) -> None:
    agent, _ = agent_on(db)
    assert agent.holders.names == ["session context", "context engine", "memory providers"]


def test_rotations_in_the_middle_of_a_turn_are_told_one_after_the_other(db: SessionDB) -> None:
    agent = reading_agent(db)
    seen: list[tuple[str, str]] = []
    told = recorder(agent)
    agent.holders.add(
        "event hooks",
        lambda rotation: seen.append((agent.session_id, get_session_env("HERMES_SESSION_ID"))),
    )
    first = agent.session_id
    result = agent.run_conversation("Read the eight files.")
    lineage = db.get_compression_lineage(first)
    assert len(lineage) > 2, "compressed twice at least"
    assert told == [
        Rotation(old, new, first, in_turn=True) for old, new in itertools.pairwise(lineage)
    ]
    assert seen == [(new, new) for new in lineage[1:]]
    assert result["session_id"] == agent.session_id == lineage[-1]


def test_a_holder_that_fails_costs_the_turn_nothing(
    db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    agent = reading_agent(db)
    told = recorder(agent)

    def fail(rotation: Rotation) -> None:
        raise StoreError("the disk is full")

    agent.holders.add("chat bindings", fail)
    result = agent.run_conversation("Read the eight files.")
    assert result["final_response"] == "All read." and result["error"] is None
    assert len(told) == caplog.text.count("The chat bindings did not follow") > 1


@pytest.mark.parametrize("stays", [False, True])
def test_compress_by_hand_is_told_too(db: SessionDB, stays: bool) -> None:
    store_talk(db, "s", 30)
    settings = in_place() if stays else CompressionSettings()
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD), compression=settings)
    told = recorder(agent)
    assert agent.compress().compressed
    assert told == [Rotation("s", agent.session_id, "s", in_place=stays)]
    assert (agent.session_id == "s") is stays


def test_without_a_store_it_is_compressed_in_place() -> None:
    agent, _ = agent_on(None, session_id="s", auxiliary=Summariser(GOOD))
    told = recorder(agent)
    agent.run_conversation(
        "And?",
        [{"role": role, "content": words(n)} for n in range(20) for role in ("user", "assistant")],
    )
    assert agent.compress().compressed
    assert told[-1] == Rotation("s", "s", "s", in_place=True)


def test_what_was_not_compressed_is_not_told(db: SessionDB) -> None:
    store_talk(db, "s", 1)
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD))
    told = recorder(agent)
    assert not agent.compress(dry_run=True).compressed
    agent.run_conversation("Hello")
    assert told == []


def test_it_is_told_even_if_what_follows_the_commit_fails(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **more: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Record, "record_success", fail)
    store_talk(db, "s", 60)
    agent, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD))
    told = recorder(agent)
    assert agent.run_conversation("And now?")["failed"]
    assert [(one.old_session_id, one.new_session_id) for one in told] == [("s", agent.session_id)]
    assert agent.session_id == db.get_compression_tip("s") != "s"


def test_an_agent_that_finds_its_conversation_compressed_elsewhere_tells(db: SessionDB) -> None:
    store_talk(db, "s", 30)
    waits, _ = agent_on(db, session_id="s")
    told = recorder(waits)
    other, _ = agent_on(db, session_id="s", auxiliary=Summariser(GOOD))
    assert other.compress().compressed
    assert told == []
    waits.run_conversation("And now?")
    assert told == [Rotation("s", other.session_id, "s", elsewhere=True)]


def test_compressed_elsewhere_between_two_steps_of_a_turn(db: SessionDB) -> None:
    """Another process may compress while a turn runs: its next step is stored at the tip."""
    store_talk(db, "s", 2)

    @tool(toolset="test", effect="none")
    def elsewhere(context: ToolContext) -> str:
        """Stands for another process."""
        db.rotate_session("s", "s2", [{"role": "user", "content": "[a summary]"}])
        return "done"

    steps = calls([Call("elsewhere", {})]), say("ok")
    agent, _ = agent_on(db, *steps, session_id="s", tools=Registry([elsewhere]))
    told = recorder(agent)
    assert agent.run_conversation("Go.")["session_id"] == "s2"
    assert told == [Rotation("s", "s2", "s", in_turn=True, elsewhere=True)]


def test_moving_to_the_tip_of_its_own_conversation_is_following_it(db: SessionDB) -> None:
    store_talk(db, "s", 2)
    agent, _ = agent_on(db, session_id="s", system_prompt="Be brief.")
    agent.run_conversation("Hello")
    told = recorder(agent)
    db.rotate_session("s", "s2", [{"role": "user", "content": "[a summary]"}])
    agent.move_to("s2")
    assert told == [Rotation("s", "s2", "s", elsewhere=True)]
    assert agent._cached_system_prompt == "Be brief."
    agent.move_to("another")
    assert len(told) == 1 and agent.session_id == "another"


def abandoned_turn(db: SessionDB, session_id: str) -> Lease:
    """The lease of a turn whose process has not been heard of for long."""
    asked = {"role": "user", "content": "Go."}
    begun = db.begin_turn(session_id, asked, source="cli", facts={}, leased=True)
    db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 1"))
    assert begun.lease is not None
    return begun.lease


def test_a_turn_is_taken_over_where_its_process_had_moved_to(db: SessionDB) -> None:
    store_talk(db, "s", 2)
    agent, _ = agent_on(db, session_id="s")
    told = recorder(agent)
    lease = abandoned_turn(db, "s")
    db.rotate_session("s", "s2", [{"role": "user", "content": "Go."}])
    taken = db.take_over_turn(lease.conversation_id, lease.fence)
    assert taken is not None
    assert agent.run_blocking(TakenOver(taken)).text == "ok"
    assert told == [Rotation("s", "s2", "s", in_turn=True, elsewhere=True)]


def test_a_turn_of_another_conversation_is_no_rotation(db: SessionDB) -> None:
    store_talk(db, "s", 2)
    agent, _ = agent_on(db, session_id="another")
    told = recorder(agent)
    lease = abandoned_turn(db, "s")
    taken = db.take_over_turn(lease.conversation_id, lease.fence)
    assert taken is not None
    assert agent.run_blocking(TakenOver(taken)).session_id == "s"
    assert told == []


class Engine(ContextEngine):
    """Keeps what it is told of sessions."""

    def __init__(self) -> None:
        self.sessions: list[tuple[str, str | None, str | None]] = []

    @property
    def name(self) -> str:
        return "mine"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        return

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return bool(prompt_tokens and prompt_tokens > 2000)

    def compress(self, messages: list[Message], *args: Any, **more: Any) -> list[Message]:
        return [messages[0], *messages[-3:]]

    def on_session_start(self, session_id: str, **facts: Any) -> None:
        self.sessions.append(
            (session_id, facts.get("old_session_id"), facts.get("boundary_reason"))
        )


def test_a_context_engine_gets_every_new_id(db: SessionDB) -> None:
    engine = Engine()
    agent = reading_agent(db)
    agent.use_context_engine(engine)
    first = agent.session_id
    agent.run_conversation("Read the eight files.")
    agent.use_context_engine(None)  # waits until it has heard everything
    lineage = db.get_compression_lineage(first)
    assert len(lineage) > 2
    assert engine.sessions == [
        (first, None, None),
        *((new, old, "compression") for old, new in itertools.pairwise(lineage)),
    ]


def test_what_a_turn_changes_is_one_checkpoint_in_however_many_sessions(
    db: SessionDB, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path / "home", tmp_path / "project")
    workspace.cwd.mkdir()
    steps = [
        calls([Call("read", {"number": n}), Call("write_file", {"path": f"{n}", "content": "x"})])
        for n in range(8)
    ]
    tools = Registry([read, write_file])
    agent, _ = agent_on(db, *steps, say("ok"), tools=tools, workspace=workspace)
    first = agent.session_id
    agent.run_conversation("Write eight files.")
    assert len(db.get_compression_lineage(first)) > 2
    (checkpoint,) = list_checkpoints(workspace, first)
    assert len(checkpoint.files) == 8
