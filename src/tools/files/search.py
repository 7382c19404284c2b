"""search_files: find files by name, and lines by content.

What git ignores is left out, and so are binary files, links and, unless the glob begins with a dot,
everything whose name does; files that may hold secrets are found by name only. Results are in the
order of their paths, so that pages fit together.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Literal

from ..base import Tool, ToolContext, ToolError, tool
from ..own_folders import Belongings
from .encoding import SNIFFED, encoding_of
from .gitignore import glob_regex
from .guard import (
    check_regular,
    explain,
    may_read,
    missing,
    needs_approval,
    open_folder,
    open_regular,
    own_databases,
)
from .guard import real_path as find_path
from .search_run import SECONDS, Hit, Mode, Query, TimeIsUp, search
from .withheld import describe_withheld

_MOST = 500
_MOST_CONTEXT = 20
_MOST_CHARACTERS = 45_000
_LONGEST_PATTERN = 5_000
_SIMPLE_NAME = re.compile(r"[\w.*?-]+")
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "digit": "0-9", "lower": "a-z", "upper": "A-Z",
    "space": r"\s", "word": r"\w", "xdigit": "0-9A-Fa-f", "punct": r"!-/:-@\[-`{-~",
}  # fmt: skip


@tool(toolset="files", effect="none", max_output=80_000)
def search_files(
    tool_context: ToolContext,
    pattern: str,
    target: Literal["content", "files"] = "content",
    path: str = ".",
    file_glob: str | None = None,
    limit: int = 50,
    offset: int = 0,
    output_mode: Literal["content", "files_only", "count"] = "content",
    context: int = 0,
) -> str:
    """Search file contents with a regular expression, or find files by name.

    Use this rather than grep, rg, find or ls. Files that git ignores, binary files and those over
    100 MB are left out; hidden ones too, unless the glob begins with a dot or path is hidden; so
    are the contents of files that may hold secrets. Results are ordered by path.

    pattern: for content, a regular expression tried on each line ((?i) in front ignores case);
        for files, a glob such as *.py or src/**/test_*.py, or a part of a file's name
    target: "content" to search in files, "files" to find files by name
    path: the folder or file to search, by default the working directory
    file_glob: search only files like this, e.g. *.py or src/**/*.{ts,tsx} (content)
    limit: how many results to show, at most 500
    offset: how many results to skip, to see further ones
    output_mode: "content" for matching lines, "files_only" for the names of files with matches,
        "count" for the number of matching lines in each file
    context: how many lines to show around each match
    """
    if offset < 0 or limit < 1 or context < 0:
        raise ToolError("limit must be at least 1; offset and context must not be negative.")
    if not pattern or len(pattern) > _LONGEST_PATTERN or "\0" in pattern:
        raise ToolError(f"Give a pattern of 1 to {_LONGEST_PATTERN:,} characters.")
    root = _root(tool_context, path, content=target == "content")
    page = _Page(offset, min(limit, _MOST), min(context, _MOST_CONTEXT))
    if target == "files":
        wanted = _names(pattern) if set(pattern) & set("*?[{") else _part_of_name(pattern)
        query = Query(root, "files", hidden=_is_hidden(pattern))
    else:
        wanted = _names(file_glob) if file_glob else lambda relative: True
        regex, built_in = _checked(pattern)
        query = Query(
            root,
            output_mode,
            regex,
            page.context if output_mode == "content" else 0,
            hidden=_is_hidden(file_glob or ""),
            names=_narrowing(file_glob),
            built_in=built_in,
        )
    # Names are no secret, and reading a file that is named was approved already.
    reads_many = query.mode != "files" and root.is_dir()
    withheld = needs_approval(tool_context) if reads_many else lambda path: False
    mine = _not_anothers(tool_context, root, wanted)
    with closing(search(query, tool_context)) as hits:
        page.fill(_wanted(hits, query, mine, withheld), query.mode)
    report = _report(page, query, pattern, tool_context.workspace.cwd.resolve())
    left_out = describe_withheld(query, tool_context, mine, withheld) if reads_many else ""
    return f"{report}\n{left_out}".rstrip()


def _not_anothers(
    context: ToolContext, root: Path, wanted: Callable[[str], bool]
) -> Callable[[str], bool]:
    """The same predicate for paths below the root; false for files of other conversations."""
    is_anothers = Belongings(context).is_anothers
    return lambda relative: wanted(relative) and not is_anothers(root / relative)


def _root(context: ToolContext, path: str, *, content: bool) -> Path:
    root = find_path(context, path)
    if not root.exists():
        raise missing(root, path)
    if root.is_dir():
        for pseudo in (Path("/proc"), Path("/sys")):
            if root.is_relative_to(pseudo):
                raise ToolError(f"{root} belongs to the kernel and is not searched.")
        return root
    forbidden = own_databases(context.workspace.home)
    check_regular(root.lstat(), root, forbidden)
    if not content:
        return root
    may_read(context, root)
    try:
        with open_folder(root.parent) as folder:
            fd = open_regular(root.name, folder, forbidden)
        with os.fdopen(fd, "rb") as file:
            if encoding_of(file.read(SNIFFED), whole=False) is None:
                raise ToolError(f"{root} is a binary file; only text can be searched.")
    except OSError as error:
        raise explain(error, root, "read") from error
    return root


def _checked(pattern: str) -> tuple[str, bool]:
    """The expression as both searches understand it, and whether only the built-in one does."""
    pattern = re.sub(r"\[\^?(?:\[:\w+:\]|\\.|[^\]\\])+\]", _without_posix, pattern)
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", FutureWarning)
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ToolError(
                f"{pattern!r} is not a valid regular expression: {error}. To search for the text "
                f"itself, escape it: {re.escape(pattern)!r}."
            ) from error
    return pattern, bool(doubts)


def _without_posix(bracket: re.Match[str]) -> str:
    return re.sub(r"\[:(\w+):\]", lambda name: _POSIX.get(name[1], name[0]), bracket[0])


def _expanded(glob: str) -> list[str]:
    """The globs that one with alternatives in braces stands for."""
    parts = re.split(r"\{([^{}]*)\}", glob)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    globs = ["".join(chosen) for chosen in product(*choices[:9])]
    if len(globs) > 100 or len(choices) > 9 or glob.count("**") > 4:
        raise ToolError(f"The glob {glob!r} has too many alternatives. Use a simpler one.")
    return [item.removeprefix("./").removeprefix("/") for item in globs]


def _names(glob: str) -> Callable[[str], bool]:
    """A test for paths: a glob without a slash is for the file's name, one with it for the path."""
    tests = []
    for item in _expanded(glob):
        regex = glob_regex(item)
        if regex is None:
            raise ToolError(f"The glob {glob!r} has a bracket that is not closed.")
        tests.append((re.compile(regex, re.DOTALL), "/" in item))
    return lambda path: any(
        test.fullmatch(path if whole else path.rpartition("/")[2]) for test, whole in tests
    )


