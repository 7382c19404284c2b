"""The scaling page: its picture and its tables are those that are made."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from agent.heartbeat import UNHEARD_SECONDS
from hermes_state import LEASE_SECONDS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "scaling.md").read_text(encoding="utf-8")


def load(name: str) -> ModuleType:
    """A script of the docs, which are no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_the_one_that_is_drawn() -> None:
    script = load("replicas_picture")
    drawn = script.PICTURE.read_text(encoding="utf-8")
    assert script.picture() == drawn, "run: python docs/replicas_picture.py"


def test_the_times_are_those_of_the_code() -> None:
    assert f"without one for {LEASE_SECONDS:g} seconds it is gone" in PAGE
    assert UNHEARD_SECONDS == LEASE_SECONDS * 3 / 4 and "three quarters of a lease" in PAGE


def test_figures_are_put_between_their_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = load("figures")
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    (tmp_path / "scaling.json").write_text(
        '{"facts": {"python": "3.11", "cores": 2},'
        ' "findings": [{"what": "a turn", "ours": "7 ms"}]}'
    )
    monkeypatch.setattr(figures, "PAGE", page)
    monkeypatch.setattr(figures, "RUNS", tmp_path)
    figures.main([])
    renewed = page.read_text(encoding="utf-8")
    assert "| a turn | 7 ms |" in renewed and "No benchmark was run." in renewed
    begin, end = figures.SIMULATION
    kept = PAGE[PAGE.index(begin) : PAGE.index(end)]
    assert kept in renewed and "| 100 |" in kept, "what was not asked for stays"
    assert renewed.count(begin) == renewed.count(figures.BEGIN) == 1
