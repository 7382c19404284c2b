"""A goal whose process is killed at its writes: each step once, and it is met in the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_state import SessionDB

ROOT = Path(__file__).parents[2]


def go_on(path: Path, die_at: int = 0) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.agent.goal_child", str(path), str(die_at)],
        capture_output=True, text=True, check=False, timeout=120, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.long
@pytest.mark.sqlite
def test_no_step_is_lost_or_doubled_whatever_is_killed(tmp_path: Path) -> None:
    killed = 0
    for die_at in (1, 2, 3, 4, 5, 7):
        path = tmp_path / f"{die_at}.db"
        with SessionDB(path) as db:
            db.create_session("s", "cli")
            db.set_goal("s", "work", "[Goal] begin")
        killed += go_on(path, die_at) != 0
        assert go_on(path) == 0
        with SessionDB(path) as db:
            goal = db.get_goal("s")
            assert goal is not None and goal["status"] == "met", (die_at, goal)
            steps = [row for row in db.get_messages("s") if "[Goal]" in str(row["content"])]
            assert len(steps) == goal["step"] and goal["step"] in (3, 4), (die_at, goal)
            assert not db.has_notes("s") and db.list_stalled_goals() == []
    assert killed >= 3