def _part_of_name(part: str) -> Callable[[str], bool]:
    lowered = part.lower().removeprefix("./")
    if "/" in lowered:
        return lambda path: lowered in path.lower()
    return lambda path: lowered in path.rpartition("/")[2].lower()


def _is_hidden(glob: str) -> bool:
    return any(part.startswith(".") for part in glob.removeprefix("./").split("/") if part != "..")


def _narrowing(glob: str | None) -> list[str]:
    """Globs for names that ripgrep may apply by itself, because it takes them as we do."""
    names = [item.rpartition("/")[2] for item in _expanded(glob)] if glob else []
    simple = all(_SIMPLE_NAME.fullmatch(name) and "**" not in name for name in names)
    return names if simple else []


def _wanted(
    hits: Iterator[Hit],
    query: Query,
    wanted: Callable[[str], bool],
    withheld: Callable[[str], bool],
) -> Iterator[Hit]:
    """The hits in files that are wanted, whatever else the search let through."""
    start = len(str(query.root).rstrip("/")) + 1
    last, verdict = "", False
    for hit in hits:
        if hit.path != last:
            relative = hit.path[start:]
            hidden = not query.hidden and any(p.startswith(".") for p in relative.split("/"))
            last = hit.path
            verdict = not hidden and wanted(relative or query.root.name) and not withheld(last)
        if verdict:
            yield hit


