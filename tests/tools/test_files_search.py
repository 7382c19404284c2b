"""Searching real trees, with ripgrep where it is installed and with the built-in search."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tools.base import ToolContext, ToolError, Workspace
from tools.files.search import search_files

from .. import seeds, skips


def context_in(folder: Path) -> ToolContext:
    return ToolContext("s", "c", workspace=Workspace(folder / "home", folder))


def search(folder: Path, pattern: str, **more: Any) -> str:
    return str(search_files.run(context_in(folder), pattern, **more))


@pytest.fixture(params=["ripgrep", "built-in"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with both searches."""
    if request.param == "built-in":
        monkeypatch.setenv("PATH", "/nowhere")
    else:
        skips.need("rg")
    return str(request.param)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "src/main.py": "import os\n\ndef main():\n    return os.getcwd()\n",
        "src/deep/er/util.py": "def helper():\n    pass  # TODO: main\n",
        "web/app.ts": "const main = 1;\n",
        "web/app.tsx": "export main;\n",
        "notes.txt": "nothing here\nmain thing\r\nlast",
        ".hidden/x.py": "main\n",
        ".env": "main=1\n",
        "build/out.py": "main\n",
        "build/keep.py": "main\n",
        ".gitignore": "build/*\n!build/keep.py\n*.log\n",
        "a.log": "main\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content.encode())
    (tmp_path / "blob.bin").write_bytes(b"main\0main\n")
    (tmp_path / "wide.txt").write_bytes("main wide\n".encode("utf-16"))
    (tmp_path / "link.py").symlink_to("src/main.py")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "pipe")
    if shutil.which("git"):
        subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    else:
        (tmp_path / ".git").mkdir()
    return tmp_path


def test_lines_are_found_by_path_and_number(either: str, tree: Path) -> None:
    assert search(tree, r"\bmain\b") == (
        "build/keep.py\n     1:main\n"
        "notes.txt\n     2:main thing\n"
        "src/deep/er/util.py\n     2:    pass  # TODO: main\n"
        "src/main.py\n     3:def main():\n"
        "web/app.ts\n     1:const main = 1;\n"
        "web/app.tsx\n     1:export main;\n"
        "wide.txt\n     1:main wide\n"
        "[7 found]"
    )


def test_names_and_counts(either: str, tree: Path) -> None:
    assert search(tree, "main|def", output_mode="files_only", file_glob="*.py") == (
        "build/keep.py\nsrc/deep/er/util.py\nsrc/main.py\n[3 found]"
    )
    assert search(tree, "main|os", output_mode="count", path="src") == (
        "src/deep/er/util.py: 1\nsrc/main.py: 3\n[in all 4 matching lines in 2 files]"
    )


def test_context_lines_are_marked(either: str, tree: Path) -> None:
    assert search(tree, "def main", context=1) == (
        "src/main.py\n     2-\n     3:def main():\n     4-    return os.getcwd()\n[1 found]"
    )


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.py", ["build/keep.py", "src/deep/er/util.py", "src/main.py"]),
        ("src/**/*.py", ["src/deep/er/util.py", "src/main.py"]),
        ("src/*.py", ["src/main.py"]),
        ("*.{ts,tsx}", ["web/app.ts", "web/app.tsx"]),
        ("[mn]*", ["notes.txt", "src/main.py"]),
        ("UTIL", ["src/deep/er/util.py"]),
        ("deep/er", ["src/deep/er/util.py"]),
        (".env*", [".env"]),
        (".hidden/*", [".hidden/x.py"]),
    ],
)
def test_files_are_found_by_name(either: str, tree: Path, glob: str, names: list[str]) -> None:
    found = search(tree, glob, target="files").splitlines()
    assert found == [*names, f"[{len(names)} found]"]


def test_pages_fit_together(either: str, tree: Path) -> None:
    whole = search(tree, "*", target="files").splitlines()[:-1]
    pages = []
    for offset in range(0, len(whole), 2):
        page = search(tree, "*", target="files", limit=2, offset=offset).splitlines()
        pages += page[:-1]
        more = f"[2 shown, there are more; go on with offset={offset + 2}]"
        assert (page[-1] == more) == (offset + 2 < len(whole))
    assert pages == whole
    assert "is past them" in search(tree, "*", target="files", offset=50)


