"""For every test: a Hermes home of its own, and one place for the offline model's weights."""

from __future__ import annotations

import contextvars
import itertools
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from . import postgres, seeds, server_store, skips, start_up
from .conformance import summary

MODEL_CACHE = Path(
    os.environ.get("HERMES_TEST_CACHE") or Path(tempfile.gettempdir(), "hermes-test-cache")
)
"""Where the weights are fetched to once, outside the project and outside anybody's home."""

STATE = Path(__file__).parent / "state"
"""Whose tests run on both databases in every run."""


def pytest_configure(config: pytest.Config) -> None:
    """Before the processes that share the tests are begun."""
    seeds.configure(config)
    skips.find_programs_of_venv()
    summary.choose_seed()
    start_up.note_whole_run(config)
    config.addinivalue_line("markers", "long: takes many seconds, and so is begun first")
    config.addinivalue_line("markers", "by_name: only where its file or folder is named")
    config.addinivalue_line("markers", "sqlite: about SQLite's files, pages and logs alone")
    config.addinivalue_line("markers", "postgres: with its stores on a server, also by default")
    if server_store.is_wanted():
        postgres.start_for_run()
    config.addinivalue_line("markers", "both_databases: opens its stores by itself, runs once")
    start_up.share_rewriting(config)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script's background job ignores Ctrl-C, and so would every program that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before the processes that share the tests are told where their folders are."""
    start_up.keep_folders_in_memory(session.config)


def pytest_sessionfinish() -> None:
    """Before whoever started this process is told that it is done."""
    postgres.stop_shared(os.getpid())


def pytest_collection() -> None:
    start_up.before_collection()


def pytest_collection_finish() -> None:
    start_up.after_collection()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    start_up.leave_out(config, items)
    start_up.begin_with_longest(items)
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


_FAILED = pytest.StashKey[bool]()
_homes = itertools.count()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, so that its home is kept as its `tmp_path` is."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def own_home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Nothing a test does by default may reach the home of whoever runs it.

    Walls are for the tests that are about them: elsewhere commands run as where there is none.
    """
    home = tmp_path_factory.getbasetemp() / f"hermes-home{next(_homes)}"
    home.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(home))
        patch.setenv("HERMES_WALL", "none")
        yield
    if not request.node.stash.get(_FAILED, False):
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def wanted_store(request: pytest.FixtureRequest, own_home: None) -> Iterator[None]:
    """Stores are files, or databases of a server where the test or the whole run says so."""
    node = request.node
    chosen = node.get_closest_marker("postgres") is not None
    asked = server_store.is_wanted() and not node.path.is_relative_to(STATE)
    own = any(node.get_closest_marker(name) for name in ("sqlite", "both_databases"))
    if own or not (chosen or asked):
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(server_store.STORE, raising=False)
            yield
        return
    with pytest.MonkeyPatch.context() as patch, server_store.stores_on_server(patch):
        yield


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
