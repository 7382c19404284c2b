"""The benchmark of the start runs, and its findings have the right shape. No figure is judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import startup
from bench.agent import Lab


@pytest.mark.parametrize("name", startup.MEASUREMENTS)
def test_every_measurement_gives_findings(name: str, tmp_path: Path) -> None:
    # Our own server stands in for the one we compare with: it speaks the same protocol.
    findings = startup.MEASUREMENTS[name](Lab(tmp_path, True, sys.executable))
    for found in findings:
        assert found.ours
        assert found.theirs or name == "interface"  # measured against a limit, not against them
        assert found.goal and found.met is not None
        assert all(figure > 0 for figures in found.details.values() for figure in figures)
    json.dumps([found.details for found in findings])


def test_without_a_yardstick_nothing_is_promised(tmp_path: Path) -> None:
    findings = startup.answer(Lab(tmp_path, True, None))
    assert all(found.met is None and not found.theirs for found in findings)
