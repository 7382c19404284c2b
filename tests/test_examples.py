"""The examples and the README's Python run as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXPECTED = {
    "first_agent.py": ["Hello, Ada!", "You are Ada.", ">>>Ada<<<"],
    "own_tool.py": ["3 × pear: 2.40", "Three pears cost 2.40."],
}


def run(source: Path | str, folder: Path) -> str:
    arguments = [str(source)] if isinstance(source, Path) else ["-c", source]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_expected_here() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example(name: str, tmp_path: Path) -> None:
    output = run(ROOT / "examples" / name, tmp_path)
    for line in EXPECTED[name]:
        assert line in output


@pytest.mark.parametrize(
    ("page", "expected"), [("README.md", "Hello!"), ("docs/tools.md", "3 words")]
)
def test_the_python_on_a_page(page: str, expected: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    outputs = [run(block, tmp_path) for block in blocks]
    assert expected in outputs[0]


def test_the_tools_page_names_every_tool(tmp_path: Path) -> None:
    from tools.toolsets import default_tools

    page = (ROOT / "docs" / "tools.md").read_text()
    for tool in default_tools({}, tmp_path):
        assert f"`{tool.name}`" in page and f"`{tool.toolset}`" in page, tool.name


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/tools.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_architecture_page_names_every_module() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for path in (ROOT / "src" / "hermes_state").glob("*.py"):
        if not path.name.startswith(("__init__", "search_")):
            assert path.name in page, f"{path.name} is not on the architecture page"
