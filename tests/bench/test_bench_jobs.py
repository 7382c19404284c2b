"""The benchmark of jobs runs, and its findings have the right shape. No figure is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import jobs
from bench.lab import Lab

pytestmark = pytest.mark.by_name


@pytest.mark.parametrize("name", jobs.MEASUREMENTS)
def test_every_measurement_gives_findings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "QUICK_JOBS", 50)
    [found] = jobs.MEASUREMENTS[name](Lab(tmp_path, True, None))
    assert found.what.startswith("jobs: ") and found.ours
    assert found.row is not None and found.row.key == f"jobs.{name}"
    json.dumps(found.details)
