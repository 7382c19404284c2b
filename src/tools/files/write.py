"""write_file: a whole file, put in place at once, and what that changed."""

from __future__ import annotations

from pathlib import Path

from .. import checkpoints
from ..base import Tool, ToolContext, ToolError, tool
from .atomic import Snapshot
from .diff import Diff, diff_of
from .edit import Change, apply, look_at
from .encoding import UTF8, Encoding, count_lines, encoding_of, newline_of, size_in_words
from .guard import may_write, real_path
from .seen import check_known, check_masks, is_known, remember


@tool(toolset="files", effect="effectful")
def write_file(context: ToolContext, path: str, content: str) -> str:
    """Write a whole file: create it, or replace all it contains. Missing folders are made.

    An existing file must have been read before, and not have changed since. To change a part of a
    file, use patch. The encoding and line ends of an existing file are kept.

    path: the file, absolute or relative to the working directory
    content: everything the file is to contain
    """
    real = real_path(context, path)
    before = look_at(real, context.workspace.home)
    notes: list[str] = []
    if before is None:
        change = Change(real, None, _encoded(content, UTF8, real))
    else:
        check_known(context.workspace, real, before, "replacing")
        change = Change(real, before, _in_the_manner_of(before, content, real, notes))
        if change.after == before.data:
            return f"{real} already has exactly this content; nothing was written."
    commit(context, "write_file", [change])
    return "\n".join([_report(change), *notes])


def commit(context: ToolContext, name: str, changes: list[Change]) -> None:
    """Make changes for a tool: approved, kept for a rollback, all or none, then remembered.

    A file that the conversation knew stays known; one that somebody else changed does not become
    known by an edit to a part of it.
    """
    workspace = context.workspace
    known = [
        change.before is None or bool(is_known(workspace, change.path, change.before))
        for change in changes
    ]
    for change in changes:
        may_write(context, change.path)
    results = apply(
        changes,
        home=workspace.home,
        keep=lambda changes, made: checkpoints.keep(context, name, changes, made),
        stopped=context.cancelled.is_set,
    )
    for change, was_known, snapshot in zip(changes, known, results, strict=True):
        if was_known or change.before is None or not change.before.info.st_size:
            remember(workspace, change.path, snapshot)


def _in_the_manner_of(before: Snapshot, content: str, path: Path, notes: list[str]) -> bytes:
    """The content in the encoding, with the line ends and the last newline of the old file."""
    if not before.data:
        return _encoded(content, UTF8, path)
    encoding = encoding_of(before.data, whole=True)
    if encoding is None:
        notes.append("It was a binary file before.")
        return _encoded(content, UTF8, path)
    old = encoding.decode(before.data)
    check_masks(old, content, path)
    if newline_of(old) == "\r\n" and "\r" not in content:
        content = content.replace("\n", "\r\n")
        notes.append("Line ends are CRLF, as before.")
    if old.endswith("\n") and content and not content.endswith("\n"):
        content += newline_of(old)
    try:
        return encoding.encode(content)
    except UnicodeEncodeError:
        notes.append(f"It was {encoding.label} before, which cannot hold this text: now UTF-8.")
        return _encoded(content, UTF8, path)


def _encoded(content: str, encoding: Encoding, path: Path) -> bytes:
    try:
        return encoding.encode(content)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The content for {path} has a lone surrogate at character {error.start}, which no "
            "file can hold. Send it without."
        ) from error


def _report(change: Change) -> str:
    after = change.after or b""
    size = f"{count_lines(after.decode(errors='replace')):,} lines, {size_in_words(len(after))}"
    if change.before is None:
        return f"Created {change.path} ({size})."
    notes = other_names(change)
    if change.before.data is None:
        return f"Wrote {change.path} ({size}). The old content was too large to be kept.{notes}"
    diff = difference(change)
    return f"Wrote {change.path} ({size}; {diff.summary()}).{notes}\n{diff.shortened()}".rstrip()


def other_names(change: Change) -> str:
    """A remark on hard links: the file under its other names keeps the old content."""
    links = change.before.info.st_nlink if change.before else 1
    return f" Its {links - 1} other names (hard links) keep the old content." if links > 1 else ""


def difference(change: Change) -> Diff:
    """What a change does to the text of a file; nothing is shown of binary content."""
    names = (
        str(change.path) if change.before else "/dev/null",
        str(change.path) if change.after is not None else "/dev/null",
    )
    old = (change.before.data if change.before else b"") or b""
    new = change.after or b""
    encodings = encoding_of(old, whole=True), encoding_of(new, whole=True)
    if encodings[0] is None or encodings[1] is None:
        return Diff("", 0, 0)
    return diff_of(encodings[0].decode(old), encodings[1].decode(new), *names)


TOOLS: list[Tool] = [write_file]
