"""patch: passages found with tolerance, patches in both notations, all or nothing."""

from __future__ import annotations

import difflib
import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tools.base import ToolContext, ToolError
from tools.files.diff import diff_of
from tools.files.match import replace
from tools.files.patch import patch
from tools.files.patch_apply import apply_hunks
from tools.files.patch_parse import parse_patch
from tools.files.read import read_file
from tools.files.write import write_file

from .. import seeds, skips


@pytest.fixture
def folder(context: ToolContext) -> Path:
    return context.workspace.cwd


def edit(context: ToolContext, old: str, new: str, *, path: str = "x", everywhere: bool = False):  # type: ignore[no-untyped-def]
    return patch.run(context, "replace", path, old, new, everywhere)


def apply(context: ToolContext, text: str) -> str:
    return str(patch.run(context, "patch", patch=text))


# One passage.


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        # as it is, also within a line
        ("a b c\n", "b", "B", "a B c\n"),
        ("a\nb\nc\n", "b\n", "", "a\nc\n"),
        # line ends
        ("a\r\nb\r\nc\r\n", "a\nb", "a\nB", "a\r\nB\r\nc\r\n"),
        ("a\nb\n", "a\r\nb\r\n", "A\r\nb\r\n", "A\nb\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", "a\r\nB\r\nc\r\n"),
        # white space at the ends of lines: what stays keeps its own
        ("a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\nc\n"),
        ("a\nb\n", "a \nb ", "x\ny", "x\ny\n"),
        ("a \nb", "a\nb\n", "a\nc\n", "a \nc"),
        ("a \nb\nc\n", "a\nb\n", "", "c\n"),
        # indentation
        ("    if x:\n        y\n", "if x:\n    y", "if x:\n    z", "    if x:\n        z\n"),
        ("if x:\n    y\n", "    if x:\n        y", "    if x:\n        z", "if x:\n    z\n"),
        ("\tif x:\n\t\ty\n", "    if x:\n        y", "    if x:\n        z\n\n    w",
         "\tif x:\n\t\tz\n\n\tw\n"),
        ("    if x:\n        y\n", "  if x:\n    y", "  if x:\n    z:\n      w",
         "    if x:\n        z:\n            w\n"),
        # quotes, dashes and spaces: what stays keeps its own
        ("say “hi” – ok\n", 'say "hi" - ok', 'say "hi" - no', "say “hi” – no\n"),
        ("it’s so\n", "it's so", "it's not so", "it’s not so\n"),
        ("  “q”\n  b\n", '"q"\nb', '"q"\nc', "  “q”\n  c\n"),
    ],
)  # fmt: skip
def test_passages_are_found(text: str, old: str, new: str, result: str) -> None:
    assert replace(text, old, new).text == result


def test_an_ambiguous_passage_names_its_lines() -> None:
    with pytest.raises(ToolError, match=r"there 3 times, at lines 1, 2, 4\."):
        replace("x = 1\nx = 1\ny\nx = 1\n", "x = 1", "x = 2")
    with pytest.raises(ToolError, match=r"there 2 times, at lines 1, 3"):
        replace("  a \nb\n    a\n", "a  \n", "c\n")
    done = replace("x = 1\nx = 1\n", "x = 1", "x = 2", everywhere=True)
    assert (done.text, done.count, done.lines) == ("x = 2\nx = 2\n", 2, [1, 2])


def test_the_exact_passage_is_preferred() -> None:
    assert replace("  a\na\n", "a\n", "b\n", everywhere=True).text == "  b\nb\n"
    assert replace('“a”\n"a"\n', '"a"', '"b"').text == '“a”\n"b"\n'


def test_a_missing_passage_shows_the_nearest() -> None:
    text = "import os\n\ndef compute(value):\n    total = value + 1\n    return total\n"
    with pytest.raises(ToolError, match=r"Nearest, at line 4:\n +4\|    total = value \+ 1\n +5\|"):
        replace(text, "    total = value + 2\n    return total", "x")
    with pytest.raises(ToolError, match=r"Nearest, at line 3:\n +3\|def compute\(value\):"):
        replace(text, "def computes(valeu):", "x")
    with pytest.raises(ToolError, match="Nothing in the file is like it"):
        replace(text, "zzz qqq www", "x")
    with pytest.raises(ToolError, match="Leave out the line numbers"):
        replace(text, "     3|def compute(value):", "x")
    with pytest.raises(ToolError, match="there already, at line 3"):
        replace(text, "def calculate(value):", "def compute(value):")
    with pytest.raises(ToolError, match="stands for a secret"):
        replace("key = sk-ant-abcdefghijkl\n", "key = sk-ant-***", "key = none")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("a", "a")])
