"""How the source hangs together: what modules take from each other beside their public names.

`python -m bench.structure` counts here; `python -m bench.structure TREE …` beside other working
trees, such as one of an older commit, in one table; `--names` lists what was counted. Counted are:

- lines of `src`,
- private attributes across modules: uses of `other._name` or `from other import _name` where the
  module itself, or a class that it names as a base, does not define `_name`,
- late imports: import statements within functions, of modules of `src`,
- upward imports: those of a package beside or above, wherever they stand, by the layers that
  `tests/test_structure.py` holds.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from .processes import ROOT

LAYERS = (
    ("hermes_base",),
    ("hermes_state",),
    ("tools",),
    ("agent",),
    ("conversation",),
    ("gateway", "tui_gateway"),
    ("web",),
    ("hermes_cli",),
)
"""From the bottom up: each may import what is below it, and nothing beside or above it. A tree that
has no such package has nothing to count there."""

LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}
DYNAMIC = ("import_module", "__import__", "resolve_name")
NAMED_TUPLE = {"_", "_asdict", "_replace", "_fields", "_make"}
"""Public, whatever they are called."""


class Source(NamedTuple):
    """A module of `src`."""

    file: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> list[str]:
        """The packages it lies in."""
        return self.file.split("/")[:-1]


def read(src: Path) -> list[Source]:
    """Every module of a source tree."""
    sources = []
    for path in sorted(src.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        sources.append(Source(path.relative_to(src).as_posix(), text, ast.parse(text)))
    return sources


def count_lines(sources: list[Source]) -> list[str]:
    """A name for every line."""
    return [
        f"{source.file}:{n}" for source in sources for n in range(len(source.text.splitlines()))
    ]


def private_uses(sources: list[Source]) -> list[str]:
    """Where a module uses a private name that another defines."""
    by_class = {
        node.name: _defined(node)
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }
    return [use for source in sources for use in _private_uses(source, by_class)]


def _private_uses(source: Source, by_class: dict[str, set[str]]) -> Iterator[str]:
    own = _defined(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                own |= by_class.get(ast.unparse(base).split("[")[0].split(".")[-1], set())
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            if ast.unparse(node.value) not in ("self", "cls"):
                yield f"{source.file}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and _is_ours(node):
            for alias in node.names:
                if _is_private(alias.name):
                    yield f"{source.file}:{node.lineno}: {node.module}.{alias.name}"


def _defined(tree: ast.AST) -> set[str]:
    """The private names that a piece of source defines: functions, fields, attributes it sets."""
    defined: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            defined |= {node.attr} if ast.unparse(node.value) in ("self", "cls") else set()
    return {name for name in defined if _is_private(name)}


def _is_private(name: str) -> bool:
    return name[:1] == "_" and name[:2] != "__" and name not in NAMED_TUPLE


def late_imports(sources: list[Source]) -> list[str]:
    """Imports of modules of the project that are made when a function is called."""
    return [
        f"{source.file}:{node.lineno}: {ast.unparse(node)}"
        for source in sources
        for node in _within_functions(source.tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and _is_ours(node)
    ]


def _within_functions(tree: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if inside:
            yield node
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _within_functions(node, inside or function)


def _is_ours(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] in LEVELS for alias in node.names)
    return bool(node.level) or (node.module or "").partition(".")[0] in LEVELS


def upward_imports(sources: list[Source]) -> list[str]:
    """Imports of what is beside or above."""
    return [
        f"{source.file}:{node.lineno}: {target}"
        for source in sources
        for node in ast.walk(source.tree)
        for target in _targets(node)
        if (own := source.package[0] if source.package else "") in LEVELS
        and (other := target.partition(".")[0]) in LEVELS
        and other != own
        and LEVELS[other] >= LEVELS[own]
    ]


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield node.module or ""
    elif isinstance(node, ast.Call) and node.args:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        first = node.args[0]
        if isinstance(first, ast.JoinedStr) and first.values:
            first = first.values[0]
        if called in DYNAMIC and isinstance(first, ast.Constant):
            yield str(first.value)


FIGURES: dict[str, Callable[[list[Source]], list[str]]] = {
    "lines": count_lines,
    "private attributes across modules": private_uses,
    "late imports": late_imports,
    "upward imports": upward_imports,
}


def count(tree: Path) -> dict[str, list[str]]:
    """By figure: the places that were counted in a working tree."""
    sources = read(tree / "src")
    return {figure: find(sources) for figure, find in FIGURES.items()}


def main() -> None:
    """Print a table, or the places."""
    parser = argparse.ArgumentParser(prog="python -m bench.structure", description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--names", choices=list(FIGURES), help="list the places of one figure")
    options = parser.parse_args()
    counted = [count(tree) for tree in options.trees]
    if options.names:
        print(*(name for places in counted for name in places[options.names]), sep="\n")
        return
    for figure in FIGURES:
        print(" | ".join([figure, *(str(len(places[figure])) for places in counted)]))


if __name__ == "__main__":
    main()
