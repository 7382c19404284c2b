"""Which files git ignores: `.gitignore` files, `.git/info/exclude` and the user's global list.

Patterns mean what gitignore(5) says they mean, byte for byte: the last one that matches decides,
files nearer to the path before files further away. As in ripgrep, whether git tracks a file despite
its patterns makes no difference, and outside of a repository nothing is ignored.

This module is also loaded by the search's child process: it imports nothing of the project.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

_LARGEST = 1_000_000

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "space": "\\t-\\r ",
    "punct": "!-/:-@\\[-`{-~", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


_ENDS_A_STRETCH = frozenset(("*", "/", "(?:.*/)?", ".*"))


def glob_regex(glob: str) -> str | None:
    """A regular expression for paths that match a glob as git understands it, or None.

    `*` and `?` stop at slashes, `**` between slashes does not. None: the glob matches nothing, e.g.
    because a bracket is not closed. The expression never backtracks far, whatever the glob.
    """
    out: list[str] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        if char == "*":
            end = at
            while end < len(glob) and glob[end] == "*":
                end += 1
            open_left = at == 0 or glob[at - 1] == "/"
            if end - at > 1 and open_left and glob[end : end + 1] == "/":
                out.append("(?:.*/)?")
                end += 1
            elif end - at > 1 and open_left and end == len(glob):
                out.append(".*")
            else:
                out.append("*")
            at = end
            continue
        at += 1
        if char == "?":
            out.append("[^/]")
        elif char == "[":
            bracket = _bracket(glob, at)
            if bracket is None:
                return None
            expression, at = bracket
            out.append(expression)
        elif char == "\\":
            if at == len(glob):
                return None
            out.append(re.escape(glob[at]))
            at += 1
        else:
            out.append(re.escape(char))
    return _joined(out)


def _joined(parts: list[str]) -> str:
    """Put the parts together; of the stars in one stretch, only the last one may backtrack.

    What is between two stars can be taken where it first occurs: if the match fails after that, it
    would fail for later occurrences too. A slash ends what a star may span.
    """
    out: list[str] = []
    at = 0
    while at < len(parts):
        if parts[at] != "*":
            out.append(parts[at])
            at += 1
            continue
        following = at + 1
        while following < len(parts) and parts[following] not in _ENDS_A_STRETCH:
            following += 1
        if following < len(parts) and parts[following] == "*":
            out.append("(?>[^/]*?" + "".join(parts[at + 1 : following]) + ")")
            at = following
        else:
            out.append("[^/]*")
            at += 1
    return "".join(out)


def _bracket(glob: str, at: int) -> tuple[str, int] | None:
    """The expression for a bracket that was opened before `at`, and where it ends."""
    negated = glob[at : at + 1] in ("!", "^")
    at += negated
    ranges: list[str] = []
    previous: str | None = None
    first = True
    while True:
        if at >= len(glob):
            return None
        char = glob[at]
        at += 1
        if char == "]" and not first:
            break
        first = False
        if char == "-" and previous is not None and glob[at : at + 1] not in ("", "]"):
            end = glob[at]
            at += 1
            if end == "\\":
                if at >= len(glob):
                    return None
                end = glob[at]
                at += 1
            if previous <= end:
                ranges.append(f"{_escaped(previous)}-{_escaped(end)}")
            previous = None
            continue
        if char == "[" and glob[at : at + 1] == ":":
            close = glob.find("]", at)
            if close < 0:
                return None
            if close > at + 1 and glob[close - 1] == ":":
                name = glob[at + 1 : close - 1]
                if name not in _CLASSES:
                    return None
                ranges.append(_CLASSES[name])
                at = close + 1
                previous = None
                continue
        if char == "\\":
            if at >= len(glob):
                return None
            char = glob[at]
            at += 1
        ranges.append(_escaped(char))
        previous = char
    inside = "".join(ranges)
    if negated:
        return f"[^/{inside}]", at
    return f"(?!/)[{inside}]" if inside else "(?!)", at


def _escaped(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char


@dataclass(frozen=True, slots=True)
class _Rule:
    matches: re.Pattern[bytes]
    ignores: bool
    folders_only: bool
    by_name: bool


def _rule(line: bytes) -> _Rule | None:
    text = line.decode("latin-1")
    if text.startswith("#"):
        return None
    text = _without_trailing_spaces(text)
    ignores = not text.startswith("!")
    if not ignores:
        text = text[1:]
    folders_only = text.endswith("/")
    if folders_only:
        text = text[:-1]
    by_name = "/" not in text
    text = text.removeprefix("/")
    if not text:
        return None
    regex = glob_regex(text)
    if regex is None:
        return None
    return _Rule(re.compile(regex.encode("latin-1"), re.DOTALL), ignores, folders_only, by_name)


def _without_trailing_spaces(text: str) -> str:
    kept = at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
            kept = min(at, len(text))
            continue
        at += 1
        if text[at - 1] != " ":
            kept = at
    return text[:kept]


class Rules:
    """The patterns of one file; paths are relative to the folder the file speaks for."""

    def __init__(self, content: bytes) -> None:
        lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        rules = [_rule(line.removesuffix(b"\r")) for line in lines if line]
        self._rules = [rule for rule in reversed(rules) if rule]
        # Most paths match no rule: two expressions over all of them say so quickly.
        self._any_name = _any_of([rule for rule in self._rules if rule.by_name])
        self._any_path = _any_of([rule for rule in self._rules if not rule.by_name])

    def decide(self, path: bytes, is_folder: bool) -> bool | None:
        """Whether a path is ignored (True), expressly not (False), or not spoken of (None)."""
        name = path.rpartition(b"/")[2]
        names = bool(self._any_name and self._any_name.fullmatch(name))
        paths = bool(self._any_path and self._any_path.fullmatch(path))
        if not names and not paths:
            return None
        for rule in self._rules:
            if rule.folders_only and not is_folder:
                continue
            if rule.matches.fullmatch(name if rule.by_name else path):
                return rule.ignores
        return None


def _any_of(rules: list[_Rule]) -> re.Pattern[bytes] | None:
    if not rules:
        return None
    return re.compile(b"|".join(b"(?:" + r.matches.pattern + b")" for r in rules), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Ignore:
    """What is ignored in one folder: its own rules, those above it, and the repository's."""

    levels: tuple[tuple[bytes, Rules], ...] = ()
    """Folders, without a slash at the end, and their rules; the nearest first."""
    in_repository: bool = False

    def ignored(self, path: bytes, is_folder: bool) -> bool:
        """Whether git ignores this path (absolute), as far as its own name decides."""
        for folder, rules in self.levels:
            verdict = rules.decide(path[len(folder) + 1 :], is_folder)
            if verdict is not None:
                return verdict
        return False

    def entering(self, folder: bytes, names: set[bytes]) -> Ignore:
        """The rules in a folder below, which contains these names."""
        levels, inside = self.levels, self.in_repository
        if b".git" in names:
            levels, inside = _repository_levels(folder), True
        if inside and b".gitignore" in names and (content := _read(folder + b"/.gitignore")):
            levels = ((folder, Rules(content)), *levels)
        return Ignore(levels, inside)


