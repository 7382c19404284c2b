"""The page says what was found, above all where Hermes is behind."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from bench.page import (
    README_BEGIN,
    README_END,
    SHORT_BEGIN,
    SHORT_END,
    behind,
    between,
    page,
    short,
    times,
    update_readme,
)
from bench.rows import Report


def test_every_row_has_its_line_with_ratios_and_verdict(report: Report) -> None:
    lines = page(report).partition("## All figures")[2].splitlines()
    first = next(line for line in lines if line.startswith("| start: hermes"))
    assert first == (
        "| start: hermes --version <sup>1</sup> | 20 ms | 300 ms | 12 ms | 15× | 0.60× | ahead |"
    )
    for what, end in (
        ("typical", "| 0.50× | 0.20× | **behind** |"),
        ("store: load", "| 0.99× | – | level |"),
        ("kills", "| 54 | – | – | – | – | – |"),
    ):
        assert next(line for line in lines if what in line).endswith(end)


def test_tables_are_whole(report: Report) -> None:
    for block in re.findall(r"(?:^\|.*\n)+", page(report), re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_what_differs_and_what_is_missing_is_said(report: Report) -> None:
    text = page(report)
    assert "1. Bare: only Python." in text
    assert "2. Not quite the same work: the ranking." in text
    assert "3. hermes-agent 0.19.0 is not measured here: there is no adapter." in text
    assert "- recall: it broke" in text


def test_where_it_is_behind_is_said(report: Report) -> None:
    assert behind(report) == [
        "Behind hermes-agent 0.19.0: search in 50 messages, typical (0.50×).",
        "",
        "More than two times from the bare limit: search in 50 messages, typical (0.20×).",
    ]
    assert "Behind hermes-agent 0.19.0: search in 50 messages, typical (0.50×)." in short(report)
    report.rows = report.rows[:1]
    assert behind(report) == ["Behind hermes-agent 0.19.0: nowhere in this run."]


def test_what_should_never_be_is_said_first(report: Report) -> None:
    report.rows[-1] = dataclasses.replace(report.rows[-1], fault="2 violations")
    text = page(report)
    assert text.count("**kills survived, of 54: 2 violations.**") == 2  # also in the short table
    assert text.count("| 54 | – | – | **2 violations** |") == 1
    assert "| – | – | **2 violations** |" in text.partition("## All figures")[2]
    assert behind(report)[0] == "**kills survived, of 54: 2 violations.**"


def test_without_the_yardstick_nothing_is_claimed(report: Report) -> None:
    report.facts["missing"] = "could not be set up: no route"
    for row in report.rows:
        row.samples.pop("theirs", None)
    text = page(report)
    assert "hermes-agent 0.19.0 was not measured: it could not be set up: no route." in text
    assert "nowhere in this run" not in text
    assert "ahead" not in text


def test_a_quick_run_says_so(report: Report) -> None:
    assert "quick" not in page(report)
    report.facts["quick"] = True
    assert "This was a quick run" in page(report)


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(None, ""), (0.5, "0.50×"), (1.04, "1.0×"), (9.96, "10×"), (1234.0, "1,234×")],
)
def test_ratios(ratio: float | None, shown: str) -> None:
    assert times(ratio) == shown


def test_the_readme_gets_the_short_table(report: Report, tmp_path: Path) -> None:
    readme, results = tmp_path / "README.md", tmp_path / "RESULTS.md"
    results.write_text(page(report))
    readme.write_text(f"# Title\n\n{README_BEGIN}\nold\n{README_END}\n\nThe end.\n")
    assert update_readme(readme, results)
    once = readme.read_text()
    assert once.startswith("# Title\n") and once.endswith("\nThe end.\n")
    assert "old" not in once
    assert between(once, README_BEGIN, README_END) == short(report)
    assert between(page(report), SHORT_BEGIN, SHORT_END) == short(report)
    assert update_readme(readme, results)
    assert readme.read_text() == once


def test_a_readme_without_markers_is_left_alone(report: Report, tmp_path: Path) -> None:
    readme, results = tmp_path / "README.md", tmp_path / "RESULTS.md"
    results.write_text(page(report))
    readme.write_text(f"# Title\n{README_END}\n{README_BEGIN}\n")
    assert not update_readme(readme, results)
    assert readme.read_text() == f"# Title\n{README_END}\n{README_BEGIN}\n"


def test_a_page_without_a_short_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "RESULTS.md").write_text("# Benchmarks\n")
    with pytest.raises(ValueError, match="make bench"):
        update_readme(tmp_path / "README.md", tmp_path / "RESULTS.md")
