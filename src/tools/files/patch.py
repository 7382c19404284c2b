"""patch: change parts of files, one passage or many files at once.

Everything is worked out in memory first; then all files are changed together, or none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..base import Tool, ToolContext, ToolError, tool
from .atomic import Snapshot
from .diff import Diff
from .edit import Change, look_at
from .encoding import Encoding, encoding_of
from .guard import may_read, missing, real_path
from .hunks import FilePatch
from .match import replace
from .patch_apply import added_text, apply_hunks
from .patch_parse import parse_patch
from .seen import check_known, check_masks, is_known
from .write import commit, difference, other_names

_MOST_FILES = 200


@tool(toolset="files", effect="effectful")
def patch(
    context: ToolContext,
    mode: Literal["replace", "patch"] = "replace",
    path: str | None = None,
    old_string: str | None = None,
    new_string: str | None = None,
    replace_all: bool = False,
    patch: str | None = None,
) -> str:
    """Change parts of files. All edits of one call are made, or none.

    mode "replace": the passage old_string in the file path becomes new_string. It must be unique;
    small differences in white space and quotes are overlooked. mode "patch": a patch over one or
    more files, either a unified diff or
    *** Begin Patch
    *** Update File: path
    @@ a line before, such as the function's head
     line to keep
    -line to remove
    +line to add
    *** Add File: path
    +line
    *** Delete File: path
    *** End Patch
    (`*** Move to: path` after an Update line renames the file.)

    mode: "replace" for one passage, "patch" for a patch
    path: the file to change (replace)
    old_string: the passage as it is in the file, without line numbers (replace)
    new_string: what to put in its place; empty to remove it (replace)
    replace_all: replace every occurrence rather than the only one (replace)
    patch: the patch (patch)
    """
    if mode == "patch" or (patch and old_string is None):
        if not patch:
            raise ToolError("mode 'patch' needs 'patch', the text of the patch.")
        return _apply_patch(context, parse_patch(patch))
    if not path or old_string is None or new_string is None:
        raise ToolError("mode 'replace' needs path, old_string and new_string.")
    plan = _Plan(context)
    draft = plan.open(path)
    done = replace(draft.text(), old_string, new_string, everywhere=replace_all)
    draft.write(done.text)
    where = ", ".join(map(str, done.lines)) + (", …" if done.count > len(done.lines) else "")
    count = f"{done.count} times, at lines" if done.count > 1 else "line"
    notes = [f"Overlooked: {done.how}."] if done.how else []
    return plan.carry_out([f"Edited {draft.path} ({count} {where}).", *notes])


def _apply_patch(context: ToolContext, files: list[FilePatch]) -> str:
    if len(files) > _MOST_FILES:
        raise ToolError(f"A patch may change {_MOST_FILES} files at once; this has {len(files)}.")
    plan = _Plan(context)
    for file in files:
        if file.action == "add":
            plan.add(file)
        elif file.action == "delete":
            plan.delete(file)
        else:
            plan.update(file)
    return plan.carry_out([])


@dataclass(slots=True)
class _Draft:
    """A file as it will be."""

    path: Path
    before: Snapshot | None
    data: bytes | None
    """What it will contain; None: there will be no such file, or it is too large to hold."""
    there: bool
    mode: int | None = None
    owner: tuple[int, int] | None = None
    came_from: Path | None = None

    def encoding(self) -> Encoding:
        """How its text is written down; ToolError if it has none."""
        if self.data is None:
            raise ToolError(f"{self.path} is too large to patch. Use the terminal, e.g. `sed -i`.")
        encoding = encoding_of(self.data, whole=True)
        if encoding is None:
            raise ToolError(f"{self.path} is a binary file; patch changes text files only.")
        return encoding

    def text(self) -> str:
        """Its text; ToolError if it has none."""
        encoding = self.encoding()
        return encoding.decode(self.data or b"")

    def write(self, text: str) -> None:
        """Give it another text, if its encoding can hold it."""
        encoding = self.encoding()
        check_masks(self.text(), text, self.path)
        try:
            self.data = encoding.encode(text)
        except UnicodeEncodeError as error:
            bad = error.object[error.start : error.start + 1]
            raise ToolError(
                f"{self.path} is {encoding.label}, which cannot hold {bad!r}. Use another "
                "character, or write the whole file anew with write_file."
            ) from error

    def remove(self) -> None:
        """Let it go."""
        self.there, self.data = False, None

    def change(self) -> Change | None:
        """What has to be done, if anything."""
        if self.before is None and not self.there:
            return None
        change = Change(self.path, self.before, self.data, self.mode, self.owner)
        if self.before is None or not self.there:
            return change
        same_mode = self.mode in (None, self.before.mode)
        return None if same_mode and self.data == self.before.data else change


@dataclass(slots=True)
class _Plan:
    """The files that one call changes, each as it will be after the edits so far."""

    context: ToolContext
    drafts: dict[Path, _Draft] = field(default_factory=dict)

    def open(self, path: str) -> _Draft:
        """A file that is to be edited; ToolError if there is none."""
        draft = self._draft(path)
        if not draft.there:
            raise missing(draft.path, path)
        return draft

    def _draft(self, path: str) -> _Draft:
        real = real_path(self.context, path)
        if real not in self.drafts:
            before = look_at(real, self.context.workspace.home)
            if before and not is_known(self.context.workspace, real, before):
                may_read(self.context, real)  # what does not fit is shown beside what is there
            data = before.data if before else None
            self.drafts[real] = _Draft(real, before, data, there=before is not None)
        return self.drafts[real]

    def add(self, file: FilePatch) -> None:
        """Create a file, which must not exist (or be empty)."""
        draft = self._draft(file.path)
        if draft.there and draft.data != b"":
            raise ToolError(f"{draft.path} exists already. Update it instead of adding it.")
        draft.there, draft.data = True, b""
        draft.write(added_text(file))
        if file.mode is not None and draft.before is None:
            draft.mode = 0o777 if file.mode & 0o111 else 0o666

    def delete(self, file: FilePatch) -> None:
        """Remove a file; a unified diff must show all of it, else it must have been read."""
        draft = self.open(file.path)
        if file.exact and apply_hunks(draft.text(), file):
            raise ToolError(f"The diff that deletes {draft.path} does not show all it contains.")
        if not file.exact and draft.before:
            check_known(self.context.workspace, draft.path, draft.before, "deleting")
        draft.remove()

    def update(self, file: FilePatch) -> None:
        """Edit a file, move it, or set its mode."""
        draft = self.open(file.path)
        if file.hunks:
            draft.write(apply_hunks(draft.text(), file))
        if file.mode is not None:
            draft.mode = file.mode
        if file.move_to:
            self._move(draft, file.move_to)

    def _move(self, draft: _Draft, path: str) -> None:
        target = self._draft(path)
        if target is draft:
            return
        if target.there:
            raise ToolError(f"{target.path} exists already, so {draft.path} cannot move there.")
        if draft.data is None:
            raise ToolError(f"{draft.path} is too large to move here. Use `mv` in the terminal.")
        target.there, target.data, target.came_from = True, draft.data, draft.path
        target.mode, target.owner = draft.mode, draft.owner
        if draft.before:
            target.mode = draft.before.mode if draft.mode is None else draft.mode
            target.owner = draft.before.owner
        draft.remove()

    def carry_out(self, report: list[str]) -> str:
        """Make the changes, and tell what they were."""
        planned = [(draft, change) for draft in self.drafts.values() if (change := draft.change())]
        if not planned:
            return "Nothing to change: the files are as the edit would make them."
        workspace = self.context.workspace
        outdated = [
            change.path
            for _, change in planned
            if change.before and is_known(workspace, change.path, change.before) is False
        ]
        commit(self.context, "patch", [change for _, change in planned])
        diffs = [difference(change) for _, change in planned]
        if not report:
            report = [
                _report_line(draft, diff) for (draft, _), diff in zip(planned, diffs, strict=True)
            ]
        report += [note for _, change in planned if (note := other_names(change).strip())]
        report += [
            f"{path} had changed on disk since it was read; look at it again before further edits."
            for path in outdated
        ]
        shown = Diff("\n".join(diff.text for diff in diffs if diff.text), 0, 0).shortened(120)
        return "\n".join([*report, shown]).rstrip()


def _report_line(draft: _Draft, diff: Diff) -> str:
    if not draft.there:
        return f"Deleted {draft.path}."
    if draft.came_from:
        return f"Moved {draft.came_from} to {draft.path}."
    return f"{'Edited' if draft.before else 'Created'} {draft.path} ({diff.summary()})."


TOOLS: list[Tool] = [patch]
