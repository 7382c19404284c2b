"""Programs that tests start and that pip does not bring: used where the machine has them.

`HERMES_TEST_REQUIRE` names packages without which a test fails, where it would be skipped.
"""

from __future__ import annotations

import os
import shutil

import pytest

_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))


def find_program(name: str, package: str) -> str:
    """The path of a program; without it, its test is skipped, or fails where it is required."""
    path = shutil.which(name, path=_PLACES)
    if path is not None:
        return path
    problem = f"{name} is not installed: apt-get install {package}"
    if package in os.environ.get("HERMES_TEST_REQUIRE", "").replace(",", " ").split():
        pytest.fail(problem)
    pytest.skip(problem)
