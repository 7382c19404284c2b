"""Fixtures for the store: real SQLite files in a temporary folder, and real PostgreSQL databases.

Every test here runs on both, but for those that are about SQLite's files, pages and logs, which are
marked `sqlite`, and those that open their stores themselves (`both_databases`). On a server, a
store that is opened at a path is a database of its own. Half of the time on a server goes into a
few modules that try hundreds of values or draw them: those run there where `HERMES_TEST_BOTH` is
set, as `.ci/run` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermes_state.db
from hermes_state import SessionDB

from .. import postgres
from .interleaving import Pair
from .raw import check_sound

BOTH = "HERMES_TEST_BOTH"
LONG_ON_SERVER = frozenset(
    f"test_{name}"
    for name in (
        "bad_input", "transfer", "promises", "search_model", "search_filters", "retention",
        "listing", "codec",
    )
)  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test once for each database that it is about, unless it says so itself."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if mark.args[0] == "database":
            return
    if metafunc.definition.get_closest_marker("both_databases"):
        return
    about_files = metafunc.definition.get_closest_marker("sqlite") is not None
    module = metafunc.module.__name__.rpartition(".")[2]
    left_out = module in LONG_ON_SERVER and not os.environ.get(BOTH)
    kinds = ["sqlite"] if about_files or left_out else ["sqlite", "postgres"]
    metafunc.parametrize("database", kinds, indirect=True)


@pytest.fixture(autouse=True)
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Which database is behind the store."""
    kind: str = getattr(request, "param", "sqlite")  # unittest's tests have no parameters
    if kind == "sqlite":
        yield kind
        return
    # Here, and not in a child of the test, which would have a server of its own.
    postgres.start_for_run()
    stores = postgres.Stores()
    monkeypatch.setattr(hermes_state.db, "open_store", stores.open_store)
    yield kind
    stores.forget()


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
def db(db_path: Path) -> Iterator[SessionDB]:
    store = SessionDB(db_path)
    yield store
    store.close()


@pytest.fixture
def pair(db: SessionDB, db_path: Path) -> Iterator[Pair]:
    """Two stores on one database, which is whole in the end."""
    with SessionDB(db_path) as other:
        yield Pair(db, other)
        check_sound(db)
        known = ("turns_end", "calls_are_answered")  # turns that a test leaves in their middle
        assert [one for one in db.check_store() if one.rule not in known] == []
