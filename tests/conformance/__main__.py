"""`python -m tests.conformance --kills N --seed S`: the suite by itself, with its table.

`python -m tests.conformance soak` lets a gateway live with many chats and be killed all the time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import report
from .replicas import run as replicas

FOLDER = Path(__file__).parent
PAGES = (FOLDER.parents[1] / "README.md", FOLDER.parents[1] / "docs" / "conformance.md")
"""Where the table of a run is shown."""
ROWS = (
    "consume_once",
    "occurrences",
    "recovery_determinism",
    "checkpoint_validity",
    "fork_determinism",
    "effects_exactly_once",
    "prefix_continuation",
    "take_over",
)
"""The properties, those that take longest first."""
OURS = ("engine:Engine", "server:Server", "gateway:Gateway", "jobs:Jobs")
PROCESSES = 8
"""How many want the same thing at once; a test run of the project has fewer."""
TIMEOUT, SECONDS_A_KILL = 300, 10
"""When a cell counts as hanging: a test may take as long as in a short run, and so much longer for
each kill, on a machine that has other things to do."""
NO_TESTS = 5
"""What pytest says when a choice has left nothing."""


def main(arguments: list[str]) -> int:
    """Run the suite; 0 if every property held."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="how many kills, about, in all")
    parser.add_argument("--seed", type=int, help="where they fall; chosen and printed if left out")
    parser.add_argument(
        "--implementation",
        action="append",
        metavar="MODULE:CLASS",
        help="what to look at instead of Hermes itself; may be given several times",
    )
    parser.add_argument("--only", metavar="EXPRESSION", help="pytest's -k: some cells only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cells at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found there")
    parser.add_argument(
        "--readme",
        action="store_true",
        help=f"put the table into README.md and docs/conformance.md, between {report.BEGIN} and"
        f" {report.END}",
    )
    parser.add_argument("--soak", type=Path, metavar="FILE", help="with it, what a soak has found")
    parser.add_argument("--from", dest="known", type=Path, metavar="FILE", help="show a run again")
    replicas.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.replicas:
        return replicas.main(options)
    found = json.loads(options.known.read_text()) if options.known else run(options)
    cells = found["cells"]
    for line in (*report.table(cells), report.totals(cells), f"It took {found['seconds']} s."):
        print(line)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.readme:
        soak = json.loads(options.soak.read_text()) if options.soak else None
        command = f"make conformance N={found['wanted']} SEED={found['seed']}"
        for page in PAGES:
            if not report.update_readme(page, report.block(cells, command, soak)):
                print(f"{page} has no {report.BEGIN} and {report.END}", file=sys.stderr)
                return 2
    return 1 if any(cell["violations"] for cell in cells) or not cells else 0


def run(options: argparse.Namespace) -> report.Facts:
    """Go through all cells, several at once; what was found, for the table and for programs."""
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    chosen = options.implementation or [f"{__package__}.implementations.{one}" for one in OURS]
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(run_cell, row, one, options.kills / len(chosen), seed, options.only)
            for row in ROWS
            for one in chosen
        ]
        cells = [cell for job in jobs for cell in job.result()]
    # As people read it: in the order of the names, as pytest would go through the files.
    cells.sort(key=lambda cell: str(cell["property"]))
    seconds = round(time.monotonic() - began)
    wanted = {"seed": seed, "wanted": options.kills}
    return {**wanted, "seconds": seconds, "cells": report.merged(cells)}


def run_cell(
    row: str, implementation: str, kills: float, seed: int, only: str | None
) -> list[report.Facts]:
    """One cell in a pytest of its own; tells how it went."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found.json")
        environment = {
            **os.environ,
            "CONFORMANCE_KILLS": str(round(kills)),
            "CONFORMANCE_PROCESSES": str(PROCESSES),
            "CONFORMANCE_SEED": str(seed),
            "CONFORMANCE_IMPLEMENTATIONS": implementation,
            "CONFORMANCE_JSON": str(found),
        }
        chosen = ["-k", only] if only else []
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", str(FOLDER / f"test_{row}.py"), *chosen,
                f"--timeout={TIMEOUT + round(kills * SECONDS_A_KILL)}",
            ],
            env=environment,
            cwd=FOLDER.parents[1],
            capture_output=True,
            text=True,
        )  # fmt: skip
        if done.returncode not in (0, NO_TESTS):
            print(done.stdout, done.stderr, flush=True)
        cells: list[report.Facts] = json.loads(found.read_text())["cells"] if found.exists() else []
    if done.returncode not in (0, NO_TESTS) and not any(cell["violations"] for cell in cells):
        name = implementation.rpartition(":")[2]
        failed = {"property": row.replace("_", " "), "implementation": name, "skipped": ""}
        numbers = dict.fromkeys(("kills", "named", "reached", "cut_off", "seconds"), 0)
        cells.append({**failed, **numbers, "violations": [f"pytest failed: {done.returncode}"]})
    for cell in report.merged(cells):
        print(
            f"{cell['property']}, {cell['implementation']}: {cell['kills']} kills,"
            f" {len(cell['violations'])} violations, {cell['seconds']:.0f} s",
            flush=True,
        )
    return cells


if __name__ == "__main__":
    if sys.argv[1:2] == ["soak"]:
        from .soak import main as soak

        sys.exit(soak(sys.argv[2:]))
    sys.exit(main(sys.argv[1:]))
