"""Fixtures for the store: real SQLite files in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state import SessionDB


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
def db(db_path: Path) -> Iterator[SessionDB]:
    store = SessionDB(db_path)
    yield store
    store.close()