def test_nothing_to_replace(old: str, new: str) -> None:
    with pytest.raises(ToolError):
        replace("a\n", old, new)


lines = st.lists(
    st.sampled_from(["a", "b", "  a", "\tb", "", "a ", "c\r", "“c”", "xyz"]), max_size=12
)
texts = st.tuples(lines, st.booleans()).map(lambda t: "\n".join(t[0]) + ("\n" if t[1] else ""))


@settings(max_examples=seeds.examples(100), deadline=None)
@given(before=texts, old=texts, new=texts, after=texts)
def test_a_unique_passage_is_replaced_exactly(before: str, old: str, new: str, after: str) -> None:
    text = before + "<" + old + ">" + after
    assert replace(text, f"<{old}>", f"<{new}.>").text == before + f"<{new}.>" + after


@settings(max_examples=seeds.examples(100), deadline=None)
@given(text=texts, old=texts, new=texts, everywhere=st.booleans())
def test_tolerance_touches_only_the_lines_it_means(
    text: str, old: str, new: str, everywhere: bool
) -> None:
    """Lines outside of the places that were found stay as they are."""
    try:
        done = replace(text, old, new, everywhere=everywhere)
    except ToolError:
        return
    assert done.count == 1 or everywhere
    first = done.lines[0] - 1
    assert done.text.split("\n")[:first] == text.split("\n")[:first]


def test_a_big_file_is_searched_in_bounded_time() -> None:
    text = "".join(f"line number {n} of many\n" for n in range(300_000))
    with pytest.raises(ToolError, match="Nearest"):
        replace(text, "line numbr 5 off many", "x")
    assert replace(text, "line number 299999 of many", "x").lines == [300_000]


# The tool.


