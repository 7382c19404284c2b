"""The benchmark of several gateways over one database runs, and its findings have their shape."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bench import measure, scaling, scaling_events
from bench.lab import Lab
from bench.simulation import COSTS_FILE, Costs

pytestmark = pytest.mark.by_name


def test_cores_are_shared_evenly() -> None:
    assert scaling.shares(1, [0, 1]) == [{0, 1}]
    assert scaling.shares(2, [0, 1]) == [{0}, {1}]
    assert scaling.shares(4, [0, 1]) == [{0}, {1}, {0}, {1}]
    assert scaling.shares(2, [3, 4, 5, 6]) == [{3, 4}, {5, 6}]


def test_processor_time_is_counted() -> None:
    before = scaling.processor_seconds([os.getpid()])
    while scaling.processor_seconds([os.getpid()]) == before:
        sum(range(10_000))
    assert scaling.processor_seconds([2**30]) == 0.0, "a process that has ended"


def test_replicas_are_measured_and_their_costs_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (measure, scaling):
        monkeypatch.setattr(module, "OUT", tmp_path / "out")
    monkeypatch.setattr("bench.simulation.OUT", tmp_path / "out")
    monkeypatch.setattr(scaling, "REPLICAS", (2,))
    monkeypatch.setattr(scaling, "MANY", (6, 1))
    monkeypatch.setattr(scaling, "MODEL_SECONDS", 0.02)
    rate, added, database, gateway = scaling.scale(Lab(tmp_path, True, None))
    assert rate.row is not None and added.row is not None and database.ours and gateway.ours
    assert float(rate.ours) > 0
    json.dumps([rate.details, added.details])
    assert (tmp_path / "out" / COSTS_FILE).exists()
    costs = Costs.measured()
    assert costs.commits > 1 and costs.database_seconds > 0 and costs.model_seconds == 0.02


def test_text_of_one_replica_is_seen_at_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "OUT", tmp_path / "out")
    monkeypatch.setattr(scaling_events, "QUICK_PIECES", 3)
    (finding,) = scaling.events(Lab(tmp_path, True, None))
    assert finding.ours.endswith(" ms")
    assert len(finding.details["delays"]) == 3
    assert all(delay > 0 for delay in finding.details["delays"])
