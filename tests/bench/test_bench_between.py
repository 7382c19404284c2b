"""The benchmark between processes runs, and its findings have the right shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import between
from bench.lab import Lab

pytestmark = pytest.mark.by_name


@pytest.mark.parametrize("name", between.MEASUREMENTS)
def test_every_measurement_gives_findings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(between, "QUICK_ROUNDS", 3)
    [found] = between.MEASUREMENTS[name](Lab(tmp_path, True, None))
    assert found.ours and found.bare and found.row is not None
    assert {side: len(figures) for side, figures in found.details.items()} == {"ours": 3, "bare": 3}
    json.dumps(found.details)
