"""Following a message through the files counts what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import ways
from bench.lab import Lab

pytestmark = pytest.mark.by_name


def test_a_message_is_followed_to_its_answer(tmp_path: Path) -> None:
    findings = {found.what: found for found in ways.measure_telegram(Lab(tmp_path, True, None))}
    assert len(findings) == len(ways.MESSAGES) * len(ways.FIGURES)
    for message in ways.MESSAGES.values():
        files = findings[f"{message}: files"].details["names"]
        assert {"gateway/pipeline.py", "agent/loop.py", "hermes_state/messages.py"} <= set(files)
        hops = findings[f"{message}: hops"].details["names"]
        assert set(findings[f"{message}: steps back"].details["names"]) < set(hops)
    assert "agent/build.py" not in findings["its next message: files"].details["names"]


def test_a_step_back_is_a_call_into_what_imports_the_caller(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "low.py").write_text("def call(told):\n    from .top import x\n    told()\n")
    (package / "middle.py").write_text("from . import low\n")
    (package / "top.py").write_text("from .middle import low\nx = 1\n")
    imports = ways.imports_of(tmp_path)
    assert imports["p/top.py"] == {"p/middle.py"}
    assert ways.is_back("p/low.py", "p/top.py", imports)
    assert not ways.is_back("p/top.py", "p/low.py", imports)
