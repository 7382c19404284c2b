"""The benchmark of the store on a server runs, and its findings have the right shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import postgres
from bench.lab import Lab

pytestmark = pytest.mark.by_name


def test_appends_are_measured_beside_bare_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "SIZES", ((1, 1), (1, 2)))
    found = postgres.append(Lab(tmp_path, True, None))
    assert len(found) == 2
    for finding in found:
        assert finding.ours and finding.bare and finding.ratio and finding.row is not None
        json.dumps(finding.details)


def test_turns_are_measured_with_and_without_tools(tmp_path: Path) -> None:
    plain, with_tools = postgres.turn(Lab(tmp_path, True, None))
    assert len(plain.details["ours"]) == 20 and len(with_tools.details["ours"]) == 5
    assert all(finding.row is not None for finding in (plain, with_tools))


def test_searches_are_measured_beside_those_in_a_file(tmp_path: Path) -> None:
    built, unchanged, changed = postgres.search(Lab(tmp_path, True, None))
    for finding in (built, unchanged, changed):
        assert finding.row is not None and set(finding.row.samples) == {"ours", "bare"}
        json.dumps(finding.details)
    assert len(unchanged.details["ours"]) == len(changed.details["bare"]) == 20


def test_the_event_loop_is_watched_while_the_server_is_stopped(tmp_path: Path) -> None:
    running, stopped = postgres.stopped(Lab(tmp_path, True, None))
    for finding in (running, stopped):
        assert finding.row is not None and set(finding.row.samples) == {"ours", "bare"}
        json.dumps(finding.details)
    (before,), (during,) = running.details["facts"], stopped.details["facts"]
    assert before["finished"]["failed"] == during["finished"]["failed"] == 0
    assert during["waiting"] > before["waiting"], "turns waited for the server"
    assert during["passes"] > 1000 and during["finished"]["answered"] >= during["waiting"]
