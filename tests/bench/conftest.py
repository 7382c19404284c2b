"""A made-up report, as a run would give it."""

from __future__ import annotations

import pytest

from bench.rows import Report, Row


@pytest.fixture
def report() -> Report:
    """Ahead in one row, behind in another, far from the limit in a third; one not compared."""
    rows = [
        Row("start.version", "start: hermes --version", "ms",
            {"ours": [20.0] * 3, "theirs": [300.0] * 3, "bare": [12.0] * 3}, bare="only Python"),
        Row("search.typical", "search in 50 messages, typical", "ms",
            {"ours": [5.0] * 3, "theirs": [2.5] * 3, "bare": [1.0] * 3}, differs="the ranking"),
        Row("store.load", "store: load", "messages/s",
            {"ours": [99.0] * 3, "theirs": [100.0] * 3}, higher=True),
        Row("kills", "kills survived, of 54", "", {"ours": [54.0]}, absent="there is no adapter"),
    ]  # fmt: skip
    facts = {
        "cores": 2, "system": "Linux", "python": "3.11.7", "sqlite": "3.50.0",
        "durability": "WAL and synchronous=FULL", "quick": False, "missing": "",
    }  # fmt: skip
    return Report(rows, facts, {"recall": "it broke"})
