"""The direction of imports, late and dynamic ones included, and who may speak SQL."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.structure import LEVELS

SOURCE = Path(__file__).parent.parent / "src"

SAY_VERSIONS = ("hermes_cli.commands.version",)
"""Modules that only say which version of a library is there."""

HOW_IMPORTED = ("import ", "from ", '"', "'")
"""What stands before the name of a package where it is imported."""

DYNAMIC = ("import_module", "__import__", "resolve_name")


class Module(NamedTuple):
    """A module of the project."""

    name: str
    package: str
    text: str

    def nodes(self, *words: str) -> Iterator[ast.AST]:
        """Its syntax; nothing if none of the words is in its text: most need not be parsed."""
        if any(word in self.text for word in words):
            yield from ast.walk(ast.parse(self.text))


@cache
def modules() -> list[Module]:
    """Every module of the project."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name, ".".join(parts[:-1]), path.read_text(encoding="utf-8")))
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
    for module in modules():
        own = module.name.partition(".")[0]
        higher = {name for name in LEVELS if name != own and LEVELS[name] >= LEVELS[own]}
        for node in module.nodes(*(f"{how}{name}" for name in higher for how in HOW_IMPORTED)):
            for target in imported(node, module.package):
                if target.partition(".")[0] in higher:
                    line = node.lineno  # type: ignore[attr-defined]
                    yield f"{module.name}, line {line}: {target}"


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


DATABASES = ("apsw", "sqlite3", "psycopg")


def test_sql_is_in_the_store_only() -> None:
    """A database is opened, and its cursors are made, in `hermes_state` only."""
    found = [
        module.name
        for module in modules()
        if not module.name.startswith("hermes_state") and module.name not in SAY_VERSIONS
        for node in module.nodes(*DATABASES)
        for target in imported(node, module.package)
        if target.partition(".")[0] in DATABASES
    ]
    assert found == []


def test_the_store_behind_the_coroutines_is_called_by_its_name() -> None:
    """`AsyncSessionDB.sync`; `_db` is a door for others."""
    found = [
        f"{module.name}, line {node.lineno}"
        for module in modules()
        for node in module.nodes("session_db._db")
        if isinstance(node, ast.Attribute)
        and node.attr == "_db"
        and ast.unparse(node.value).endswith("session_db")
    ]
    assert found == []
