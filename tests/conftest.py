"""For every test: a Hermes home of its own, and one place for the offline model's weights."""

from __future__ import annotations

import contextvars
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import seeds, skips, start_up
from .conformance import summary

MODEL_CACHE = Path(
    os.environ.get("HERMES_TEST_CACHE") or Path(tempfile.gettempdir(), "hermes-test-cache")
)
"""Where the weights are fetched to once, outside the project and outside anybody's home."""


def pytest_configure(config: pytest.Config) -> None:
    """Before the processes that share the tests are begun."""
    seeds.configure(config)
    skips.find_programs_of_venv()
    summary.choose_seed()
    start_up.share_rewriting(config)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script's background job ignores Ctrl-C, and so would every program that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    start_up.before_collection()


def pytest_collection_finish() -> None:
    start_up.after_collection()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seeds.select(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Each test with its seed; in a search whose time is over, none."""
    return None if seeds.begin(item) else True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was skipped, what the conformance suite found, and what a search has found."""
    skips.write_reasons(terminalreporter)
    summary.write_table(terminalreporter)
    seeds.write_failures(terminalreporter)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing a test does by default may reach the home of whoever runs it.

    Walls are for the tests that are about them: elsewhere commands run as where there is none.
    """
    monkeypatch.setenv("HERMES_HOME", str(tmp_path_factory.mktemp("hermes-home")))
    monkeypatch.setenv("HERMES_WALL", "none")


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """What a test loads or says about its session is gone before the next one."""
    before = contextvars.copy_context()
    yield
    plugins = sys.modules.get("hermes_base.plugins")
    if plugins is not None:
        plugins.forget_plugins()
    for variable, value in contextvars.copy_context().items():
        if variable.name.startswith("HERMES_SESSION") and before.get(variable, "") != value:
            # A variable cannot be unset, but be as empty as it was for whoever reads it.
            variable.set(before.get(variable, ""))


@pytest.fixture(scope="session")
def model_cache() -> Path:
    return MODEL_CACHE
