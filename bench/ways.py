"""How far a message goes: the files it passes from a Telegram update to the answer that is sent.

`python -m bench ways` counts here; `python -m bench.ways TREE …` beside other working trees, such
as one of an older commit, in one table. Counted are, for one plain message with an answer:

- files: those of `src` in which a function ran,
- hops: pairs of files of which one called the other, each pair once,
- steps back: hops into a file that imports the caller's, itself or through others, while the caller
  does not import it; imports within functions and for types are left out.

A chat's first message builds its agent; its next one finds it kept.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .lab import Lab, Measurement, run_all
from .measure import Finding, progress
from .processes import ROOT, clean_environment

MESSAGES = {"first": "a chat's first message", "next": "its next message"}
FIGURES = ("files", "hops", "steps back")


def count(tree: Path, folder: Path) -> dict[str, dict[str, list[str]]]:
    """By message and figure: the names of what was counted, in a working tree."""
    tree = tree.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        # Without our own folder on the path: the tests' helpers are the tree's too.
        [sys.executable, "-P", str(ROOT / "bench/ways_child.py"), str(tree), str(folder / "home")],
        cwd=ROOT, capture_output=True, text=True,
        env=clean_environment(folder) | {"PYTHONPATH": f"{tree / 'src'}:{tree}"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"No message could be followed in {tree}: {done.stderr[-2000:]}")
    imports = imports_of(tree / "src")
    counted = {}
    for message, way in json.loads(done.stdout.splitlines()[-1]).items():
        hops = [(caller, callee) for caller, callee in way["hops"]]
        counted[message] = {
            "files": way["files"],
            "hops": [f"{caller} → {callee}" for caller, callee in hops],
            "steps back": [
                f"{caller} → {callee}"
                for caller, callee in hops
                if is_back(caller, callee, imports)
            ],
        }
    return counted


def is_back(caller: str, callee: str, imports: dict[str, set[str]]) -> bool:
    """Whether a hop goes against the imports."""
    return caller in _reached(callee, imports) and callee not in _reached(caller, imports)


def _reached(start: str, imports: dict[str, set[str]]) -> set[str]:
    """The files that one imports, itself or through others."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imports.get(waiting.pop(), set()) - reached:
            reached.add(name)
            waiting.append(name)
    return reached


def imports_of(src: Path) -> dict[str, set[str]]:
    """By file: the files of `src` that it imports as it is imported itself."""
    files = {path.relative_to(src).as_posix() for path in src.rglob("*.py")}
    return {name: set(_imports(src / name, name, files)) for name in files}


def _imports(path: Path, name: str, files: set[str]) -> Iterable[str]:
    for node in _at_once(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (file for alias in node.names if (file := _file(alias.name, files)))
        elif isinstance(node, ast.ImportFrom):
            parents = name.split("/")[: -node.level] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                file = _file(f"{base}.{alias.name}", files) or _file(base, files)
                if file is not None:
                    yield file


def _at_once(tree: ast.AST) -> Iterable[ast.AST]:
    """The statements that run when a module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_once(node)


def _file(module: str, files: set[str]) -> str | None:
    stem = module.replace(".", "/")
    return next((file for file in (f"{stem}.py", f"{stem}/__init__.py") if file in files), None)


def measure_telegram(lab: Lab) -> list[Finding]:
    """One plain message with an answer."""
    progress("the way of a Telegram message")
    return [
        Finding(f"{MESSAGES[message]}: {figure}", str(len(names)), details={"names": names})
        for message, figures in count(ROOT, lab.folder / "ways").items()
        for figure, names in figures.items()
    ]


MEASUREMENTS: dict[str, Measurement] = {"telegram": measure_telegram}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Count in this working tree, and print it."""
    return run_all("ways", MEASUREMENTS, parts)


def compare(trees: list[Path]) -> list[list[str]]:
    """A line for every figure, with a column for every tree."""
    with tempfile.TemporaryDirectory() as folder:
        counted = [count(tree, Path(folder) / str(n)) for n, tree in enumerate(trees)]
    return [
        [f"{MESSAGES[message]}: {figure}", *(str(len(one[message][figure])) for one in counted)]
        for message in MESSAGES
        for figure in FIGURES
    ]


if __name__ == "__main__":
    for cells in [["", *sys.argv[1:]], *compare([Path(name) for name in sys.argv[1:]])]:
        print(" | ".join(cells))
