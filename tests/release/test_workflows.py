"""The workflows run what `.ci/run` runs, and every `make` target that anything names exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from release_parts import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


def commands(path: Path) -> list[str]:
    """Every command of a workflow."""
    steps = [step for job in load(path)["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


def made(text: str) -> set[str]:
    """The targets that a script or a page calls, as a command of their own."""
    return set(re.findall(r"^\s*(?:[A-Z]+=\S+ )?make ([a-z]+)", text, re.MULTILINE))


def test_the_targets_are_phony_and_real() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    called = made("\n".join(commands(path)))
    assert called and called <= TARGETS
    for job in workflow["jobs"].values():
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert "run" in step or re.fullmatch(r"[\w/-]+@(v\d+|release/v\d+)", step["uses"])
    for name in re.findall(
        r"hashFiles\('([^']+)'\)|cache-dependency-path: (\S+)", path.read_text()
    ):
        assert (ROOT / (name[0] or name[1])).exists()


def test_ci_is_what_everybody_runs() -> None:
    script = made((ROOT / ".ci" / "run").read_text())
    assert script == made("\n".join(commands(ROOT / ".github" / "workflows" / "ci.yml")))
    assert script == {"lint", "test"}


def test_every_python_that_is_promised_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    matrix = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == found
    assert project["requires-python"] == f">={found[0]}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "examples/README.md"])
def test_the_targets_on_a_page(page: str) -> None:
    assert made((ROOT / page).read_text()) <= TARGETS


def test_only_the_owner_publishes() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["if"] == "vars.PUBLISH == 'true'"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert "`PUBLISH`" in page and "`pypi`" in page
