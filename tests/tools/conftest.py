"""A workspace for tools: a home, a working directory, a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state import SessionDB
from tools.base import ToolContext, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    cwd.mkdir()
    return Workspace(home, cwd)


@pytest.fixture
def context(workspace: Workspace) -> ToolContext:
    return ToolContext("s1", "call_1", workspace=workspace)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "store" / "state.db") as store:
        yield store
