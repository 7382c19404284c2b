"""A workspace for tools: a home, a working directory, a store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state import SessionDB
from tools.base import ToolContext, Workspace

from ..state.memory import MEMORY


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """On a disk, as a person's files are.

    Memory that programs share is closed inside walls, and is a device to whoever judges a command.
    """
    if MEMORY is None or not tmp_path.is_relative_to(MEMORY):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="hermes-tools-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


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
