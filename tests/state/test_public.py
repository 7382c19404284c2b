"""What other packages may know of the store: the names and modules its `__init__` gives."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

import hermes_state

from ..test_structure import imported, modules

OPEN = {*hermes_state.__all__, *hermes_state.PUBLIC_MODULES}


def reached(node: ast.AST, package: str) -> Iterator[str]:
    """The names in `hermes_state` that one piece of syntax reaches."""
    for target in imported(node, package):
        top, _, inner = target.partition(".")
        if top != "hermes_state":
            continue
        if inner:
            yield inner.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and "." in target:
            yield "?"  # a name that is put together when it runs
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "hermes_state"
    ):
        yield node.attr


def test_nothing_above_the_store_reaches_into_it() -> None:
    found = [
        f"{module.name}, line {node.lineno}: {inner}"  # type: ignore[attr-defined]
        for module in modules()
        if module.name.partition(".")[0] != "hermes_state"
        for node in module.nodes("hermes_state")
        for inner in reached(node, module.package)
        if inner not in OPEN
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import hermes_state.turns", "turns"),
        ("from hermes_state.turns import Lease", "turns"),
        ("from hermes_state import turns", "turns"),
        ("def late():\n    from hermes_state.search.run import search", "search"),
        ("importlib.import_module('hermes_state.turns')", "turns"),
        ("__import__('hermes_state.turns')", "turns"),
        ("importlib.import_module(f'hermes_state.{name}')", "?"),
        ("hermes_state.turns", "turns"),
    ],
)
def test_every_way_in_is_seen(line: str, name: str) -> None:
    tree = ast.parse(line)
    assert [inner for node in ast.walk(tree) for inner in reached(node, "agent")] == [name]


@pytest.mark.parametrize("name", hermes_state.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(hermes_state, name) is not None


def test_a_name_that_is_none_is_said_so() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(hermes_state, "no_such_name")  # noqa: B009 - mypy knows that it is not there


def test_the_store_is_loaded_when_it_is_used() -> None:
    """Whoever catches its errors pays for neither SQLite nor asyncio."""
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from hermes_state import StoreError, plain_text;"
            " print(sorted({'apsw', 'asyncio', 'sqlite3'} & sys.modules.keys()))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip() == "[]"
