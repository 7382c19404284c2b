"""What the tests draw: the same in every run of `make test`, or from the seed of `make fuzz`.

A test that draws takes its seed from here, never from the clock or from what an earlier run left
behind, so that a run is judged by the code alone. `HERMES_FUZZ_SEED` is the seed of a search and
`HERMES_FUZZ_UNTIL` the time, in seconds since 1970, after which no further test is begun.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import random
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, core, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

FIXED = 1
"""The seed of `make test`, for what is drawn by other means than Hypothesis."""
PACKAGES = (
    "hermes_base", "hermes_state", "tools", "agent", "conversation", "gateway", "tui_gateway",
    "hermes_cli",
)  # fmt: skip


def fuzz_seed() -> int | None:
    """The seed of this search; None in the fixed run."""
    given = os.environ.get("HERMES_FUZZ_SEED")
    return int(given) if given else None


def seed() -> int:
    """The seed for a test that draws by itself."""
    chosen = fuzz_seed()
    return FIXED if chosen is None else chosen


def examples(number: int) -> int:
    """As many examples as a test has time for; a search takes four times as many."""
    return number if fuzz_seed() is None else 4 * number


def times(few: int, many: int) -> int:
    """How often a test repeats what takes long: few times in `make test`, many in a search."""
    return few if fuzz_seed() is None else many


def configure(config: pytest.Config) -> None:
    """Before any test is loaded: a test's own settings begin with these."""
    config.addinivalue_line("markers", "fuzz: draws from a seed, so `make fuzz` runs it too")
    same = {
        "database": None,
        "deadline": None,
        "print_blob": True,
        "suppress_health_check": [HealthCheck.too_slow],
    }
    settings.register_profile("fixed", max_examples=50, derandomize=True, **same)  # type: ignore[arg-type]
    settings.register_profile("fuzz", max_examples=400, **same)  # type: ignore[arg-type]
    settings.load_profile("fixed" if fuzz_seed() is None else "fuzz")


def _fix_constants() -> None:
    """Keep what is drawn independent of the modules that other tests have loaded by then.

    Hypothesis draws constants from the project's loaded modules: in the fixed run from none, so
    that a change elsewhere cannot change what a test is given; in a search from all.
    """
    if fuzz_seed() is None:
        constants = Constants()
    else:
        _load_all()
        constants = providers._get_local_constants()
    providers._get_local_constants = lambda: constants


def _load_all() -> None:
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if module.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue  # an extra that is not installed here


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a search: the tests that draw and no others, file by file in an order of its own."""
    _fix_constants()
    chosen = fuzz_seed()
    if chosen is None:
        return
    drawing = [item for item in items if _draws(item)]
    config.hook.pytest_deselected(items=[item for item in items if not _draws(item)])
    rank = random.Random(chosen)
    order = {path: rank.random() for path in sorted({str(item.path) for item in drawing})}
    items[:] = sorted(drawing, key=lambda item: order[str(item.path)])


def _draws(item: pytest.Item) -> bool:
    return bool(is_hypothesis_test(getattr(item, "obj", None)) or item.get_closest_marker("fuzz"))


def begin(item: pytest.Item) -> bool:
    """Give a test its seed, from the run's and its own name; False if the time is over."""
    name = f"{seed()}/{item.nodeid}".encode()
    random.seed(name)
    if fuzz_seed() is None:
        return True
    core.global_force_seed = int.from_bytes(hashlib.sha256(name).digest()[:16])
    return time.time() < float(os.environ.get("HERMES_FUZZ_UNTIL", "inf"))


def write_failures(terminal: Any) -> None:
    """In a search: how to repeat each failure, here and in the file `HERMES_FUZZ_FAILED`."""
    chosen = fuzz_seed()
    failed = _names(terminal.stats.get("failed", []) + terminal.stats.get("error", []))
    if chosen is None or not failed:
        return
    commands = [f"make fuzz SEED={chosen} ARGS='{name}'" for name in failed]
    terminal.section("to repeat")
    for command in commands:
        terminal.write_line(command)
    if path := os.environ.get("HERMES_FUZZ_FAILED"):
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - it is added to
            file.writelines(f"{command}\n" for command in commands)


def _names(reports: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(report.nodeid for report in reports))