@dataclass(slots=True)
class _Page:
    """The results that one answer shows."""

    offset: int
    limit: int
    context: int
    rows: list[Hit] = field(default_factory=list)
    shown: int = 0
    passed: int = 0
    matches: int = 0
    """The sum of all counts, for a count."""
    more: bool = False
    too_slow: bool = False

    def fill(self, hits: Iterator[Hit], mode: Mode) -> None:
        """Take the results of this page; a count goes on to the end, to have the sum."""
        characters = 0
        before: list[Hit] = []
        try:
            for hit in hits:
                if not hit.is_match:
                    if self._follows(hit):
                        self.rows.append(hit)
                    else:
                        before = [*before[-self.context :], hit]
                    continue
                self.passed += 1
                self.matches += hit.number if mode == "count" else 1
                if self.passed <= self.offset:
                    before.clear()
                    continue
                if self.shown >= self.limit or characters > _MOST_CHARACTERS:
                    self.more = True
                    if mode == "count":
                        continue
                    return
                self.rows += [line for line in before if self._precedes(line, hit)]
                before.clear()
                self.rows.append(hit)
                self.shown += 1
                characters += len(hit.path) // (4 if mode == "content" else 1) + len(hit.text) + 8
        except TimeIsUp:
            self.too_slow = True

    def _follows(self, line: Hit) -> bool:
        last = next((row for row in reversed(self.rows) if row.is_match), None)
        return (
            last is not None
            and self.passed == self.offset + self.shown
            and last.path == line.path
            and line.number <= last.number + self.context
        )

    def _precedes(self, line: Hit, match: Hit) -> bool:
        return line.path == match.path and line.number >= match.number - self.context


def _report(page: _Page, query: Query, pattern: str, cwd: Path) -> str:
    what = f"files like {pattern!r}" if query.mode == "files" else f"matches of {pattern!r}"
    lines: list[str] = []
    path = ""
    for row in page.rows:
        name = _shown_path(row.path, cwd)
        if query.mode == "content":
            if row.path != path:
                lines.append(name)
            mark = ":" if row.is_match else "-"
            lines.append(f"{row.number:>6}{mark}{row.text}")
            path = row.path
        else:
            lines.append(f"{name}: {row.number:,}" if query.mode == "count" else name)
    if page.too_slow:
        lines.append(f"[stopped after {SECONDS} s; search a smaller folder or use file_glob]")
    if not page.rows:
        if page.offset and page.passed:
            return f"There are only {page.passed:,} {what}; offset {page.offset:,} is past them."
        return "\n".join(
            [f"No {what} in {query.root} (hidden files and those git ignores left out).", *lines]
        )
    if query.mode == "count":
        lines.append(f"[in all {page.matches:,} matching lines in {page.passed:,} files]")
    if page.more:
        following = page.offset + page.shown
        lines.append(f"[{page.shown:,} shown, there are more; go on with offset={following}]")
    elif query.mode != "count":
        lines.append(f"[{page.passed:,} found]")
    return "\n".join(lines)


def _shown_path(path: str, cwd: Path) -> str:
    if Path(path).is_relative_to(cwd):
        path = str(Path(path).relative_to(cwd))
    return path.encode(errors="backslashreplace").decode()


TOOLS: list[Tool] = [search_files]
