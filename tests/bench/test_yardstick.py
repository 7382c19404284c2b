"""hermes-agent is found, installed once, and done without where it cannot be had."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench import yardstick
from bench.yardstick import find_yardstick, install_commands, set_up_yardstick


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HERMES_AGENT_PYTHON", raising=False)
    monkeypatch.setenv("HERMES_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hermes-agent-0.19.0"


def test_it_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_yardstick() is None
    monkeypatch.setenv("HERMES_AGENT_PYTHON", sys.executable)
    assert find_yardstick() == sys.executable
    assert set_up_yardstick().missing == f"could not be set up: {sys.executable} has no such"
    monkeypatch.setattr(yardstick, "_version", lambda python: "0.19.0")
    assert set_up_yardstick() == (sys.executable, "")
    monkeypatch.setenv("HERMES_AGENT_PYTHON", str(tmp_path / "missing"))
    with pytest.raises(SystemExit, match="HERMES_AGENT_PYTHON"):
        find_yardstick()


def test_it_is_installed_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = cache.parent / "made"
    make = f"mkdir {cache} && printf x >> {made}"
    monkeypatch.setattr(yardstick, "_version", lambda python: "0.19.0")
    monkeypatch.setattr(yardstick, "install_commands", lambda folder: [["sh", "-c", make]])
    assert set_up_yardstick() == (str(cache / "bin" / "python"), "")
    assert set_up_yardstick() == (str(cache / "bin" / "python"), "")
    assert made.read_text() == "x"


def test_what_was_half_installed_is_installed_anew(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(parents=True)
    (cache / "leftover").touch()
    assert find_yardstick() is None
    monkeypatch.setattr(yardstick, "install_commands", lambda folder: [["mkdir", str(folder)]])
    assert set_up_yardstick().python
    assert [found.name for found in cache.iterdir()] == [".ready"]


def test_a_failed_installation_is_survived_and_explained(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail = "import sys; sys.exit('resolving …\\nno route to the index')"
    monkeypatch.setattr(
        yardstick, "install_commands", lambda folder: [[sys.executable, "-c", fail]]
    )
    assert set_up_yardstick() == (None, "could not be set up: no route to the index")
    assert "the run goes on without it" in capsys.readouterr().err
    assert find_yardstick() is None


@pytest.mark.parametrize("command", ["no-such-command", "sleep 30"])
def test_neither_a_missing_command_nor_a_hanging_one_stops_the_run(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yardstick, "INSTALL_SECONDS", 0.2)
    monkeypatch.setattr(yardstick, "install_commands", lambda folder: [command.split()])
    assert set_up_yardstick().missing.startswith("could not be set up: ")


def test_uv_installs_it_where_there_is_one_and_pip_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    by_pip = install_commands(tmp_path / "v")
    assert by_pip[0][1:3] == ["-m", "venv"]
    assert by_pip[1][1:3] == ["-m", "pip"] and "hermes-agent==0.19.0" in by_pip[1]
    uv = tmp_path / "uv"
    uv.touch()
    uv.chmod(0o755)
    by_uv = install_commands(tmp_path / "v")
    assert {command[0] for command in by_uv[:2]} == {str(uv)}
    assert "hermes-agent==0.19.0" in by_uv[1]
    assert os.path.dirname(by_uv[2][0]) == str(tmp_path / "v" / "bin")  # noqa: PTH120
