"""Killed while a tool runs: nothing of it is left, and the history says what is not known."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.agent import AIAgent
from agent.scripted import ScriptedModel, say
from hermes_state import SessionDB
from tools.processes.ledger import reap_orphans

CHILD = Path(__file__).with_name("commanding_child.py")


def commands_of(folder: Path) -> list[str]:
    """The sleeping commands of this test that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            where = (path / "cwd").readlink()
        except OSError:
            continue  # it has just ended
        if line.startswith("sleep 98") and where == folder:
            found.append(line.strip())
    return sorted(found)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
def test_a_killed_agent_leaves_no_orphans_and_an_honest_history(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "under way\n"
    while "sleep 989" not in commands_of(folder):  # the shell says so just before it starts it
        time.sleep(0.01)
    child.kill()
    child.wait()
    child.stdout.close()
    assert "sleep 989" in commands_of(folder)
    reap_orphans(folder)
    assert commands_of(folder) == []
    with SessionDB(folder / "state.db") as db:
        model = ScriptedModel([say("I do not know whether it ran.")])
        agent = AIAgent(model, db=db, session_id="s")
        agent.run_conversation("And?")
        sent = model.requests[0].messages
        assert [m["role"] for m in sent] == ["user", "assistant", "tool", "assistant", "user"]
        assert "outcome unknown" in sent[2]["content"]
