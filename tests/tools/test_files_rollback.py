"""Rollbacks under SIGKILL, and any sequence of edits and rollbacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tools.base import ToolContext, TurnFacts, Workspace
from tools.checkpoints import list_checkpoints, restore
from tools.files.patch import patch
from tools.files.read import read_file
from tools.files.write import write_file

from .. import seeds

# Killed in the middle of a patch over several files.

PATCHER = """
import sys
from pathlib import Path
from tools.base import ToolContext, Workspace, TurnFacts
from tools.files.patch import patch

home, folder = map(Path, sys.argv[1:])
context = ToolContext("s", "c", workspace=Workspace(home, folder))
print("ready", flush=True)
for turn in range(10**6):
    context.turn = TurnFacts(str(turn))
    text = "*** Begin Patch\\n" + "".join(
        f"*** Update File: {n}\\n-{turn}\\n+{turn + 1}\\n" for n in range(8)
    )
    patch.run(context, "patch", patch=text)
"""


@pytest.mark.fuzz
def test_a_turn_that_was_killed_can_be_rolled_back(tmp_path: Path) -> None:
    for attempt in range(seeds.times(3, 12)):
        home, folder = tmp_path / f"home{attempt}", tmp_path / f"project{attempt}"
        home.mkdir()
        folder.mkdir()
        for number in range(8):
            (folder / f"{number}").write_text("0\n")
        child = subprocess.Popen(
            [sys.executable, "-c", PATCHER, str(home), str(folder)], stdout=subprocess.PIPE
        )
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        workspace = Workspace(home, folder)
        while len(list_checkpoints(workspace, "s")) < 2 + attempt:
            assert child.poll() is None
        child.kill()
        child.wait()
        child.stdout.close()
        for path in folder.glob(".hermes-*"):
            path.unlink()  # what the next write there would sweep up in an hour
        values = {int((folder / f"{n}").read_text()) for n in range(8)}
        assert len(values) <= 2
        newest = list_checkpoints(workspace, "s")[0]
        restore(workspace, "s", newest.id)
        values = {int((folder / f"{n}").read_text()) for n in range(8)}
        assert len(values) == 1, "each file is as it was before the turn"


# Any sequence of edits and rollbacks, against a model that simply remembers everything.


class Rollbacks(RuleBasedStateMachine):
    names = st.sampled_from(["a", "b", "d/c"])
    contents = st.sampled_from(["", "x\n", "y\r\n", "é", "longer\ntext\n"])

    @initialize()
    def start(self) -> None:
        self.root = Path(os.environ["CHECKPOINT_TEST_FOLDER"]) / os.urandom(4).hex()
        (self.root / "home").mkdir(parents=True)
        (self.root / "project").mkdir()
        workspace = Workspace(self.root / "home", self.root / "project")
        self.context = ToolContext("s", "c", workspace=workspace)
        self.states: list[dict[str, Any]] = []
        self.new_turn()

    def teardown(self) -> None:
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    def files(self) -> dict[str, Any]:
        return {
            str(path.relative_to(self.project)): (path.read_bytes(), path.stat().st_mode)
            for path in self.project.rglob("*")
            if path.is_file()
        }

    @property
    def project(self) -> Path:
        return self.root / "project"

    @rule()
    def new_turn(self) -> None:
        self.states.append(self.files())
        self.known = {found.id for found in list_checkpoints(self.context.workspace, "s")}
        self.context.turn = TurnFacts(f"t{len(self.states)}")

    @rule(name=names, content=contents)
    def write(self, name: str, content: str) -> None:
        if (self.project / name).exists():
            read_file.run(self.context, name)
        write_file.run(self.context, name, content)

    @rule(name=names)
    def delete(self, name: str) -> None:
        if (self.project / name).exists():
            read_file.run(self.context, name)
            text = f"*** Begin Patch\n*** Delete File: {name}\n*** End Patch"
            patch.run(self.context, "patch", patch=text)

    @rule(name=names, mode=st.sampled_from([0o600, 0o755]))
    def set_mode(self, name: str, mode: int) -> None:
        if (self.project / name).exists():
            (self.project / name).chmod(mode)
            self.new_turn()

    @rule()
    def roll_back_the_turn(self) -> None:
        known = self.known
        for checkpoint in list_checkpoints(self.context.workspace, "s"):
            if checkpoint.id not in known:
                restore(self.context.workspace, "s", checkpoint.id)
        assert self.files() == self.states[-1]
        self.new_turn()

    @invariant()
    def nothing_is_left_over(self) -> None:
        if hasattr(self, "root"):
            assert not list(self.project.rglob(".hermes-*"))


@pytest.mark.fuzz
def test_any_sequence_of_edits_and_rollbacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKPOINT_TEST_FOLDER", str(tmp_path))
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Rollbacks,
        settings=settings(
            max_examples=seeds.examples(15),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
