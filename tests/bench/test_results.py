"""What README.md says of speed is what bench/RESULTS.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.page import README_BEGIN, README_END, SHORT_BEGIN, SHORT_END, between

ROOT = Path(__file__).parents[2]
RESULTS, README = ROOT / "bench" / "RESULTS.md", ROOT / "README.md"


@pytest.fixture
def results() -> str:
    if not RESULTS.exists():
        pytest.skip("no full run has been made yet: make bench")
    return RESULTS.read_text()


def test_the_readme_repeats_the_short_table(results: str) -> None:
    readme = README.read_text()
    if README_BEGIN not in readme:
        pytest.skip("README.md has no place for the table")
    assert between(readme, README_BEGIN, README_END) == between(results, SHORT_BEGIN, SHORT_END), (
        "run: python -m bench --readme"
    )


def test_the_page_has_what_it_promises(results: str) -> None:
    assert between(results, SHORT_BEGIN, SHORT_END)
    assert "## Where it is behind" in results
    assert (RESULTS.parent / "results.svg").exists()


def test_the_page_names_no_machine(results: str) -> None:
    assert not re.search(r"https?://|/(home|root|tmp|work|usr)/|x86|aarch64|GHz", results)
