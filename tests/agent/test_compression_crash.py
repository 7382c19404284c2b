"""Killed in the middle of a compression, alone or beside another process: nothing is half done."""

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
from .compressing import check_conversation

CHILD = Path(__file__).with_name("compressing_child.py")
KILLS = seeds.times(4, 12)


class Child:
    """One talking process after the other, each going on where the last one was killed."""

    def __init__(self, folder: Path, name: str, mode: str) -> None:
        self.folder, self.name, self.mode = folder, name, mode
        self.asked = self.answered = -1
        self.acknowledged: set[int] = set()

    def start(self) -> None:
        arguments = [str(self.folder), self.name, str(self.asked + 1), self.mode]
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), *arguments], stdout=subprocess.PIPE, text=True
        )

    def wait_for_lines(self, count: int) -> None:
        assert self._process.stdout is not None
        for _ in range(count):
            self._read(self._process.stdout.readline())

    def kill(self) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        for line in self._process.stdout.read().splitlines():
            self._read(line)
        self._process.wait()

    def _read(self, line: str) -> None:
        what, _, number = line.strip().partition(" ")
        if what == "asking" and number:
            self.asked = max(self.asked, int(number))
        elif what == "answered" and number:
            self.acknowledged.add(int(number))

    def marks(self) -> list[str]:
        return [f"{self.name}{number}" for number in sorted(self.acknowledged)]


@pytest.mark.fuzz
@pytest.mark.parametrize("mode", ["rotation", "in_place"])
@pytest.mark.parametrize("children", [1, 2])
def test_killed_at_random_moments(tmp_path: Path, mode: str, children: int) -> None:
    chance = random.Random(seeds.seed())
    running = [Child(tmp_path, f"child{n}q", mode) for n in range(children)]
    for _ in range(KILLS // children):
        for child in running:
            child.start()
        for child in running:
            child.wait_for_lines(chance.randint(1, 24))
        time.sleep(chance.uniform(0, 0.03))
        for child in running:
            child.kill()
        with SessionDB(tmp_path / "state.db") as db:
            agent = AIAgent(ScriptedModel([say("I am back.")]), db=db, session_id="s")
            assert agent.run_conversation("Are you there?")["final_response"] == "I am back."
            marks = [mark for child in running for mark in child.marks()]
            # Without a lease on the turn, two processes' messages may stand side by side.
            check_conversation(db, "s", marks, valid=children == 1)
            assert agent.session_id == db.get_compression_tip("s")
            assert len(db.get_compression_lineage("s")) == 1 or mode == "rotation"
            for row in db.get_messages("s", include_inactive=True):
                assert row["active"] or row["compacted"], "nothing was taken back"
    assert all(child.acknowledged for child in running)
    with SessionDB(tmp_path / "state.db") as db:
        lineage = db.get_compression_lineage("s")
        rows = db.get_messages("s", include_inactive=True)
        assert len(lineage) > 1 or any(row["compacted"] for row in rows), "never compressed"
