"""Which files a conversation wrote: by its file tools and, as far as is known, by its commands.

A program that it wrote itself and runs later is judged by what is in it: see `danger.own_files`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from .base import Workspace

_STATE = "written_files"
_MOST = 20_000
"""Files that are remembered; the oldest are forgotten first."""


def note_written(workspace: Workspace, paths: Iterable[str]) -> None:
    """Remember files as written by the conversation."""
    with workspace.lock:
        files: dict[str, None] = workspace.state.setdefault(_STATE, {})
        for path in paths:
            try:
                real = os.path.realpath(path)
            except OSError:  # e.g. /proc/1/root of somebody else: nothing was written there
                continue
            files.pop(real, None)
            files[real] = None
        while len(files) > _MOST:
            del files[next(iter(files))]


def written_files(workspace: Workspace) -> frozenset[str]:
    """The real paths of what the conversation wrote."""
    with workspace.lock:
        return frozenset(workspace.state.get(_STATE, ()))
