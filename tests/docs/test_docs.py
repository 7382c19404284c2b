"""What the documentation says is so: links lead somewhere, commands and keys exist, code runs."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from hermes_cli.main import build_parser

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]


class Block(NamedTuple):
    page: Path
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, and indented ones as blocks without a kind."""
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        if line.startswith("```"):
            while not lines[at].startswith("```"):
                at += 1
            text = "\n".join(lines[start + 1 : at])
            at += 1
            yield Block(page, start + 1, line[3:].strip(), text)
        elif line.startswith("    ") and (start == 0 or not lines[start - 1].strip()):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            yield Block(page, start + 1, "", "\n".join(one[4:] for one in lines[start:at]))


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))


BLOCKS = [one for page in PAGES for one in blocks(page)]


def of_kind(*kinds: str) -> list[Block]:
    found = [one for one in BLOCKS if one.kind in kinds]
    assert found, f"no {kinds} block was found: the parser of pages is broken"
    return found


# Links


def anchors(page: Path) -> set[str]:
    """The anchors that a reader of the source sees, one per heading."""
    found: list[str] = []
    for title in re.findall(r"(?m)^#{1,6} (.+)$", prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(slug)
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            wrong.append(target)
    assert not wrong


def test_every_page_is_reached_from_the_first() -> None:
    reached, waiting = set(), [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([\w-]+\.md)", prose(page))
        waiting += [page.parent / one for one in targets]
    assert reached >= set(DOCS)


@pytest.mark.parametrize(
    "picture", sorted((ROOT / "docs/images").glob("*.svg")), ids=lambda p: p.name
)
def test_a_picture_is_whole_and_used(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    assert root.tag.endswith("svg")
    assert any(picture.name in page.read_text(encoding="utf-8") for page in PAGES)


# Commands


def hermes_lines(text: str) -> Iterator[list[str]]:
    """The words of every call of `hermes` in a block of shell."""
    for line in text.splitlines():
        try:
            words = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
            words.whitespace_split = True
            tokens = list(words)
        except ValueError:
            continue  # a line of something that is no shell
        call: list[str] | None = None
        for token in [*tokens, ";"]:
            if set(token) <= set("|&;<>"):
                if call:
                    yield call
                call = None
            elif call is not None:
                call.append(token)
            elif token == "hermes":
                call = [token]


COMMANDS = [
    (one.place, words)
    for one in of_kind("sh", "bash", "")
    for words in hermes_lines(one.text)
    if one.page != ROOT / "README.md"  # which is run, elsewhere
]


@pytest.mark.parametrize(
    ("place", "words"), COMMANDS, ids=lambda one: " ".join(one) if isinstance(one, list) else one
)
def test_a_command_line_is_understood(
    place: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        build_parser().parse_args(words[1:])
    except SystemExit:
        pytest.fail(f"{place}: {' '.join(words)}: {capsys.readouterr().err}")


def walk(words: list[str]) -> str | None:
    """The word of a command that does not exist; None if all do."""
    parser: argparse.ArgumentParser = build_parser()
    known = set(parser._option_string_actions)
    for word in words:
        choices = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if word.startswith("-"):
            if word.partition("=")[0] not in known:
                return word
        elif choices:
            if word not in choices[0]:
                return word
            parser = choices[0][word]
            known |= set(parser._option_string_actions)
    return None


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert walk(["sessions", "lst"]) == "lst"
    assert walk(["backup", "--never"]) == "--never"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_commands_in_sentences_exist(page: Path) -> None:
    calls = re.findall(r"`hermes((?: [^`\n]+)?)`", prose(page))
    wrong = [one for one in calls if one != " name" and walk(one.split())]  # a plugin's own
    assert not wrong


# Code


def test_the_metrics_that_are_named_exist() -> None:
    from gateway import metrics

    facts = dict.fromkeys((name for name, *_ in metrics._PLAIN), 0)
    shown = metrics.prometheus({**facts, "turn_seconds": 0, "platforms": {}})
    named = re.findall(r"hermes_\w+_\w+|hermes_chats", (ROOT / "docs/operating.md").read_text())
    assert named
    assert [one for one in named if one not in shown] == []


@pytest.mark.parametrize("block", of_kind("python"), ids=lambda block: block.place)
def test_python_compiles(block: Block) -> None:
    ast.parse(block.text)


RUNNABLE = [one for one in of_kind("python") if one.text.startswith("# runnable")]


@pytest.mark.parametrize("block", RUNNABLE, ids=lambda block: block.place)
def test_runnable_python_runs(block: Block, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=tmp_path,
        env={**os.environ, "HERMES_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_example_is_on_its_page() -> None:
    page = (ROOT / "docs/examples.md").read_text(encoding="utf-8")
    there = [one for one in (ROOT / "examples").iterdir() if one.suffix in (".py", ".sh")]
    assert [one.name for one in there if f"`{one.name}`" not in page] == []
    named = re.findall(r"(?m)^\| `([\w./]+)` \|", page)
    assert named
    assert [one for one in named if not (ROOT / "examples" / one).exists()] == []


def test_the_modules_that_are_named_exist() -> None:
    """Files of the source and its tests that security.md appeals to."""
    page = prose(ROOT / "docs/security.md")
    named = re.findall(r"`([a-z_]+/[\w/]+(?:\.py)?)`", page)
    assert len(named) > 8
    places = [ROOT / "src", ROOT]
    assert [one for one in named if not any((top / one).exists() for top in places)] == []


def files_of_the_page() -> list[str]:
    """The files and folders that the architecture page has rows for, as paths in `src`.

    A name without a folder is in that of the name before it.
    """
    named, folder = [], ""
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        cells = line.strip("|").split("|")
        if not line.startswith("|") or len(cells) < 3:
            continue
        for name in re.findall(r"`([^`]+(?:\.py|/))`", cells[1]):
            path = name if (SOURCE / name.partition("/")[0]).is_dir() else f"{folder}/{name}"
            named.append(path)
            if "/" in name and path == name:
                folder = name.rstrip("/").rpartition("/")[0]
    return named


def test_every_module_has_its_row() -> None:
    rows = files_of_the_page()
    folders = [row for row in rows if row.endswith("/")]
    missing = [
        name
        for path in sorted(SOURCE.rglob("*.py"))
        if (name := path.relative_to(SOURCE).as_posix())
        and path.name != "__init__.py"
        and not name.startswith(tuple(folders))
        and not any(fnmatch(name, row) for row in rows)
    ]
    assert missing == []


def test_every_row_is_about_a_module() -> None:
    gone = [row for row in files_of_the_page() if not list(SOURCE.glob(row))]
    assert gone == []


def test_the_platforms_page_is_current() -> None:
    from hermes_cli.platforms_page import renewed

    page = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    assert renewed(page) == page, "run: python -m hermes_cli.platforms_page docs/platforms.md"