def test_nothing_found_says_what_was_left_out(either: str, tree: Path) -> None:
    assert "those git ignores left out" in search(tree, "no such text")


def test_an_ignored_or_hidden_folder_is_searched_if_named(either: str, tree: Path) -> None:
    assert "x.py" in search(tree, "main", path=".hidden")
    (tree / ".gitignore").write_text("build/\n")
    assert "build" not in search(tree, "*.py", target="files")
    assert "build/out.py" in search(tree, "main", path="build")


def test_one_file_is_searched_if_named(either: str, tree: Path) -> None:
    assert "     1:main" in search(tree, "main", path="a.log")
    assert "     3:def main():" in search(tree, "main", path="link.py")
    with pytest.raises(ToolError, match="binary"):
        search(tree, "main", path="blob.bin")
    with pytest.raises(ToolError, match="named pipe"):
        search(tree, "main", path="pipe")
    with pytest.raises(ToolError, match=r"Near it: .*src"):
        search(tree, "main", path="srv")
    with pytest.raises(ToolError, match="kernel"):
        search(tree, "main", path="/proc/self")


@pytest.mark.parametrize("pattern", ["foo(", "[a", "*x", "(?P<n", "a{2,1}", "\\"])
def test_a_bad_expression_is_explained(either: str, tree: Path, pattern: str) -> None:
    with pytest.raises(ToolError, match=r"not a valid regular expression.*escape it"):
        search(tree, pattern)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("interface {", "interface {"),  # a bare brace, which ripgrep refuses
        (r"a\/b", "a/b"),
        (r"\<b\>", "<b>"),
        (r"(?<!x)y(?=z)", "yz"),
        (r"(.)\1\1", "aaa"),
        ("[[:alpha:]][[:digit:]]", "q7"),
        ("[[]x]", "[x]"),
        ("end$", "the end"),
        ("(?i)SHOUT", "shout"),
        ("żółć", "zażółć"),
    ],
)
def test_expressions_mean_the_same_to_both(
    either: str, tmp_path: Path, pattern: str, line: str
) -> None:
    (tmp_path / "x.txt").write_bytes(f"no\r\n{line}\r\n".encode())
    assert f"     2:{line}\n[1 found]" in search(tmp_path, pattern)


def test_long_lines_are_cut(either: str, tmp_path: Path) -> None:
    (tmp_path / "x.js").write_text("let a;" + "x" * 3_000_000 + "\nlet b;\n")
    found = search(tmp_path, "let")
    assert len(found) < 1_000
    assert "[…]" in found
    assert "     2:let b;" in found


def test_odd_file_names(either: str, tmp_path: Path) -> None:
    names = [b"new\nline", b"-dash", b"\xff\xfe", b"a:1:b", "é".encode(), b"tab\t", b"a\\b"]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_text("here\n")
    assert search(tmp_path, "here").endswith(f"[{len(names)} found]")
    assert search(tmp_path, "*", target="files").endswith(f"[{len(names)} found]")


def test_a_very_deep_tree(either: str, tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(400):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "x").write_text("found\n")
    assert search(tmp_path, "found").endswith("[1 found]")


