"""The processes that share the tests also share what has to be done before the first one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from . import start_up


class Worker:
    """The configuration of one of two processes."""

    def __init__(self, number: int, config: pytest.Config) -> None:
        self.workerinput = {"workerid": f"gw{number}", "workercount": 2}
        self._config = config

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


def cached(folder: Path) -> dict[str, float]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*-pytest-*.pyc")}


def test_each_process_rewrites_its_share_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    for name in ("conftest", "test_a", "test_b", "test_c", "helper"):
        (tmp_path / f"{name}.py").write_text("def test_it():\n    assert 1\n")
    monkeypatch.setattr(start_up, "_TESTS", tmp_path)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    start_up.share_rewriting(Worker(0, pytestconfig))  # type: ignore[arg-type]
    assert {name.partition(".")[0] for name in cached(tmp_path)} == {"conftest", "test_a", "test_c"}
    first = cached(tmp_path)
    start_up.share_rewriting(Worker(1, pytestconfig))  # type: ignore[arg-type]
    whole = cached(tmp_path)
    assert len(whole) == 4
    assert first.items() <= whole.items()
    (tmp_path / "test_b.py").write_text("def test_it():\n    assert 2\n")
    for number in (0, 1):
        start_up.share_rewriting(Worker(number, pytestconfig))  # type: ignore[arg-type]
    changed = {name for name, written in cached(tmp_path).items() if whole[name] != written}
    assert [name.partition(".")[0] for name in changed] == ["test_b"]