def test_replace_edits_a_file_and_shows_it(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("a\nb\nc\n")
    (folder / "x").chmod(0o640)
    answer = edit(context, "b", "B")
    assert answer.startswith(f"Edited {folder / 'x'} (line 2).\n---")
    assert "-b\n+B" in answer
    assert (folder / "x").read_text() == "a\nB\nc\n"
    assert stat.S_IMODE((folder / "x").stat().st_mode) == 0o640
    assert "Overlooked: indentation" in edit(context, "   B", "   D")
    assert (
        "(2 times, at lines 1, 2)" in edit(context, "\n", "!\n", everywhere=False) if False else 1
    )


def test_encodings_survive(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_bytes("é\r\nb\r\n".encode("utf-16"))
    edit(context, "é\nb", "é\nc")
    assert (folder / "x").read_bytes() == "é\r\nc\r\n".encode("utf-16")
    (folder / "x").write_bytes(b"caf\xe9 noir\n")
    edit(context, "noir", "blanc")
    assert (folder / "x").read_bytes() == b"caf\xe9 blanc\n"
    with pytest.raises(ToolError, match=r"Latin-1.*cannot hold '€'"):
        edit(context, "blanc", "5 €")
    assert (folder / "x").read_bytes() == b"caf\xe9 blanc\n"


def test_what_cannot_be_patched(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_bytes(b"a\0b")
    with pytest.raises(ToolError, match="binary"):
        edit(context, "a", "b")
    (folder / "y.py").touch()
    with pytest.raises(ToolError, match=r"Near it: .*/y\.py"):
        edit(context, "a", "b", path="z.py")
    with (folder / "huge").open("wb") as file:
        file.truncate(10**10)
    with pytest.raises(ToolError, match="too large to patch"):
        edit(context, "a", "b", path="huge")
    with pytest.raises(ToolError, match="needs path, old_string and new_string"):
        patch.run(context, "replace", "x")
    with pytest.raises(ToolError, match="needs 'patch'"):
        patch.run(context, "patch", "x")


def test_an_outside_change_elsewhere_is_kept_and_mentioned(
    context: ToolContext, folder: Path
) -> None:
    (folder / "x").write_text("a\nb\n")
    read_file.run(context, "x")
    (folder / "x").write_text("A by hand\nb\n")
    assert "had changed on disk" in edit(context, "\nb\n", "\nB\n")
    assert (folder / "x").read_text() == "A by hand\nB\n"
    with pytest.raises(ToolError, match="changed on disk since it was read"):
        write_file.run(context, "x", "whole\n")


def test_an_edit_does_not_make_an_unread_file_known(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("a\nb\n")
    edit(context, "b", "B")
    with pytest.raises(ToolError, match="not read in this conversation"):
        write_file.run(context, "x", "whole\n")
    read_file.run(context, "x")
    edit(context, "B", "c")
    write_file.run(context, "x", "whole\n")


# Patches in sections.


def test_sections_add_update_delete_and_move(context: ToolContext, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src/a.py").write_text("def f():\n    return 1\n\n\ndef g():\n    return 1\n")
    (folder / "src/a.py").chmod(0o755)
    (folder / "old.txt").write_text("bye\n")
    (folder / "b.txt").write_text("one\ntwo\nthree")
    read_file.run(context, "old.txt")
    answer = apply(
        context,
        "*** Begin Patch\n"
        "*** Update File: src/a.py\n"
        "*** Move to: lib/a.py\n"
        "@@ def g():\n"
        "-    return 1\n"
        "+    return 2\n"
        "\n"
        "*** Delete File: old.txt\n"
        "*** Update File: b.txt\n"
        "@@\n"
        " one\n"
        "+one and a half\n"
        " two\n"
        "@@\n"
        "-three\n"
        "+3\n"
        "*** End of File\n"
        "*** Add File: new/deep/c.txt\n"
        "+hello\n"
        "+\n"
        "+*** End Patch\n"
        "*** End Patch\n",
    )
    assert (folder / "lib/a.py").read_text().endswith("def g():\n    return 2\n")
    assert "def f():\n    return 1\n" in (folder / "lib/a.py").read_text()
    assert stat.S_IMODE((folder / "lib/a.py").stat().st_mode) == 0o755
    assert not (folder / "src/a.py").exists()
    assert not (folder / "old.txt").exists()
    assert (folder / "b.txt").read_text() == "one\none and a half\ntwo\n3"
    assert (folder / "new/deep/c.txt").read_text() == "hello\n\n*** End Patch\n"
    assert "Moved" in answer
    assert "Deleted" in answer
    assert "Created" in answer


def test_several_sections_for_one_file(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("a\nb\n")
    apply(context, "*** Begin Patch\n*** Update File: x\n-a\n+A\n*** Update File: x\n-b\n+B\n")
    assert (folder / "x").read_text() == "A\nB\n"


def test_hunks_are_tolerant_too(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("class C:\r\n\tdef f(self):\r\n\t\treturn “1”\r\n".replace("\r", ""))
    apply(
        context,
        "*** Begin Patch\n*** Update File: x\n def f(self):\n"
        '-    return "1"\n+    y = 2\n+    return y\n*** End Patch',
    )
    assert (folder / "x").read_text() == "class C:\n\tdef f(self):\n\t\ty = 2\n\t\treturn y\n"


def test_an_insertion_after_a_named_line_and_at_the_end(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("a\nb\nc\n")
    apply(context, "*** Begin Patch\n*** Update File: x\n@@ b\n+after b\n*** End Patch")
    apply(context, "*** Begin Patch\n*** Update File: x\n+end\n*** End of File\n*** End Patch")
    assert (folder / "x").read_text() == "a\nb\nafter b\nc\nend\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "changes no file"),
        ("*** Begin Patch\n*** End Patch", "changes no file"),
        ("*** Begin Patch\n*** Update File: x\n*** End Patch", "no changes"),
        ("*** Begin Patch\nwhat\n*** End Patch", "where a"),
        ("*** Begin Patch\n*** Update File: x\n a\n?b\n*** End Patch", "must begin with"),
        ("*** Begin Patch\n*** Add File: x\nb\n*** End Patch", "lacks its"),
        ("*** Begin Patch\n*** Add File: x\n+b\n*** End Patch", "exists already"),
        ("*** Begin Patch\n*** Update File: y\n-b\n+c\n*** End Patch", "does not exist"),
        ("*** Begin Patch\n*** Delete File: x\n*** End Patch", "not read in this"),
        ("*** Begin Patch\n*** Update File: x\n*** Move to: z\n*** End Patch", "exists already"),
        ("*** Begin Patch\n*** Update File: x\n-dup\n+c\n*** End Patch", "2 times, at lines 2, 3"),
        ("*** Begin Patch\n*** Update File: x\n@@ no such\n-dup\n+c\n*** End Patch", "not found"),
        ("*** Begin Patch\n*** Update File: x\n-gone\n+c\n*** End Patch", "Hunk 1 of x"),
        ("--- x\n+++ x\n", "no @@ line"),
        ("--- x\n+++ x\n@@ what @@\n-a\n", "should be like"),
        ("@@ -1 +1 @@\n-a\n+b\n", "stands before"),
        ("diff --git a/x b/x\nGIT binary patch\n", "binary content"),
        ("--- a/x\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n", "does not show all"),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "exists already"),
    ],
)
def test_patches_that_cannot_be_applied(
    context: ToolContext, folder: Path, text: str, message: str
) -> None:
    (folder / "x").write_text("a\ndup\ndup\n")
    (folder / "z").write_text("z\n")
    with pytest.raises(ToolError, match=message):
        apply(context, text)
    assert (folder / "x").read_text() == "a\ndup\ndup\n"


# Unified diffs.


def test_a_diff_with_wrong_counts_and_a_wrong_place(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    apply(
        context,
        "```diff\n--- a/x\n+++ b/x\n@@ -3,9 +3,2 @@ some function\n line 19\n-line 20\n+LINE 20\n"
        " line 21\n\n```\n",
    )
    assert "line 19\nLINE 20\nline 21\n" in (folder / "x").read_text()


def test_the_nearest_of_several_places_is_taken(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("a\n}\n" * 10)
    apply(context, "--- x\n+++ x\n@@ -12,2 +12,2 @@\n }\n-a\n+b\n")
    assert (folder / "x").read_text() == "a\n}\n" * 6 + "b\n}\n" + "a\n}\n" * 3


contents = st.tuples(
    st.lists(st.sampled_from(["a", "b", "", " ", "--- x", "+++ y", "@@ z", "\\", "-", "é", "c\r"])),
    st.booleans(),
).map(lambda t: "\n".join(t[0]) + ("\n" if t[1] and t[0] else ""))


@settings(max_examples=seeds.examples(100), deadline=None)
@given(before=contents, after=contents)
@example(before="a", after="a\n")
@example(before="a\n\n", after="\n")
def test_our_own_diff_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    diff = diff_of(before, after, "x", "x")
    if before == after:
        assert diff.text == ""
        return
    (file,) = parse_patch(diff.text)
    assert apply_hunks(before, file) == after
    assert diff.added == sum(len(h.side("+")) for h in file.hunks) - kept(file)


def kept(file):  # type: ignore[no-untyped-def]
    return sum(1 for hunk in file.hunks for mark, _ in hunk.lines if mark == " ")


@settings(max_examples=seeds.examples(100), deadline=None)
@given(before=contents, after=contents, drift=st.lists(st.sampled_from(["q", "r"]), max_size=5))
def test_a_diff_applies_to_a_file_that_has_moved_on(
    before: str, after: str, drift: list[str]
) -> None:
    """Lines that came in above do not matter, as long as the place is recognisable."""
    marker = "unique marker\n"
    before, after = marker + before + "\nend\n", marker + after + "\nend\n"
    if before == after:
        return
    hunks = list(difflib.unified_diff(split(before), split(after), "x", "x", n=10**6))
    (file,) = parse_patch("".join(hunks))
    above = "".join(line + "\n" for line in drift)
    assert apply_hunks(above + before, file) == above + after


def split(text: str) -> list[str]:
    return [line + "\n" for line in text.split("\n")[:-1]]


@skips.needs("git")
@settings(
    max_examples=seeds.examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    before=st.dictionaries(st.sampled_from(["a", "d/b", "é", "with space"]), contents, max_size=4),
    after=st.dictionaries(st.sampled_from(["a", "d/b", "é", "with space"]), contents, max_size=4),
    executable=st.booleans(),
)
def test_what_git_diff_writes_is_understood(
    context: ToolContext,
    tmp_path: Path,
    before: dict[str, str],
    after: dict[str, str],
    executable: bool,
) -> None:
    places = [tmp_path / "repository", context.workspace.cwd]
    for place, tree in zip(places, (after, before), strict=True):
        shutil.rmtree(place, ignore_errors=True)
        for name, content in tree.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content.encode())
            (place / name).chmod(0o755 if executable and place is places[0] else 0o644)
        place.mkdir(exist_ok=True)
    git = ["git", "-C", str(places[0]), "-c", "core.autocrlf=false", "-c", "core.safecrlf=false"]
    environment = ["--work-tree", str(places[1]), "--git-dir", str(places[0] / ".git")]

    def run(*arguments: str) -> bytes:
        return subprocess.run([*git, *arguments], check=True, capture_output=True).stdout

    run("init", "--quiet")
    run(*environment, "add", "--all")
    run("add", "--intent-to-add", "--ignore-removal", ".")
    diff = run("diff", "--no-color", "--find-renames", "--no-ext-diff")
    if diff:
        apply(context, diff.decode(errors="surrogateescape"))
    assert tree_of(places[1]) == tree_of(places[0])


def tree_of(place: Path) -> dict[str, tuple[bytes, bool]]:
    return {
        str(path.relative_to(place)): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in place.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(place).parts
    }


def test_a_cancelled_patch_changes_nothing(context: ToolContext, folder: Path) -> None:
    (folder / "x").write_text("a\n")
    context.cancelled = threading.Event()
    context.cancelled.set()
    with pytest.raises(ToolError, match="Stopped"):
        edit(context, "a", "b")
    assert (folder / "x").read_text() == "a\n"
