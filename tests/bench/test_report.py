"""A whole run: every step in its turn, whatever fails on the way."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import kills, measure, report
from bench.__main__ import main
from bench.lab import Lab
from bench.measure import Finding
from bench.report import STEPS, Step, attempt, load, run, write
from bench.rows import Report, Row
from bench.yardstick import Yardstick


def _row(lab: Lab) -> Row:
    sides = ["ours", *(["theirs"] if lab.yardstick else [])]
    return Row("k", "what", "ms", {side: [1.0] for side in sides})


def good(lab: Lab) -> list[Finding]:
    return [Finding("what", "1 ms", row=_row(lab)), Finding("not in the table", "2")]


def theirs_fails(lab: Lab) -> list[Finding]:
    if lab.yardstick:
        raise RuntimeError("\ntheir gateway does not start:\nmore of it")
    return good(lab)


def fails(lab: Lab) -> list[Finding]:
    raise ValueError("ours is broken")


def test_where_theirs_fails_ours_is_measured_and_the_reason_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path, True, sys.executable)
    findings, why = attempt(Step("x", theirs_fails), lab)
    assert why == ""
    assert findings[0].row
    assert findings[0].row.absent == "it failed: their gateway does not start:"
    assert list(findings[0].row.samples) == ["ours"]
    assert lab.yardstick == sys.executable  # the next step has it again


def test_where_ours_fails_the_run_goes_on(tmp_path: Path) -> None:
    assert attempt(Step("x", fails), Lab(tmp_path, True, sys.executable)) == ([], "ours is broken")
    assert attempt(Step("x", fails), Lab(tmp_path, True, None)) == ([], "ours is broken")


def test_what_does_not_compare_is_not_tried_twice(tmp_path: Path) -> None:
    tries = []

    def once(lab: Lab) -> list[Finding]:
        tries.append(1)
        raise ValueError("broken")

    attempt(Step("x", once, compares=False), Lab(tmp_path, True, sys.executable))
    assert tries == [1]


def test_a_run_without_the_yardstick_is_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "OUT", tmp_path)
    monkeypatch.setattr(
        report, "set_up_yardstick", lambda: Yardstick(None, "could not be set up: no route")
    )
    made = run(quick=True, steps=(Step("first", good), Step("second", fails)))
    assert [row.key for row in made.rows] == ["k"]
    assert made.failed == {"second": "ours is broken"}
    text = (tmp_path / "RESULTS.md").read_text()
    assert "was not measured: it could not be set up: no route." in text
    assert "- second: ours is broken" in text
    assert (tmp_path / "results.svg").read_text().startswith("<svg")
    printed = capsys.readouterr()
    assert text in printed.out
    assert "(2 of 2, 0.0 min) second failed: ours is broken" in printed.err


def test_a_full_run_writes_the_page_and_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    monkeypatch.setattr(measure, "OUT", tmp_path / "out")
    monkeypatch.setattr("bench.report.ROOT", tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "README.md").write_text("<!-- bench:begin -->\n<!-- bench:end -->\n")
    assert write(report) == tmp_path / "bench"
    assert "hermes --version" in (tmp_path / "README.md").read_text()
    assert load() == report
    assert json.loads((tmp_path / "out" / "report.json").read_text())["facts"] == report.facts


def test_a_quick_run_does_not_touch_what_is_under_version_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    monkeypatch.setattr(measure, "OUT", tmp_path / "out")
    monkeypatch.setattr("bench.report.ROOT", tmp_path)
    report.facts["quick"] = True
    assert write(report) == tmp_path / "out"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["out"]


def test_everything_that_was_asked_for_is_in_the_run() -> None:
    names = {step.name for step in STEPS}
    assert {name.partition(".")[0] for name in names} == {
        "startup", "agent", "gateway", "store", "wall", "between", "postgres", "jobs", "recall",
        "kills",
    }  # fmt: skip


def test_the_command_fails_if_a_benchmark_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUICK", "1")
    for failed, status in (({}, 0), ({"store": "broken"}, 1)):
        monkeypatch.setattr(
            "bench.report.run", lambda quick, failed=failed: Report([], {"quick": quick}, failed)
        )
        assert main([]) == status


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("| take over | 3 / 0 |\n54 kills, 0 violations (each entry: kills / violations)", (54, 0)),
        ("1,204 kills, 2 violations (each …). 10 of 12 points; 3 talks were cut off.", (1204, 2)),
    ],
)
def test_the_total_of_the_conformance_suite_is_read(output: str, found: tuple[int, int]) -> None:
    assert kills.total(output) == found


@pytest.mark.parametrize("output", ["", "error: no such option"])
def test_a_suite_without_a_total_is_reported(output: str) -> None:
    with pytest.raises(ValueError, match="gave no total"):
        kills.total(output)
