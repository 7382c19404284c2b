"""Files that this conversation wrote before, and now runs: as if their text were in the command.

What can be read as commands is followed: shell scripts, recipes of a Makefile, scripts of a
package.json. Any other program that the conversation wrote is asked about. Programs that were there
before are their own business, and so is what a compiler or a test runner loads.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from .budget import TooComplex
from .marks import as_literal, has_marks
from .paths import real

if TYPE_CHECKING:
    from .call import Call
    from .walk import Walker

KEY = "runs-own-file"
_LARGEST = 200_000
_ASSIGNMENT = re.compile(r"(?:export )?([A-Za-z_][\w.]*)\s*(?:[:?+]{0,2}:?=)\s*(.*)")
_VARIABLE = re.compile(r"\$[({]([A-Za-z_][\w.]*)[)}]")
_AUTOMATIC = re.compile(r"\$(?:[@<^+*?%|]|[({][@<^+*?%|][DF]?[)}])")
_FURTHER = re.compile(
    r"\$[({]\w+[ ,]|^-?include|^sinclude|^define|!=|^\.?SHELL|^\.ONESHELL", re.MULTILINE
)
_USUAL = {"CC": "cc", "CXX": "c++", "AR": "ar", "RM": "rm -f", "MAKE": "true", "CURDIR": "."}
_DEEPEST = 5
"""Variables of a Makefile within variables that are followed."""

BUILD_FILES = {
    "rake": ("Rakefile", "rakefile"), "just": ("justfile", "Justfile", ".justfile"),
    "cmake": ("CMakeLists.txt",), "ant": ("build.xml",), "mvn": ("pom.xml",),
    "gradle": ("build.gradle", "build.gradle.kts", "settings.gradle"),
    "gradlew": ("build.gradle", "build.gradle.kts", "settings.gradle"), "tox": ("tox.ini",),
    "nox": ("noxfile.py",), "invoke": ("tasks.py",), "inv": ("tasks.py",), "fab": ("fabfile.py",),
    "gulp": ("gulpfile.js",), "grunt": ("Gruntfile.js",), "scons": ("SConstruct",),
    "vagrant": ("Vagrantfile",), "direnv": (".envrc",),
}  # fmt: skip
"""Programs that run what is in a file of their own."""
RUNNING = frozenset({"go", "ts-node", "tsx", "java", "dart", "swift", "kotlin", "scala", "dotnet"})
"""Programs that run the files they are given."""
_INSTALLING = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare")


def is_own(shell: Walker, path: str) -> bool:
    """Whether this conversation wrote the file at an absolute path, before this command."""
    return bool(shell.own_files) and not has_marks(path) and real(path) in shell.own_files


def ask(shell: Walker, path: str) -> None:
    """Note that a program is run which this conversation wrote."""
    name = path.rsplit("/", 1)[-1][:60]
    shell.report(KEY, f"Runs a file that this conversation wrote: {name}")


def follow_script(shell: Walker, path: str, *, in_place: bool) -> None:
    """Follow a shell script that this conversation wrote."""
    text = _text(shell, path)
    if text is None:
        ask(shell, path)
    else:
        _follow(shell, path, [text], in_place=in_place)


def follow_makefile(shell: Walker, path: str) -> None:
    """Follow every recipe of a Makefile that this conversation wrote."""
    text = _text(shell, path)
    if text is None or _FURTHER.search(text):
        ask(shell, path)
        return
    text = text.replace("\\\n", " ")
    variables = dict(_USUAL)
    recipes = []
    for line in text.split("\n"):
        if line.startswith("\t"):
            recipes.append(line)
        elif match := _ASSIGNMENT.fullmatch(line.strip()):
            variables[match[1]] = match[2]
        elif ";" in line:
            recipes.append(line.partition(";")[2])
    commands = [_expanded(recipe, variables) for recipe in recipes]
    _follow(shell, path, [command for command in commands if command])


def follow_package(call: Call, words: list[str]) -> None:
    """Follow the scripts of a package.json that this conversation wrote, as npm would run them."""
    shell = call.shell
    folder = next(
        iter(call.options("C", ("prefix", "cwd", "dir")).get("C", "prefix", "cwd", "dir")), "."
    )
    for path in shell.paths(f"{folder}/package.json"):
        if not is_own(shell, path):
            continue
        text = _text(shell, path)
        try:
            scripts = json.loads(text or "").get("scripts") or {}
            names = _script_names(words, scripts)
        except (ValueError, AttributeError, RecursionError):
            ask(shell, path)
            continue
        _follow(shell, path, [str(scripts[name]) for name in names if name in scripts])


def check_program(call: Call) -> None:
    """Note it if a program runs a file which this conversation wrote."""
    if not call.shell.own_files:
        return
    files = list(BUILD_FILES.get(call.name, ()))
    if call.name in RUNNING:
        files += [argument for argument in call.arguments if not argument.startswith("-")]
    for file in files:
        for path in call.shell.paths(file):
            if is_own(call.shell, path):
                ask(call.shell, path)


def _script_names(words: list[str], scripts: dict[str, str]) -> list[str]:
    verb = words[0] if words else "install"
    if verb in ("run", "run-script", "rum", "urn"):
        chosen = words[1:2] or list(scripts)
    elif verb in ("i", "install", "ci", "add", "rebuild", "link", "pack", "publish", "update"):
        return [*_INSTALLING, "prepack", "postpack", "prepublishOnly", "publish", "postpublish"]
    else:
        chosen = ["test" if verb in ("t", "tst") else verb]
    return [hook + name for name in chosen for hook in ("pre", "", "post")]


def _follow(shell: Walker, path: str, scripts: list[str], *, in_place: bool = False) -> None:
    if path in shell.followed:
        return  # it calls itself
    shell.followed.add(path)
    budget, shell.budget = shell.budget, shell.script_budget
    try:
        for text in scripts:
            if in_place:
                shell.script(text)
            else:
                shell.child_script(text)
    except TooComplex:
        ask(shell, path)
    finally:
        shell.budget = budget
        shell.followed.discard(path)


def _expanded(recipe: str, variables: dict[str, str]) -> str:
    """A recipe as the shell gets it, as far as its variables are known."""
    text = recipe.strip().lstrip("@-+")
    for _ in range(_DEEPEST):
        expanded = _VARIABLE.sub(lambda reference: variables.get(reference[1], reference[0]), text)
        if expanded == text or len(expanded) > _LARGEST:
            break
        text = expanded
    return _AUTOMATIC.sub("target", text).replace("$$", "$")


def _text(shell: Walker, path: str) -> str | None:
    """What is in a file; None if it is not there, too long or no text, or after too many."""
    if shell.script_budget.spent > shell.script_budget.limit:
        return None
    file = Path(as_literal(path))
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        text = file.read_text(encoding="utf-8")
        shell.script_budget.spent += 1_000 + len(text) // 8
    except (OSError, ValueError):
        return None
    return None if "\0" in text else text
