"""The table at the end of a test run, whichever processes its cells ran in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .. import seeds
from . import report

CELL = "conformance cell"
"""The property of a test's report that holds what was found in its cell."""


def choose_seed() -> None:
    """Let every process of a test run draw from one seed: the tests' own, unless one was given."""
    if not os.environ.get("CONFORMANCE_SEED"):
        os.environ["CONFORMANCE_SEED"] = str(seeds.seed())


def seed() -> int:
    """The seed of this test run."""
    return int(os.environ["CONFORMANCE_SEED"])


def write_table(terminal: Any) -> None:
    """For each property and implementation: kills and violations."""
    reports = [one for found in terminal.stats.values() for one in found]
    cells: list[report.Facts] = [
        value
        for one in reports
        if getattr(one, "when", None) == "teardown"
        for name, value in one.user_properties
        if name == CELL
    ]
    if not cells:
        return
    cells.sort(key=lambda one: one["property"])
    if file := os.environ.get("CONFORMANCE_JSON"):
        Path(file).write_text(json.dumps({"cells": cells}))
    terminal.section(f"conformance, seed {seed()}")
    for line in (*report.table(cells), report.totals(cells)):
        terminal.write_line(line)
