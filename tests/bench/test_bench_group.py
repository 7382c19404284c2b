"""The benchmark of writers that share a flush runs, and loses nothing. No figure is judged."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench import store_group
from bench.store_lab import QUICK, Lab

pytestmark = pytest.mark.by_name


def test_every_crowd_has_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_group, "THREADS", (1, 3))
    monkeypatch.setattr(store_group, "COROUTINES", (1, 4))
    sizes = dataclasses.replace(QUICK, append_rounds=2, append_chunk=12)
    findings = store_group.group(Lab(tmp_path, sizes, None))
    assert [found.what.split(" appending")[0] for found in findings] == [
        "1 thread",
        "3 threads",
        "1 coroutine",
        "4 coroutines",
    ]
    for found in findings:
        assert found.ratio is not None and found.ratio > 0
        assert found.met is not None
