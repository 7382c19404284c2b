"""Turns on a disk that is full, read-only, failing or slow.

An answer that was told is in the store. A turn that was refused says why, leaves a valid history,
and runs nothing twice. When the disk is well again the same agent goes on.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.model import ModelRequest
from agent.scripted import Call, ScriptedModel, Step, calls, say
from hermes_state import SessionDB
from hermes_state.connection import damage_marker
from tools.base import ToolContext, tool
from tools.registry import Registry

from ..agent.histories import problems
from ..state.faults import KINDS, Disk, faulty_disk
from ..state.memory import memory_folder
from . import summary

pytestmark = pytest.mark.sqlite

SEED = summary.seed()
TURNS = 41
"""The last is on a disk that is well, and closes what one before it had to leave open."""
WORDS = {
    "full": ("No room left on the disk",),
    "read-only": ("read-only", "cannot be written", "cannot be opened"),
    "io": ("Reading or writing", "cannot be opened"),
    "slow": (),
}
"""What a refusal must say; one of these."""


class Lab:
    """An agent with a tool that leaves marks, on a disk that can be made to fail."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.disk = disk
        self.marks: list[str] = []
        self.db = SessionDB(folder / "state.db")
        self._model = ScriptedModel(itertools.repeat(self._step), record=False)

        def leave_mark(context: ToolContext, mark: str) -> str:
            self.marks.append(mark)
            return f"marked {mark}"

        self._tools = Registry([tool(toolset="test", effect="effectful")(leave_mark)])
        self.agent = self.new_agent()

    def new_agent(self, session_id: str = "s") -> AIAgent:
        """Another agent on the same conversation."""
        return AIAgent(self._model, db=self.db, session_id=session_id, tools=self._tools)

    @staticmethod
    def _step(request: ModelRequest) -> Step:
        """Two rounds of marks, then the answer; which is next follows from the messages."""
        messages = request.messages
        asked = max(n for n, one in enumerate(messages) if one["role"] == "user")
        name = str(messages[asked]["content"]).split()[0]
        rounds = sum(one["role"] == "assistant" for one in messages[asked:])
        if rounds >= 2:
            return say(f"done with {name}")
        return calls(
            Call("leave_mark", {"mark": f"{name}/{rounds}.{n}"}, f"{name}-{rounds}-{n}")
            for n in range(2)
        )

    def ask(self, name: str) -> dict[str, Any]:
        return self.agent.run_conversation(f"{name} please")

    def history(self) -> list[dict[str, Any]]:
        return self.db.get_messages_as_conversation(self.agent.session_id)

    def check(self, told: list[str]) -> None:
        """Everything that was told is there, in order; the history is valid; nothing ran twice."""
        history = self.history()
        said = [str(one["content"]) for one in history if one["role"] == "assistant"]
        answers = [text for text in said if text.startswith("done with")]
        assert [text for text in answers if text in told] == told
        assert len(answers) == len(set(answers))
        assert problems(history) == []
        assert self.db.check_store() == []
        assert len(self.marks) == len(set(self.marks)), "a tool was run twice"
        assert not damage_marker(self.db.db_path).exists(), "it was taken for damaged"
        results = {str(one["content"]) for one in history if one["role"] == "tool"}
        for text in told:
            name = text.removeprefix("done with ")
            assert {f"marked {name}/{n}.{m}" for n in range(2) for m in range(2)} <= results


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    # A turn whose end could not be stored is waited for until its lease has run out.
    monkeypatch.setattr("hermes_state.turns.LEASE_SECONDS", 0.05)
    monkeypatch.setattr("agent.running.WAITING_SECONDS", 0.01)
    with memory_folder(tmp_path) as folder, faulty_disk(folder, SEED) as disk:
        made = Lab(folder, disk)
        yield made
        made.db.close()


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_told_is_stored_and_the_agent_goes_on(lab: Lab, kind: str) -> None:
    chance = random.Random(f"{SEED}/{kind}")
    told: list[str] = []
    refused = 0
    for number in range(TURNS):
        fails: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if number % 2:
            likelihood = 1.0 if kind == "slow" else chance.choice([0.02, 0.1, 0.4, 1.0])
            fails = lab.disk.failing(kind, likelihood, pause=0.001)
        with fails:
            result = lab.ask(f"t{number}")
        if result["completed"]:
            assert result["final_response"] == f"done with t{number}"
            told.append(result["final_response"])
        else:
            refused += 1
            assert number % 2, f"turn {number} failed on a disk that is well: {result['error']}"
            assert result["failed"] and result["final_response"] is None
            assert any(word in str(result["error"]) for word in WORDS[kind]), result["error"]
        if number % 2 == 0:
            lab.check(told)
    assert len(told) >= TURNS / 2
    assert bool(refused) == (kind != "slow")
    lab.check(told)


@pytest.mark.parametrize("kind", ["full", "read-only", "io"])
def test_a_turn_that_cannot_begin_leaves_no_trace(lab: Lab, kind: str) -> None:
    lab.ask("first")
    before = lab.history()
    with lab.disk.failing(kind):
        for _ in range(3):
            assert lab.ask("refused")["failed"]
    assert lab.history() == before
    assert lab.ask("second")["completed"]
    lab.check(["done with first", "done with second"])


@pytest.mark.parametrize("kind", ["full", "read-only", "io"])
def test_a_disk_that_fails_in_the_middle_of_a_turn_stops_it_before_the_next_tool(
    lab: Lab, kind: str
) -> None:
    lab.ask("first")
    stack = contextlib.ExitStack()

    def mark_and_fail(context: ToolContext, mark: str) -> str:
        lab.marks.append(mark)
        stack.enter_context(lab.disk.failing(kind))
        return f"marked {mark}"

    mark_and_fail.__name__ = "leave_mark"
    plain, lab._tools = (
        lab._tools,
        Registry([tool(toolset="test", effect="effectful")(mark_and_fail)]),
    )
    lab.agent, well = lab.new_agent(), lab.agent
    with stack:
        result = lab.ask("broken")
    assert result["failed"]
    assert any(word in result["error"] for word in WORDS[kind]), result["error"]
    ran = [mark for mark in lab.marks if mark.startswith("broken")]
    assert "broken/1.0" not in ran, "it went on to the next step"
    lab._tools, lab.agent = plain, well
    assert lab.ask("second")["completed"]
    lab.check(["done with first", "done with second"])
    assert [mark for mark in lab.marks if mark.startswith("broken")] == ran
    unknown = [
        one for one in lab.history() if one["role"] == "tool" and "broken" in one["tool_call_id"]
    ]
    assert len(unknown) == 2, "each of its calls has a result, if only that it is unknown"
