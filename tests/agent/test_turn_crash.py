"""Killed in the middle of a turn: nothing acknowledged is lost, and the next turn works."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.agent import AIAgent
from agent.scripted import ScriptedModel, say
from hermes_state import SessionDB

from .. import seeds
from .histories import problems

CHILD = Path(__file__).with_name("turning_child.py")
KILLS = seeds.times(10, 25)


@pytest.mark.fuzz
def test_killed_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(seeds.seed())
    asked = answered = -1
    for _ in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(tmp_path), str(asked + 1)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        # Some turns, however long they take, and then a moment that is random within one.
        lines = [child.stdout.readline() for _ in range(chance.randint(1, 4))]
        time.sleep(chance.uniform(0, 0.01))
        child.kill()
        lines += child.stdout.read().splitlines()
        child.wait()
        for line in lines:
            what, _, number = line.strip().partition(" ")
            if what == "asking" and number:
                asked = max(asked, int(number))
            elif what == "answered" and number:
                answered = max(answered, int(number))
        with SessionDB(tmp_path / "state.db") as db:
            check(db, answered, tmp_path)
    assert answered > 0


def check(db: SessionDB, answered: int, folder: Path) -> None:
    agent = AIAgent(ScriptedModel([say("I am back.")]), db=db, session_id="s")
    assert agent.run_conversation("Are you there?")["final_response"] == "I am back."
    messages = db.get_messages("s")
    assert problems(messages) == []
    texts = [m["content"] for m in messages]
    for number in range(answered + 1):
        assert texts.count(f"question {number}") <= 1
    for line in texts:
        if isinstance(line, str) and line.startswith("answer "):
            assert texts.count(line) == 1
    if answered >= 0:
        assert f"answer {answered}" in texts
    effects = folder / "effects"
    marks = effects.read_text().split() if effects.exists() else []
    assert len(marks) == len(set(marks)), "a tool ran twice"
    for mark in marks:
        # It ran, so its call is stored; its result is stored too, or said to be unknown.
        assert any(f'"{mark}"' in str(m["tool_calls"]) for m in messages)
