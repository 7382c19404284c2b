"""The direction of imports, late and dynamic ones included, and who may speak SQL."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

LAYERS = (
    ("hermes_base",),
    ("hermes_state",),
    ("tools",),
    ("agent",),
    ("conversation",),
    ("gateway", "tui_gateway"),
    ("hermes_cli",),
)
"""From the bottom up: each may import what is below it, and nothing beside or above it."""

LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}

SAY_VERSIONS = ("hermes_cli.commands.version",)
"""Modules that only say which version of a library is there."""

DYNAMIC = ("import_module", "__import__", "resolve_name")


@cache
def modules() -> list[tuple[str, str, ast.Module]]:
    """Every module of the project: its name, its package, and its syntax."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        package = ".".join(parts[:-1])
        found.append((name, package, ast.parse(path.read_text(encoding="utf-8"))))
    return found


def imported(node: ast.AST, package: str) -> Iterator[str]:
    """The modules that one piece of syntax names for an import, as far as it says so."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        yield ".".join([*(above if node.level else []), *filter(None, [node.module])])
    elif isinstance(node, ast.Call):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in DYNAMIC and node.args:
            yield _beginning(node.args[0])


def _beginning(argument: ast.expr) -> str:
    """The text an argument begins with, where it is written out."""
    if isinstance(argument, ast.JoinedStr) and argument.values:
        argument = argument.values[0]
    return str(argument.value) if isinstance(argument, ast.Constant) else ""


def upward() -> Iterator[str]:
    for name, package, tree in modules():
        own = name.partition(".")[0]
        for node in ast.walk(tree):
            for target in imported(node, package):
                other = target.partition(".")[0]
                if other != own and LEVELS.get(other, -1) >= LEVELS[own]:
                    yield f"{name}, line {node.lineno}: {target}"  # type: ignore[attr-defined]


def test_imports_point_one_way() -> None:
    assert list(upward()) == []


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import gateway.run", "gateway.run"),
        ("def late():\n    from gateway import run", "gateway"),
        ("importlib.import_module('gateway.run')", "gateway.run"),
        ("importlib.import_module(f'gateway.{name}')", "gateway."),
        ("from ..config import write", "agent.config"),
        ("from . import table", "agent.slash"),
    ],
)
def test_every_way_to_import_is_seen(line: str, module: str) -> None:
    tree = ast.parse(line)
    assert [name for node in ast.walk(tree) for name in imported(node, "agent.slash")] == [module]


def test_every_package_has_its_layer() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages <= LEVELS.keys()


def test_sql_is_in_the_store_only() -> None:
    """A database is opened, and its cursors are made, in `hermes_state` only."""
    found = [
        name
        for name, package, tree in modules()
        if not name.startswith("hermes_state") and name not in SAY_VERSIONS
        for node in ast.walk(tree)
        for target in imported(node, package)
        if target.partition(".")[0] in ("apsw", "sqlite3", "psycopg")
    ]
    assert found == []


def test_the_store_behind_the_coroutines_is_called_by_its_name() -> None:
    """`AsyncSessionDB.sync`; `_db` is a door for others."""
    found = [
        f"{name}, line {node.lineno}"
        for name, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "_db"
        and ast.unparse(node.value).endswith("session_db")
    ]
    assert found == []
