"""`python -m tests.fuzz --minutes M`: search for failures with random seeds.

It runs every test that draws what it tries, round after round, each round with a seed of its own,
until the time is over. `--seed N` repeats the round with that seed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST_TEST = 1800
"""Seconds for one test: finding the shortest case takes a while."""
PASSED, FAILED, NO_TESTS = 0, 1, 5
"""What pytest says that a search goes on after."""


def main(arguments: list[str]) -> int:
    """Search; 0 if nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the first round; alone, of the only one")
    parser.add_argument("--minutes", type=float, help="when to stop (10 unless a seed is given)")
    parser.add_argument("--jobs", default="auto", help="processes, as for pytest's -n")
    options, others = parser.parse_known_args(arguments)
    minutes = options.minutes
    if minutes is None and options.seed is None:
        minutes = 10.0
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        failed = Path(folder, "failed")
        rounds, stopped = 0, False
        while not stopped and (rounds == 0 or _time_is_left(began, minutes)):
            rounds += 1
            print(f"round {rounds}, seed {seed}, {_passed(began, minutes)}", flush=True)
            until = None if minutes is None else began + 60 * minutes
            code = run_round(seed, until, failed, [*_parallel(options.jobs), *others])
            if code not in (PASSED, FAILED, NO_TESTS):
                return code
            stopped = minutes is None or code == NO_TESTS
            seed += 1
        commands = failed.read_text(encoding="utf-8") if failed.exists() else ""
    print(f"{rounds} {'round' if rounds == 1 else 'rounds'}, {_passed(began, minutes)}: ", end="")
    if not commands:
        print("nothing failed." if code != NO_TESTS else "there was no test to run.")
        return code
    print(f"{len(commands.splitlines())} failed. Each again, with its shortest case:\n{commands}")
    return FAILED


def run_round(seed: int, until: float | None, failed: Path, arguments: list[str]) -> int:
    """Every test that draws, once; the exit code of pytest."""
    environ = {**os.environ, "HERMES_FUZZ_SEED": str(seed), "HERMES_FUZZ_FAILED": str(failed)}
    if until is not None:
        environ["HERMES_FUZZ_UNTIL"] = str(until)
    pytest = [sys.executable, "-m", "pytest", "--tb=short", f"--timeout={LONGEST_TEST}"]
    return subprocess.run([*pytest, *arguments], cwd=ROOT, env=environ, check=False).returncode


def _parallel(jobs: str) -> list[str]:
    return ["-n", jobs, "--maxprocesses", "4", "--dist", "worksteal"]


def _time_is_left(began: float, minutes: float | None) -> bool:
    return minutes is not None and time.time() < began + 60 * minutes


def _passed(began: float, minutes: float | None) -> str:
    passed = f"{(time.time() - began) / 60:.1f}"
    return f"{passed} minutes" if minutes is None else f"{passed} of {minutes:g} minutes"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
