"""The cells of the table, and the table.

`CONFORMANCE_KILLS` is the number of kills in all, `CONFORMANCE_SEED` the seed,
`CONFORMANCE_IMPLEMENTATIONS` the classes to look at, as `module:Class`, separated by commas, and
`CONFORMANCE_JSON` a file that gets what was found.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from ..state.memory import memory_folder
from . import report
from .adapter import Implementation
from .cell import Cell

OURS = (
    "tests.conformance.implementations.engine:Engine",
    "tests.conformance.implementations.server:Server",
    "tests.conformance.implementations.gateway:Gateway",
)
PROPERTIES = 6
KILLS = int(os.environ.get("CONFORMANCE_KILLS", "54"))
SEED = int(os.environ.get("CONFORMANCE_SEED") or random.SystemRandom().randrange(2**32))
CHOSEN = (os.environ.get("CONFORMANCE_IMPLEMENTATIONS") or ",".join(OURS)).split(",")
CELLS: list[report.Facts] = []


def _load(name: str) -> Implementation:
    module, _, attribute = name.partition(":")
    made: Implementation = getattr(importlib.import_module(module), attribute)()
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test raised, such as a store that does not open, is a violation too."""
    outcome = yield
    cell = getattr(item, "funcargs", {}).get("cell")
    if isinstance(cell, Cell) and call.when == "call" and outcome.failed:
        cell.violations.append(str(call.excinfo and call.excinfo.value))
    return outcome


@pytest.fixture(params=CHOSEN, ids=lambda name: name.rpartition(":")[2])
def cell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cell]:
    """A cell; the test fails if anything in it did not hold."""
    property_name = request.path.stem.removeprefix("test_").replace("_", " ")
    share = math.ceil(KILLS / PROPERTIES / len(CHOSEN))
    print(f"seed {SEED}")
    began = time.monotonic()
    with memory_folder(tmp_path) as folder:
        made = Cell(property_name, _load(request.param), folder, SEED, share)
        yield made
    CELLS.append({**made.facts(), "seconds": round(time.monotonic() - began, 1)})
    assert not made.violations, "\n".join(made.violations[:10])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table: for each property and implementation, kills and violations."""
    if not CELLS:
        return
    if file := os.environ.get("CONFORMANCE_JSON"):
        Path(file).write_text(json.dumps({"cells": CELLS}))
    terminalreporter.section(f"conformance, seed {SEED}")
    for line in (*report.table(CELLS), report.totals(CELLS)):
        terminalreporter.write_line(line)
