"""For every test: a Hermes home of its own, and one place for the offline model's weights."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

MODEL_CACHE = Path(
    os.environ.get("HERMES_TEST_CACHE") or Path(tempfile.gettempdir(), "hermes-test-cache")
)
"""Where the weights are fetched to once, outside the project and outside anybody's home."""


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing a test does by default may reach the home of whoever runs it."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path_factory.mktemp("hermes-home")))


@pytest.fixture(scope="session")
def model_cache() -> Path:
    return MODEL_CACHE
