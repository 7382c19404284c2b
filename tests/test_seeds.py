"""Two runs of the tests draw the same; a search draws from its seed and says how to repeat it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = """
from tests import seeds
from tests.conftest import *

seeds.PACKAGES = ("hermes_state",)  # of whose constants a search draws: all would take seconds
"""
PROBE = """
import os, random
from hypothesis import given, settings, strategies as st
from tests import seeds

@given(st.text(), st.integers())
@settings(max_examples=20)
def test_that_draws(text, number):
    with open(os.environ["DRAWN"], "a") as file:
        file.write(repr((text, number)) + "\\n")

@given(st.integers(0, 10**6))
def test_that_fails_now_and_then(number):
    assert os.environ.get("DRAWN_FAILS") is None or number < 1000

def test_that_draws_nothing():
    with open(os.environ["DRAWN"], "a") as file:
        file.write("not a search\\n")
"""


def drawn(folder: Path, name: str, *command: str, **environ: str) -> tuple[str, str, int]:
    """What the probe drew, what was said, and the exit code."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_probe.py").write_text(PROBE)
    said = folder / name
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    inherited.pop("CI", None)
    done = subprocess.run(
        [sys.executable, *command, "-p", "no:cacheprovider", str(folder / "test_probe.py")],
        cwd=ROOT,
        env={**inherited, "DRAWN": str(said), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return (said.read_text() if said.exists() else ""), done.stdout, done.returncode


def test_what_is_drawn_depends_on_the_code_alone(tmp_path: Path) -> None:
    pytest_ = ("-m", "pytest", "-n0")
    here, said, code = drawn(tmp_path, "here", *pytest_)
    assert code == 0, said
    assert here.count("\n") == 21
    assert drawn(tmp_path, "ci", *pytest_, CI="1")[0] == here


def test_a_search_can_be_repeated(tmp_path: Path) -> None:
    search = ("-m", "tests.fuzz", "--jobs", "0", "--seed")
    first, said, code = drawn(tmp_path, "first", *search, "7", DRAWN_FAILS="yes")
    assert code == 1
    assert "round 1, seed 7" in said
    assert "number=1000," in said
    assert "1 failed" in said
    again = r"make fuzz SEED=7 ARGS='\S*test_probe\.py::test_that_fails_now_and_then'"
    assert len(re.findall(again, said)) == 2
    assert "not a search" not in first
    assert drawn(tmp_path, "second", *search, "7")[0] == first
    other, said, code = drawn(tmp_path, "other", *search, "8")
    assert code == 0 and "nothing failed" in said
    assert other != first
    assert drawn(tmp_path, "late", *search, "7", "--minutes", "0")[0] == ""


@pytest.mark.parametrize("given", ["x", "1.5"])
def test_a_seed_is_a_number(given: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--seed", given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "invalid int" in done.stderr
