"""The cells of the table.

`CONFORMANCE_KILLS` is the number of kills in all, `CONFORMANCE_SEED` the seed,
`CONFORMANCE_IMPLEMENTATIONS` the classes to look at, as `module:Class`, separated by commas,
`CONFORMANCE_PROCESSES` how many race for one thing, and `CONFORMANCE_JSON` a file that gets what
was found. Without them it is the short run of `make test`.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .. import postgres, seeds, server_store
from ..state.memory import memory_folder
from . import summary
from .adapter import Implementation
from .cell import Cell

OURS = (
    "tests.conformance.implementations.engine:Engine",
    "tests.conformance.implementations.server:Server",
    "tests.conformance.implementations.gateway:Gateway",
    "tests.conformance.implementations.jobs:Jobs",
)
PROPERTIES = 6
KILLS = int(os.environ.get("CONFORMANCE_KILLS") or seeds.times(72, 300))
CHOSEN = (os.environ.get("CONFORMANCE_IMPLEMENTATIONS") or ",".join(OURS)).split(",")


def _load(name: str) -> Implementation:
    module, _, attribute = name.partition(":")
    made: Implementation = getattr(importlib.import_module(module), attribute)()
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where a cell's kills fall is drawn."""
    for item in items:
        if "cell" in getattr(item, "fixturenames", ()):
            item.add_marker("fuzz")


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
    print(f"seed {summary.seed()}")
    began = time.monotonic()
    alive = postgres.kept_alive() if server_store.is_wanted() else contextlib.nullcontext()
    with alive, memory_folder(tmp_path) as folder:
        made = Cell(property_name, _load(request.param), folder, summary.seed(), share)
        yield made
    facts = {**made.facts(), "seconds": round(time.monotonic() - began, 1)}
    request.node.user_properties.append((summary.CELL, facts))
    assert not made.violations, "\n".join(made.violations[:10])