def test_cancelling_ends_a_search_and_its_process(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a" * 5_000 + "!\n")
    context = context_in(tmp_path)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            search_files.run(context, r"(?=(a+)+$)(?!x)")  # takes for ever, and ripgrep refuses it
        except ToolError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not children():
        time.sleep(0.01)
    (child,) = children()
    context.cancelled.set()
    thread.join(60)
    assert not thread.is_alive()
    assert "Stopped" in str(failures[0])
    assert not Path(f"/proc/{child}").exists()


def children() -> list[str]:
    task = Path(f"/proc/{os.getpid()}/task")
    if not task.exists():
        pytest.skip("needs /proc, which only Linux has")
    found: list[str] = []
    for thread in task.iterdir():
        try:
            ids = (thread / "children").read_text().split()
        except OSError:
            continue
        found += [pid for pid in ids if b"files.scan" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


def test_a_search_that_takes_too_long_shows_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("aaa\n")
    (tmp_path / "b.txt").write_text("a" * 5_000 + "!\n")
    for limit in (1, 30):  # a busy machine may not have come to a.txt within the first
        monkeypatch.setattr("tools.files.search_run.SECONDS", limit)
        found = search(tmp_path, r"^(?=a)(a+)+$(?!x)")
        if "a.txt" in found:
            break
    assert "a.txt\n     1:aaa" in found
    assert "[stopped after" in found


def test_no_secret_of_ours_reaches_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = tmp_path / "bin" / "rg"
    show.parent.mkdir()
    show.write_text(f"#!{sys.executable}\nimport os, json\nprint(json.dumps(dict(os.environ)))\n")
    show.chmod(0o755)
    monkeypatch.setenv("PATH", f"{show.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    out = tmp_path / "seen.json"
    show.write_text(show.read_text().replace("print(", f"open({str(out)!r}, 'w').write("))
    search(tmp_path, "x")
    assert "OPENAI_API_KEY" not in json.loads(out.read_text())


# The two searches against each other, on trees nobody thought of.

NAMES = ["a", "b.py", "c.txt", "d", ".h", "e.py", "build", "a.log"]
RULES = ["*.py", "/a", "b*", "!b.py", "d/", "build", "*.log", "!*.log", "a/**/c.txt", "**/e.py"]
LINES = ["foo", "bar foo", "", "  foo\t", "FOO", "fo", "x" * 500, "żółw foo", "foo\r", "a.b"]
contents = st.lists(st.sampled_from(LINES), max_size=6).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "\n".join(lines) + "\n"])
)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple)
trees = st.dictionaries(paths, contents, max_size=14)
ignores = st.dictionaries(
    st.sampled_from([(), ("a",), ("d",), ("a", "d"), ("build",)]),
    st.lists(st.sampled_from(RULES), max_size=4),
    max_size=3,
)


def plant(root: Path, tree: dict[tuple[str, ...], str], rules: dict[tuple[str, ...], Any]) -> None:
    for parts, content in tree.items():
        path = root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode())
        except OSError:
            continue  # a file is where a folder should be, or the other way round
    for parts, lines in rules.items():
        folder = root.joinpath(*parts)
        if folder.is_dir():
            (folder / ".gitignore").write_text("\n".join(lines) + "\n")


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[Any]:
    count = iter(range(10**9))
    yield lambda: tmp_path / str(next(count))


@skips.needs("rg")
@settings(
    max_examples=seeds.examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    tree=trees,
    rules=ignores,
    repository=st.booleans(),
    pattern=st.sampled_from(["foo", "^foo$", "o+", "(?i)foo", r"\s", ".", r"[^o]$", "ó", "a.b|x"]),
    more=st.fixed_dictionaries(
        {},
        optional={
            "output_mode": st.sampled_from(["content", "files_only", "count"]),
            "context": st.integers(0, 3),
            "file_glob": st.sampled_from(["*.py", "a/**", "[a-c]*", "*.{py,txt}", ".h", "**/d/*"]),
            "limit": st.integers(1, 6),
            "offset": st.integers(0, 4),
            "target": st.sampled_from(["content", "files"]),
        },
    ),
    inside=st.sampled_from(["", "a", "d", "build"]),
)
@example(
    tree={("a", "d", "c.txt"): "foo", ("a", "a"): "foo"},
    rules={(): ["/a"], ("a",): ["!c.txt"]},
    repository=True,
    pattern="foo",
    more={},
    inside="a",
)
def test_both_searches_find_the_same(
    roots: Any,
    monkeypatch: pytest.MonkeyPatch,
    tree: dict[tuple[str, ...], str],
    rules: dict[tuple[str, ...], Any],
    repository: bool,
    pattern: str,
    more: dict[str, Any],
    inside: str,
) -> None:
    root = roots()
    root.mkdir()
    if repository:
        (root / ".git").mkdir()
    plant(root, tree, rules)
    more = {**more, "path": inside if (root / inside).exists() else "."}
    results = []
    for path in (os.environ["PATH"], "/nowhere"):
        with monkeypatch.context() as patched:
            patched.setenv("PATH", path)
            results.append(outcome(root, pattern, more))
    assert results[0] == results[1]


def outcome(root: Path, pattern: str, more: dict[str, Any]) -> str:
    try:
        return search(root, pattern, **more)
    except ToolError as error:
        return f"error: {error}"
