"""The cells of the table, and the table.

`CONFORMANCE_KILLS` is the number of kills in all, `CONFORMANCE_SEED` the seed, and
`CONFORMANCE_IMPLEMENTATIONS` the classes to look at, as `module:Class`, separated by commas.
"""

from __future__ import annotations

import importlib
import math
import os
import random
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from ..state.memory import memory_folder
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
CELLS: list[Cell] = []


def _load(name: str) -> Implementation:
    module, _, attribute = name.partition(":")
    made: Implementation = getattr(importlib.import_module(module), attribute)()
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test raised, such as a store that does not open, is a violation too."""
    report = yield
    cell = getattr(item, "funcargs", {}).get("cell")
    if isinstance(cell, Cell) and call.when == "call" and report.failed:
        cell.violations.append(str(call.excinfo and call.excinfo.value))
    return report


@pytest.fixture(params=CHOSEN, ids=lambda name: name.rpartition(":")[2])
def cell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cell]:
    """A cell; the test fails if anything in it did not hold."""
    property_name = request.path.stem.removeprefix("test_").replace("_", " ")
    share = math.ceil(KILLS / PROPERTIES / len(CHOSEN))
    print(f"seed {SEED}")
    with memory_folder(tmp_path) as folder:
        made = Cell(property_name, _load(request.param), folder, SEED, share)
        yield made
    CELLS.append(made)
    assert not made.violations, "\n".join(made.violations[:10])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table: for each property and implementation, kills and violations."""
    if not CELLS:
        return
    names = list(dict.fromkeys(cell.implementation.name for cell in CELLS))
    line = terminalreporter.write_line
    terminalreporter.section(f"conformance, seed {SEED}")
    line("| property | " + " | ".join(names) + " |")
    line("|---" * (len(names) + 1) + "|")
    for name in dict.fromkeys(cell.name for cell in CELLS):
        line(f"| {name} | " + " | ".join(_cell_text(name, one) for one in names) + " |")
    kills, violations = sum(c.kills for c in CELLS), sum(len(c.violations) for c in CELLS)
    line(f"{kills} kills, {violations} violations (each entry: kills / violations)")
    line(f"{sum(cell.cut_off for cell in CELLS)} talks died before everything was answered")


def _cell_text(name: str, implementation: str) -> str:
    cells = [one for one in CELLS if (one.name, one.implementation.name) == (name, implementation)]
    kills, violations = sum(c.kills for c in cells), sum(len(c.violations) for c in cells)
    return f"{kills} / {violations}" if kills or violations else "–"
