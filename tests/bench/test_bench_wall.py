"""The benchmark of the wall runs, and its findings have the right shape. No figure is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import wall
from bench.lab import Lab
from tools.wall.kinds import means

pytestmark = pytest.mark.by_name


@pytest.mark.parametrize("name", wall.MEASUREMENTS)
def test_every_measurement_gives_findings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_WALL", "landlock")
    if means().kind == "none":
        pytest.skip(f"no wall here: {means().why}")
    monkeypatch.setattr(wall, "KINDS", ("landlock", "none of them"))
    monkeypatch.setattr(wall, "AT_ONCE", 3)
    rounds = {"command": 3, "start": 3, "at_once": 3, "memory": 1}
    monkeypatch.setattr(wall, "QUICK_ROUNDS", rounds)
    [found] = wall.MEASUREMENTS[name](Lab(tmp_path, True, None))
    assert found.what.startswith("landlock: ")
    assert found.ours and found.bare and found.row is not None
    assert all(figure > 0 for figures in found.details.values() for figure in figures)
    json.dumps(found.details)
