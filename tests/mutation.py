"""`make mutation`: does a test notice when the code is wrong?

In a copy of the tree, cosmic-ray changes one thing at a time in a module and runs the tests that
are meant to guard it. A change that no test notices is printed. This takes long, so it is run on
request: all of `GUARDS`, or one module by its path, with at most so many changes each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]

GUARDS: dict[str, list[str]] = {
    "src/hermes_state/turns.py": ["tests/state/test_turns.py", "tests/state/test_turns_machine.py"],
    "src/hermes_state/tool_runs.py": [
        "tests/state/test_turns.py",
        "tests/state/test_turns_machine.py",
    ],
    "src/hermes_state/take_over.py": [
        "tests/state/test_turns.py",
        "tests/state/test_turns_machine.py",
    ],
    "src/hermes_state/turn_log.py": [
        "tests/state/test_turns.py",
        "tests/state/test_turn_log.py",
        "tests/state/test_turns_machine.py",
    ],
    "src/hermes_state/history.py": ["tests/state/test_history.py"],
    "src/hermes_state/inbox.py": ["tests/state/test_inbox.py"],
    "src/hermes_state/outbox.py": ["tests/state/test_outbox.py"],
    "src/hermes_state/messages.py": [
        "tests/state/test_messages.py",
        "tests/state/test_contract.py",
    ],
    "src/hermes_state/rotation.py": [
        "tests/state/test_lineage.py",
        "tests/state/test_turns.py",
        "tests/state/test_contract.py",
    ],
    "src/hermes_state/rewrites.py": ["tests/state/test_rewrites.py"],
    "src/hermes_state/usage.py": ["tests/state/test_usage.py", "tests/state/test_contract.py"],
    "src/hermes_state/approvals.py": ["tests/state/test_approvals.py"],
    "src/hermes_state/group_commit.py": [
        "tests/state/test_group_commit.py",
        "tests/state/test_group_commit_async.py",
    ],
    "src/agent/compression/policy.py": [
        "tests/agent/test_compression_parts.py",
        "tests/agent/test_compression_driver_policy.py",
    ],
    "src/agent/compression/plan.py": [
        "tests/agent/test_compression_parts.py",
        "tests/agent/test_compression_compress.py",
    ],
    "src/agent/compression/compress.py": [
        "tests/agent/test_compression_compress.py",
        "tests/agent/test_compression_summary.py",
    ],
    "src/agent/compression/merge.py": [
        "tests/agent/test_compression_parts.py",
        "tests/agent/test_compression_compress.py",
    ],
    "src/agent/compression/driver.py": [
        "tests/agent/test_compression_driver.py",
        "tests/agent/test_compression_driver_concurrent.py",
        "tests/agent/test_compression_driver_policy.py",
    ],
    "src/agent/compression/tokens.py": ["tests/agent/test_compression_tokens.py"],
    "src/agent/compression/summary.py": [
        "tests/agent/test_compression_summary.py",
        "tests/agent/test_compression_parts.py",
    ],
}
"""Modules, and the tests that must notice a fault in them."""

CONFIG = """[cosmic-ray]
module-path = "{module}"
timeout = {timeout}
excluded-modules = []
test-command = "{python} -m pytest -x -q -p no:cacheprovider {tests}"

[cosmic-ray.distributor]
name = "local"
"""


def main(arguments: list[str]) -> int:
    """Change and test; 0 if every change was noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", help="paths; all that have guards if left out")
    parser.add_argument("--most", type=int, default=40, help="changes for each module")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    given = parser.parse_args(arguments)
    if shutil.which("cosmic-ray") is None:
        print("cosmic-ray is not installed: pip install cosmic-ray", file=sys.stderr)
        return 2
    survivors = total = 0
    for module in given.modules or GUARDS:
        made, survived = mutate(module, given.most, random.Random(given.seed))
        total, survivors = total + made, survivors + len(survived)
        print(f"{module}: {made - len(survived)} of {made} changes were noticed", flush=True)
        for one in survived:
            print(one)
    print(f"{total - survivors} of {total} changes were noticed")
    return 1 if survivors else 0


def mutate(module: str, most: int, chance: random.Random) -> tuple[int, list[str]]:
    """How many changes were made in a module, and those that nobody noticed, as diffs."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "tree"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", ".bench", "out", "*cache*")
        )
        config = CONFIG.format(
            module=module, timeout=120, python=sys.executable, tests=" ".join(GUARDS[module])
        )
        (copy / "mutation.toml").write_text(config)
        # The copy's own packages, not those that are installed.
        environment = {"PYTHONPATH": str(copy / "src")}
        run = _runner(copy, environment)
        run("cosmic-ray", "init", "mutation.toml", "session.sqlite")
        _keep_some(copy / "session.sqlite", most, chance)
        run("cosmic-ray", "exec", "mutation.toml", "session.sqlite")
        lines = run("cosmic-ray", "dump", "session.sqlite").splitlines()
    outcomes = [json.loads(line)[1] for line in lines if line.strip()]
    made = [one for one in outcomes if one is not None]
    return len(made), [one["diff"] for one in made if one["test_outcome"] == "survived"]


def _runner(folder: Path, environment: dict[str, str]) -> Callable[..., str]:
    def run(*command: str) -> str:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        return done.stdout

    return run


def _keep_some(session: Path, most: int, chance: random.Random) -> None:
    """Leave a random choice of the changes that are to be made."""
    with sqlite3.connect(session) as db:
        # `str | None` is in annotations, which nobody runs.
        hints = "SELECT job_id FROM mutation_specs WHERE operator_name LIKE '%Operator_BitOr_%'"
        db.execute(f"DELETE FROM work_items WHERE job_id IN ({hints})")
        db.execute("DELETE FROM mutation_specs WHERE operator_name LIKE '%Operator_BitOr_%'")
        order = "ORDER BY operator_name, occurrence, start_pos_row, start_pos_col"
        jobs = [job for (job,) in db.execute(f"SELECT job_id FROM mutation_specs {order}")]
        for job in chance.sample(jobs, max(0, len(jobs) - most)):
            db.execute("DELETE FROM mutation_specs WHERE job_id = ?", (job,))
            db.execute("DELETE FROM work_items WHERE job_id = ?", (job,))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
