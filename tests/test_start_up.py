"""The processes that share the tests also share what has to be done before the first one."""

from __future__ import annotations

import os
import subprocess
import sys
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


class Main:
    """The configuration of the process that begins the others, or of the only one."""

    class option:
        basetemp: Path | None = None

    def __init__(self) -> None:
        self._tmp_path_factory = self
        self.roots: list[str | None] = []

    def getbasetemp(self) -> None:
        self.roots.append(os.environ.get("PYTEST_DEBUG_TEMPROOT"))


def test_folders_are_in_memory_unless_others_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_DEBUG_TEMPROOT", raising=False)
    monkeypatch.setattr(start_up, "MEMORY", tmp_path)
    main = Main()
    start_up.keep_folders_in_memory(main)  # type: ignore[arg-type]
    assert main.roots == [str(tmp_path)]
    assert "PYTEST_DEBUG_TEMPROOT" not in os.environ, "no program that a test starts inherits it"
    monkeypatch.setattr(main.option, "basetemp", tmp_path)
    start_up.keep_folders_in_memory(main)  # type: ignore[arg-type]
    monkeypatch.setattr(main.option, "basetemp", None)
    monkeypatch.setattr(start_up, "MEMORY", None)
    start_up.keep_folders_in_memory(main)  # type: ignore[arg-type]
    assert len(main.roots) == 1


def test_the_longest_are_begun_first_and_the_others_stay_in_order() -> None:
    class Item:
        def __init__(self, name: str) -> None:
            self.name = name

        def get_closest_marker(self, name: str) -> bool | None:
            return True if name in self.name else None

    items: Any = [Item(name) for name in ("a", "b long", "c", "d long", "e")]
    start_up.begin_with_longest(items)
    assert [item.name for item in items] == ["b long", "d long", "a", "c", "e"]


@pytest.mark.parametrize(("named", "run"), [([], "1 passed, 1 deselected"), (["."], "2 passed")])
def test_what_runs_by_name_is_left_out_of_a_run_of_everything(
    tmp_path: Path, named: list[str], run: str
) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests import start_up\n"
        "def pytest_configure(config):\n"
        "    config.addinivalue_line('markers', 'by_name: x')\n"
        "    start_up.note_whole_run(config)\n"
        "def pytest_collection_modifyitems(config, items):\n"
        "    start_up.leave_out(config, items)\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import pytest\ndef test_a(): pass\n@pytest.mark.by_name\ndef test_b(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", ".", *named]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run in done.stdout
