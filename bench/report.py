"""`make bench`: every benchmark on every side in one run, one table, one chart.

hermes-agent is set up if it is not there. A benchmark in which it fails is run again without it,
and one that fails by itself is left out; the page says so, and the run goes on.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from . import (
    agent,
    between,
    gateway,
    jobs,
    kills,
    measure,
    postgres,
    recall_rivals,
    startup,
    store,
    wall,
)
from .chart import draw
from .lab import Lab
from .measure import Finding, progress, scratch_folder, verdict, within
from .page import page, update_readme
from .processes import ROOT
from .rows import Report, Row
from .store_lab import FULL, QUICK
from .store_lab import Lab as StoreLab
from .yardstick import set_up_yardstick

RESULTS, CHART = "RESULTS.md", "results.svg"
_FULL = "WAL and synchronous=FULL"


class Step(NamedTuple):
    """One benchmark of the run."""

    name: str
    measure: Callable[[Any], list[Finding]]
    of_store: bool = False
    compares: bool = True
    """Whether hermes-agent takes part."""


STEPS = (
    *(Step(f"startup.{part}", startup.MEASUREMENTS[part])
      for part in ("words", "question", "interface", "answer")),
    Step("agent.engine", agent.engine),
    Step("gateway.start", gateway.start),
    Step("gateway.whole", gateway.whole),
    *(Step(f"store.{part}", store.MEASUREMENTS[part], of_store=True)
      for part in ("rivals", "small", "append", "writers", "load", "disk")),
    *(Step(f"store.{part}", store.MEASUREMENTS[part], of_store=True, compares=False)
      for part in ("group", "long")),
    *(Step(f"wall.{part}", wall.MEASUREMENTS[part], compares=False) for part in wall.MEASUREMENTS),
    *(
        Step(f"between.{part}", between.MEASUREMENTS[part], compares=False)
        for part in between.MEASUREMENTS
    ),
    *(
        Step(f"postgres.{part}", postgres.MEASUREMENTS[part], compares=False)
        for part in postgres.MEASUREMENTS
    ),
    *(Step(f"jobs.{part}", jobs.MEASUREMENTS[part], compares=False) for part in jobs.MEASUREMENTS),
    Step("recall", recall_rivals.rivals),
    Step("kills", kills.kills, compares=False),
)  # fmt: skip


def run(*, quick: bool, steps: tuple[Step, ...] = STEPS) -> Report:
    """Measure everything, print and write the results."""
    started = time.perf_counter()
    yardstick = set_up_yardstick()
    found: list[Finding] = []
    failed: dict[str, str] = {}
    with scratch_folder() as folder:
        programs = Lab(folder / "programs", quick, yardstick.python)
        stores = StoreLab(folder / "stores", QUICK if quick else FULL, yardstick.python)
        programs.folder.mkdir()
        stores.folder.mkdir()
        for number, step in enumerate(steps, start=1):
            minutes = (time.perf_counter() - started) / 60
            with within(f"({number} of {len(steps)}, {minutes:.1f} min)"):
                findings, why = attempt(step, stores if step.of_store else programs)
            found += findings
            if why:
                failed[step.name] = why
    report = Report(
        [one.row for one in found if one.row],
        _facts(stores.durability) | {"quick": quick, "missing": yardstick.missing},
        failed,
    )
    folder = write(report)
    print((folder / RESULTS).read_text())
    minutes = (time.perf_counter() - started) / 60
    print(f"{verdict(found)} Written to {folder}, in {minutes:.1f} minutes.")
    return report


def attempt(step: Step, lab: Lab | StoreLab) -> tuple[list[Finding], str]:
    """The findings of a step, without hermes-agent if need be; else why there are none."""
    try:
        return step.measure(lab), ""
    except Exception as error:  # noqa: BLE001 - whatever one benchmark meets, the others go on
        why = _first_line(error)
    if lab.yardstick is None or not step.compares:
        progress(f"{step.name} failed: {why}")
        return [], why
    progress(f"{step.name} failed: {why}; once more, without hermes-agent")
    yardstick, lab.yardstick = lab.yardstick, None
    try:
        findings, again = attempt(step, lab)
    finally:
        lab.yardstick = yardstick
    for one in findings:
        if one.row:
            one.row = dataclasses.replace(one.row, absent=f"it failed: {why}")
    return findings, again


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), repr(error))[:200]


def _facts(durability: dict[str, str]) -> dict[str, Any]:
    same = set(durability.values())
    return {
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        # What differs is told side by side; nobody should compare such rates.
        "durability": _FULL if same == {"wal/2"} else str(durability),
    }


def write(report: Report) -> Path:
    """Write the page and the chart; those of a quick run beside the other raw results."""
    folder = measure.OUT if report.facts["quick"] else ROOT / "bench"
    measure.OUT.mkdir(exist_ok=True)
    raw = dataclasses.asdict(report)
    (measure.OUT / "report.json").write_text(json.dumps(raw, indent=1, ensure_ascii=False) + "\n")
    (folder / RESULTS).write_text(page(report))
    (folder / CHART).write_text(draw(report.rows, quick=report.facts["quick"]))
    if not report.facts["quick"]:
        update_readme(ROOT / "README.md", folder / RESULTS)
    return folder


def load() -> Report:
    """The last run, from its raw figures."""
    raw = json.loads((measure.OUT / "report.json").read_text())
    return Report([Row(**row) for row in raw["rows"]], raw["facts"], raw["failed"])
