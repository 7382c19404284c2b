"""Several files changed together: all of them or none, the old contents kept first.

Every new content is on the disk under a temporary name before the first file is touched, so that
a full disk or a missing permission shows while nothing has happened yet. If a step fails after
that, the steps before it are undone.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..base import ToolError
from .atomic import (
    Snapshot,
    check_unchanged,
    discard,
    flush,
    put,
    set_aside,
    stage,
    take_snapshot,
)
from .guard import Folder, explain, open_folder, own_databases

log = logging.getLogger(__name__)

_EDITING = threading.Lock()
"""One edit at a time in this process: what an edit looked at stays until it is done."""


@dataclass(frozen=True, slots=True)
class Change:
    """One file that is to become something else."""

    path: Path
    """Its real path."""
    before: Snapshot | None
    """The file when the change was planned; None: no such file."""
    after: bytes | None
    """What it is to contain; None: it is to go."""
    mode: int | None = None
    """Permissions it is to have, if not those it had."""
    owner: tuple[int, int] | None = None
    """User and group that a new file is to belong to, e.g. one that moves here."""


@dataclass(slots=True)
class _Step:
    change: Change
    folder: Folder
    staged: str | None = None
    aside: str | None = None
    done: bool = False

    @property
    def name(self) -> str:
        return self.change.path.name


def look_at(path: Path, home: Path) -> Snapshot | None:
    """The file at a real path as it is now; None if it, or a folder on the way, is not there."""
    try:
        with open_folder(path.parent) as folder:
            return take_snapshot(folder, path.name, own_databases(home))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain(error, path, "read") from error


def apply(
    changes: list[Change],
    *,
    home: Path,
    keep: Callable[[list[Change], list[Path]], None],
    stopped: Callable[[], bool] = lambda: False,
) -> list[Snapshot | None]:
    """Make all the changes or none of them; returns the files as they are afterwards.

    `keep` is called before anything is touched, with the changes and the folders that had to be
    made for them; if it fails, nothing is changed. Files in the Hermes home are made private.
    """
    with _EDITING, ExitStack() as stack:
        steps: list[_Step] = []
        made: list[Path] = []
        try:
            for change in changes:
                steps.append(_prepare(change, home, stack, made))
            for step in steps:
                _stage(step, home)
            keep(changes, made)
            if stopped():
                raise ToolError("Stopped before anything was written.")
            for step in steps:
                _commit(step, last=step is steps[-1])
        except BaseException:
            _undo(steps, made)
            raise
        return [_finish(step) for step in steps]


def _prepare(change: Change, home: Path, stack: ExitStack, made: list[Path]) -> _Step:
    try:
        opening = open_folder(
            change.path.parent,
            make=change.before is None and change.after is not None,
            private=change.path.is_relative_to(home),
        )
        folder = stack.enter_context(opening)
        made += folder.made
        if change.before and not os.access(change.path.name, os.W_OK, dir_fd=folder.fd):
            raise PermissionError(13, "it is read-only")
        check_unchanged(folder, change.path.name, change.before)
    except OSError as error:
        raise explain(error, change.path, "write") from error
    return _Step(change, folder)


def _stage(step: _Step, home: Path) -> None:
    change = step.change
    if change.after is None:
        return
    mode, owner = 0o600 if change.path.is_relative_to(home) else 0o666, change.owner
    if change.before:
        mode, owner = change.before.mode, change.before.owner
    if change.mode is not None:
        mode = change.mode
    try:
        step.staged = stage(step.folder, step.name, change.after, mode, owner)
    except OSError as error:
        raise explain(error, change.path, "write") from error


def _commit(step: _Step, *, last: bool) -> None:
    change, expected = step.change, step.change.before
    try:
        if expected and not last:
            step.aside, expected = set_aside(step.folder, step.name, expected)
        if step.staged:
            put(step.folder, step.staged, step.name, expected)
            step.staged = None
        elif expected:
            check_unchanged(step.folder, step.name, expected)
            os.unlink(step.name, dir_fd=step.folder.fd)
        step.done = True
    except OSError as error:
        raise explain(error, change.path, "write") from error


def _finish(step: _Step) -> Snapshot | None:
    try:
        if step.aside:
            discard(step.folder, step.aside)
        flush(step.folder)
        return take_snapshot(step.folder, step.name) if step.change.after is not None else None
    except OSError as error:
        # The edit is made; that it may not be durable yet, or left a second name, is for the log.
        log.warning("After editing %s: %s", step.change.path, error)
        return None


def _undo(steps: list[_Step], made: list[Path]) -> None:
    for step in reversed(steps):
        try:
            if step.done and step.aside:
                fd = step.folder.fd
                os.replace(step.aside, step.name, src_dir_fd=fd, dst_dir_fd=fd)
            elif step.done and step.change.before is None:
                discard(step.folder, step.name)
            elif step.aside:
                discard(step.folder, step.aside)
            if step.staged:
                discard(step.folder, step.staged)
        except OSError:
            log.exception("%s could not be put back", step.change.path)
    remove_empty(made)


def remove_empty(folders: list[Path]) -> None:
    """Remove folders that were made for files which are not there (any more), if empty."""
    for path in reversed(folders):
        try:
            with open_folder(path.parent) as parent:
                os.rmdir(path.name, dir_fd=parent.fd)
        except OSError as error:
            log.debug("%s stays: %s", path, error)
