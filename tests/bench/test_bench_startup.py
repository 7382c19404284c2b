"""The benchmark of the start runs, and its findings have the right shape. No figure is judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import startup, startup_command
from bench.lab import Lab, seconds
from bench.measure import interleaved
from bench.startup_command import _show, visible

pytestmark = pytest.mark.by_name


def once(sides: dict[str, Callable[[], Any]], rounds: int, **_: Any) -> dict[str, list[Any]]:
    """One round, where a run has several."""
    return interleaved(sides, 1)


@pytest.mark.parametrize("name", startup.MEASUREMENTS)
def test_every_measurement_gives_findings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Our own server stands in for the one we compare with: it speaks the same protocol. Our
    # interface needs no node, and no option.
    monkeypatch.setattr("shutil.which", lambda name: None)
    for module in (startup, startup_command):
        monkeypatch.setattr(module, "interleaved", once)
    findings = startup.MEASUREMENTS[name](Lab(tmp_path, True, sys.executable))
    for found in findings:
        assert found.ours and found.theirs
        assert found.goal and found.met is not None
        assert all(figure > 0 for figures in found.details.values() for figure in figures)
    json.dumps([found.details for found in findings])


def test_without_a_yardstick_nothing_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "interleaved", once)
    findings = startup.answer(Lab(tmp_path, True, None))
    assert all(found.met is None and not found.theirs for found in findings)


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        (b"\x1b[?1049h\x1b[2J\x1b[H", b""),
        (b"\x1b]0;Hermes\x07\r\n  ", b""),
        (b"\x1b]11;?\x1b\\", b""),
        (b"\x1b[2;3H\x1b[1mHer mes\x1b[0m", b"Hermes"),
    ],
)
def test_only_what_a_person_sees_counts_as_painted(output: bytes, seen: bytes) -> None:
    assert visible(output) == seen


def test_an_interface_that_ends_is_reported(tmp_path: Path) -> None:
    lab = Lab(tmp_path, True, None)
    with pytest.raises(RuntimeError, match=r"ended before it showed b'zero'.*no model"):
        _show([sys.executable, "-c", "print('no model')"], lab.home("x"))


def test_a_command_that_fails_is_reported(tmp_path: Path) -> None:
    lab = Lab(tmp_path, True, None)
    with pytest.raises(RuntimeError, match="status 1: no such thing"):
        seconds([sys.executable, "-c", "raise SystemExit('no such thing')"], lab.home("x"))
