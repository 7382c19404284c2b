"""Counting how modules hang together counts what it says."""

from __future__ import annotations

from pathlib import Path

from bench import structure

LOW = """
class Base:
    def __init__(self):
        self._kept = 1

    def _step(self):
        return self._kept
"""
HIGH = """
from tools.low import Base, _hidden


class Further(Base):
    def _step(self, other):
        return other._step() + other._kept + other._unknown


def late():
    from gateway import run
    import json

    return run, json, importlib.import_module("hermes_cli.main")
"""


def test_what_modules_take_from_each_other_is_counted(tmp_path: Path) -> None:
    for name, text in (("tools/low.py", LOW), ("agent/high.py", HIGH)):
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    counted = structure.count(tmp_path)
    assert len(counted["lines"]) == len(LOW.splitlines()) + len(HIGH.splitlines())
    assert counted["private attributes across modules"] == [
        "agent/high.py:2: tools.low._hidden",
        "agent/high.py:7: other._unknown",
    ]
    assert counted["late imports"] == ["agent/high.py:11: from gateway import run"]
    assert counted["upward imports"] == [
        "agent/high.py:11: gateway",
        "agent/high.py:14: hermes_cli.main",
    ]
