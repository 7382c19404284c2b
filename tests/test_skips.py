"""The end of a test run says what was skipped and what would let it run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from . import skips

PROBE = """
import pytest
from tests import skips

@pytest.mark.parametrize("number", range(3))
def test_that_needs_a_shell(number, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    skips.need("fish")

def test_that_needs_a_file_system():
    skips.no_mounting()
"""


def test_each_reason_has_a_line_whichever_process_skipped(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_probe.py").write_text(PROBE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n1", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "    3 fish is not installed; as root: apt install fish\n" in done.stdout
    assert "    1 file systems cannot be mounted here; run the tests as root\n" in done.stdout


def test_programs_of_the_venv_are_found_when_it_is_not_activated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    skips.find_programs_of_venv()
    assert os.environ["PATH"] == f"/usr/bin:{sysconfig.get_path('scripts')}"
    skips.find_programs_of_venv()
    assert os.environ["PATH"].count(sysconfig.get_path("scripts")) == 1


@pytest.mark.parametrize("program", [*skips.INDEX_PACKAGES, *skips.SYSTEM_PACKAGES])
def test_every_program_can_be_had_somewhere(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(program):
        assert skips.missing(program) is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert "install" in str(skips.missing(program))
