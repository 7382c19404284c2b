"""What is ignored, compared with what git itself says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tools.files.gitignore import glob_regex, ignore_at

from .. import seeds, skips

pytestmark = skips.needs("git")

NAMES = ["a", "b", "ab", "a.b", "[x]", "é", "!b", "#a", "a b ", "b-", "a\\b"]
FOLDERS = ["", "a/", "a/b/", "b/", "b/a/ab/", "é/"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for folder in FOLDERS:
        for name in NAMES:
            if not (root / folder / name).exists():
                (root / folder / name).touch()
    return root


def said_by_git(root: Path, paths: list[bytes]) -> set[bytes]:
    answer = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=root,
        input=b"\0".join(paths) + b"\0",
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"},
    )
    assert answer.returncode in (0, 1), answer.stderr
    return set(answer.stdout.split(b"\0")) - {b""}


def said_by_us(root: Path, paths: list[bytes], monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    base = os.fsencode(root)
    known: dict[bytes, bool] = {b"": False}

    def ignored(path: bytes) -> bool:
        if path not in known:
            folder = path.rpartition(b"/")[0]
            own = base + b"/" + folder if folder else base
            full = base + b"/" + path
            is_folder = Path(os.fsdecode(full)).is_dir()
            known[path] = ignored(folder) or ignore_at(own).ignored(full, is_folder)
        return known[path]

    return {path for path in paths if ignored(path)}


def all_paths(root: Path) -> list[bytes]:
    found = (path.relative_to(root) for path in root.rglob("*"))
    return sorted(os.fsencode(path) for path in found if path.parts[0] != ".git")


PIECES = ["*", "**", "?", "a", "b", ".", "/", "/", "\\", "é", " ", "-"]
PIECES += [
    "[ab]",
    "[!a]",
    "[^b]",
    "[a-c]",
    "[]a]",
    "[",
    "]",
    "!",
    "#",
    "[[:alpha:]]",
    "[\\]x]",
    "[b-a]",
]
patterns = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
files = st.lists(st.one_of(patterns, patterns.map(lambda p: "!" + p)), max_size=5)


@settings(
    max_examples=seeds.examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(top=files, nested=files, exclude=files)
@example(top=["a/**"], nested=["!a.b"], exclude=["*.b"])
@example(top=["/**/ab", "!b/**/ab"], nested=[], exclude=[])
@example(top=["a\\ b\\ ", "b/"], nested=["\\!b", "\\#a"], exclude=["***/a"])
@example(top=["*", "!a", "!*/"], nested=["[![:alpha:]]*"], exclude=[])
def test_the_same_files_are_ignored_as_by_git(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    top: list[str],
    nested: list[str],
    exclude: list[str],
) -> None:
    (repository / ".gitignore").write_text("\n".join(top) + "\n")
    (repository / "b" / ".gitignore").write_text("\r\n".join(nested))
    (repository / ".git" / "info" / "exclude").write_text("\n".join(exclude))
    paths = all_paths(repository)
    assert said_by_us(repository, paths, monkeypatch) == said_by_git(repository, paths)


def test_the_global_file_and_a_repository_within_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = ~/my-ignores\n")
    (tmp_path / "my-ignores").write_text("*.global\n")
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    for folder in (outer, inner):
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
        for name in ("x.global", "x.outer", "x.inner", "x.txt"):
            (folder / name).touch()
    (outer / ".gitignore").write_text("*.outer\n")
    (inner / ".gitignore").write_text("*.inner\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def ignored(folder: Path) -> set[str]:
        rules = ignore_at(os.fsencode(folder))
        return {p.name for p in folder.glob("x.*") if rules.ignored(os.fsencode(p), False)}

    assert ignored(outer) == {"x.global", "x.outer"}
    assert ignored(inner) == {"x.global", "x.inner"}


def test_a_worktree_uses_the_exclude_file_of_its_repository(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run([*git, "init", "--quiet", str(main)], check=True)
    subprocess.run(
        [*git, "-C", str(main), "commit", "--quiet", "--allow-empty", "-m", "first"], check=True
    )
    subprocess.run(
        [*git, "-C", str(main), "worktree", "add", "--quiet", str(tree)],
        check=True,
        capture_output=True,
    )
    (main / ".git" / "info" / "exclude").write_text("secret\n")
    rules = ignore_at(os.fsencode(tree))
    assert rules.ignored(os.fsencode(tree / "secret"), False)
    assert not rules.ignored(os.fsencode(tree / "open"), False)


def test_outside_of_a_repository_nothing_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    assert not ignore_at(os.fsencode(tmp_path)).ignored(os.fsencode(tmp_path / "x"), False)


@pytest.mark.parametrize("glob", ["*a" * 60, "*[ab]" * 60, "*" * 200 + "b", "*?" * 3_000 + "z"])
def test_no_glob_takes_long(glob: str) -> None:
    import re

    expression = glob_regex(glob)
    assert expression is not None
    # Without care this would not end within the age of the universe.
    assert not re.compile(expression).fullmatch("a" * 250 + "!")