def ignore_at(folder: bytes) -> Ignore:
    """The rules that hold for the entries of a folder (absolute), from its repository down."""
    folder = folder.rstrip(b"/")
    chain = [folder]
    while folder and not _exists(folder + b"/.git"):
        folder = folder.rpartition(b"/")[0]
        chain.append(folder)
    ignore = Ignore()
    for step in reversed(chain):
        names = {name for name in (b".git", b".gitignore") if _exists(step + b"/" + name)}
        ignore = ignore.entering(step, names)
    return ignore


def _repository_levels(folder: bytes) -> tuple[tuple[bytes, Rules], ...]:
    """The rules of a repository that are not in the tree: its own and the user's."""
    contents = [_read(_git_folder(folder) + b"/info/exclude"), _read(os.fsencode(_global_file()))]
    return tuple((folder, Rules(content)) for content in contents if content)


def _git_folder(folder: bytes) -> bytes:
    """Where the repository's data are: `.git` itself, or where a worktree's `.git` file points."""
    place = folder + b"/.git"
    content = _read(place)
    if content is None or not content.startswith(b"gitdir: "):
        return place
    real = os.path.join(folder, content.removeprefix(b"gitdir: ").strip())  # noqa: PTH118 - bytes
    common = _read(real + b"/commondir")
    return real if common is None else os.path.join(real, common.strip())  # noqa: PTH118 - bytes


def _global_file() -> Path:
    home = Path(os.environ.get("HOME") or "/")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    for file in (home / ".gitconfig", config / "git" / "config"):
        content = (_read(os.fsencode(file)) or b"").decode(errors="replace")
        setting = re.search(r'(?im)^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$', content)
        if setting:
            return home / setting[1].removeprefix("~/")
    return config / "git" / "ignore"


def _exists(path: bytes) -> bool:
    try:
        os.lstat(path)
    except OSError:
        return False
    return True


def _read(path: bytes) -> bytes | None:
    """A small regular file; None if it is anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.read(fd, _LARGEST) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)
