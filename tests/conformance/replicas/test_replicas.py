"""Gateways over one PostgreSQL that are killed, stopped and cut off, in short: see `run.py`."""

from __future__ import annotations

import pytest

from .faults import Faults
from .run import Settings, run

pytest.importorskip("telegram")
pytestmark = pytest.mark.long


def test_gateways_that_are_killed_and_stopped_answer_everything_once() -> None:
    async def hurt(faults: Faults) -> None:
        await faults.make(3, ("kill", "stop", "drain"))

    found = run(Settings(replicas=2, chats=4, programs=1, seed=1, lease=2.0), hurt)
    report = found.report()
    assert report["violations"] == []
    assert report["faults"] == 3
    assert report["answered"] > 0
