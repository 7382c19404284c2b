"""Kills survived: the conformance suite, run as anybody would, and its last lines read."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import NamedTuple

from .lab import Lab
from .measure import Finding, progress
from .processes import ROOT
from .rows import Row

SEED = 1
FULL, QUICK = ("--kills", "300"), ("--kills", "60", "--only", "Engine")
"""A quick run kills the engine alone, not the session server and the gateway as well."""
SECONDS, QUICK_SECONDS = 600, 60
_TOTAL = re.compile(r"(\d[\d,]*) kills?, (\d[\d,]*) violations?")


class Total(NamedTuple):
    """What the suite says in the end."""

    kills: int
    violations: int


def total(output: str) -> Total:
    """Read the suite's output; raises ValueError if it does not say how many kills there were."""
    found = _TOTAL.findall(output)
    if not found:
        lines = output.strip().splitlines()
        raise ValueError(f"The conformance suite gave no total: {lines[-1] if lines else ''}")
    return Total(*(int(figure.replace(",", "")) for figure in found[-1]))


def kills(lab: Lab) -> list[Finding]:
    """How many kills were survived: nothing lost, nothing done twice, nothing made up."""
    given, limit = (QUICK, QUICK_SECONDS) if lab.quick else (FULL, SECONDS)
    progress("the conformance suite: killing it again and again")
    command = [sys.executable, "-m", "tests.conformance", "--seed", str(SEED), *given]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"The conformance suite was not done after {limit} s") from None
    made, violations = total(done.stdout)
    if done.returncode and not violations:
        raise RuntimeError(f"The conformance suite failed: {done.stdout.strip()[-500:]}")
    survived = made - min(made, violations)
    return [
        Finding(
            f"{made} kills: violations",
            str(violations),
            goal="0",
            met=violations == 0,
            row=Row(
                "kills",
                f"kills survived, of {made:,} at seeded moments",
                "",
                {"ours": [float(survived)]},
                higher=True,
                differs="the engine alone" if lab.quick else "",
                absent="the conformance suite has no adapter for it",
                fault=f"{violations} violations" if violations else "",
            ),
        )
    ]
