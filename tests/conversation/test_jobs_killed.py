"""Jobs whose process is killed at every write between the claim and the end of a run.

Every occurrence ends in exactly one of delivered, skipped by rule, failed and told; its answer is
delivered once, and what its script does is done at most once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.jobs.job import JobSettings
from hermes_state import SessionDB

from .. import seeds

CHILD = "tests.conversation.job_child"
CHAT = {"session_key": "k", "platform": "local", "chat_id": "1", "thread_id": None}
POINTS = [(number, when) for number in range(1, 12) for when in ("before", "after")]


def run(home: Path, die_at: int = 0, when: str = "after") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", CHILD, str(home), str(die_at), when],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "HERMES_HOME": str(home)},
    )  # fmt: skip


def add(home: Path, job_id: str, **settings: Any) -> None:
    kept = JobSettings(deliver="chat", to=CHAT, mode="full", **settings).kept()
    with SessionDB(home / "state.db") as db:
        due = int(db.now()) - 1
        db.add_job(
            job_id, user_id=None, name=job_id, schedule=f"at {due}", timezone="UTC", settings=kept,
            next_due=due, next_at=due,
        )  # fmt: skip


def outcome(home: Path, job_id: str) -> tuple[str, list[str]]:
    """How the only run of a job ended, and what its chat gets."""
    with SessionDB(home / "state.db") as db:
        assert db.list_waiting(source="job") == [] and db.list_open_runs() == []
        [ended] = db.list_job_runs(job_id)
        texts = [
            row["content"]
            for row in db.list_deliveries(("pending", "sending", "delivered", "failed"))
            if f"job:{job_id}:" in row["obligation_id"]
        ]
        return str(ended["state"]), texts


def see_to_its_end(home: Path) -> None:
    for _ in range(5):
        done = run(home)
        assert done.returncode == 0, done.stderr
        with SessionDB(home / "state.db") as db:
            if not db.list_open_runs() and (db.next_job_at() or 1e12) > db.now():
                return


@pytest.mark.long
@pytest.mark.fuzz
@pytest.mark.sqlite
def test_an_occurrence_survives_a_kill_at_every_write(tmp_path: Path) -> None:
    killed = 0
    points = [POINTS[number] for number in range(0, len(POINTS), seeds.times(4, 1))]
    for die_at, when in points:
        job_id = f"j{die_at}{when}"
        add(tmp_path, job_id, prompt="Tea", kind="message")
        done = run(tmp_path, die_at, when)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        killed += done.returncode != 0
        see_to_its_end(tmp_path)
        state, texts = outcome(tmp_path, job_id)
        assert (state, texts) == ("delivered", ["⏰ Tea"]), (die_at, when)
    assert killed >= 3


@pytest.mark.long
@pytest.mark.fuzz
@pytest.mark.sqlite
def test_of_several_processes_that_die_each_occurrence_is_answered_once(tmp_path: Path) -> None:
    rounds = seeds.times(1, 12)
    for number in range(rounds):
        jobs = [f"r{number}j{index}" for index in range(6)]
        for job_id in jobs:
            add(tmp_path, job_id, prompt=job_id, kind="message")
        draws = random.Random(seeds.seed() + number)
        children = [
            subprocess.Popen(
                [sys.executable, "-m", CHILD, str(tmp_path), str(draws.randint(1, 40)),
                 draws.choice(["before", "after"])],
                stdout=subprocess.DEVNULL, env={**os.environ, "HERMES_HOME": str(tmp_path)},
            )
            for _ in range(draws.choice([2, 4]))
        ]  # fmt: skip
        for child in children:
            assert child.wait(120) in (0, -signal.SIGKILL)
        see_to_its_end(tmp_path)
        for job_id in jobs:
            assert outcome(tmp_path, job_id) == ("delivered", [f"⏰ {job_id}"])


@pytest.mark.long
@pytest.mark.fuzz
@pytest.mark.sqlite
def test_what_a_script_does_is_done_at_most_once(tmp_path: Path) -> None:
    points = [POINTS[number] for number in range(6, len(POINTS), seeds.times(5, 1))]
    for die_at, when in points:
        job_id, done = f"s{die_at}{when}", tmp_path / f"{die_at}{when}"
        add(tmp_path, job_id, kind="script", script=f"echo once >> {done}; echo printed")
        run(tmp_path, die_at, when)
        see_to_its_end(tmp_path)
        state, texts = outcome(tmp_path, job_id)
        assert state == "delivered" and len(texts) == 1, (die_at, when, state, texts)
        times = done.read_text().count("once") if done.exists() else 0
        assert times == 1 if "printed" in texts[0] else times <= 1, (die_at, when, texts)
