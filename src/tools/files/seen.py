"""What the conversation has seen of which file, so that nothing is overwritten unseen.

A write that replaces a file needs that file to be as it was when it was read: otherwise it would
undo what somebody else did in the meantime.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..base import ToolError, Workspace
from .atomic import Snapshot

_STATE = "files_seen"
_REMEMBERED = 5_000
MASK = "***"
"""What stands for a secret in everything that models get to read."""


@dataclass(frozen=True, slots=True)
class _Seen:
    digest: str | None
    size: int
    mtime_ns: int
    inode: int


def remember(workspace: Workspace, path: Path, snapshot: Snapshot | None) -> None:
    """Note that the conversation knows a file as it is in this snapshot; None: that it is gone."""
    with workspace.lock:
        seen: dict[str, _Seen] = workspace.state.setdefault(_STATE, {})
        seen.pop(str(path), None)
        if snapshot is None:
            return
        info = snapshot.info
        seen[str(path)] = _Seen(snapshot.digest, info.st_size, info.st_mtime_ns, info.st_ino)
        while len(seen) > _REMEMBERED:
            del seen[next(iter(seen))]


def is_known(workspace: Workspace, path: Path, now: Snapshot) -> bool | None:
    """Whether a file is as it was when it was read; None if it was never read."""
    with workspace.lock:
        seen: _Seen | None = workspace.state.get(_STATE, {}).get(str(path))
    if seen is None:
        return None
    if seen.digest and now.digest:
        return seen.digest == now.digest
    info = now.info
    return (seen.size, seen.mtime_ns, seen.inode) == (info.st_size, info.st_mtime_ns, info.st_ino)


def check_known(workspace: Workspace, path: Path, now: Snapshot, doing: str) -> None:
    """ToolError unless the file was read in this conversation and is still the same."""
    if now.info.st_size == 0:
        return
    known = is_known(workspace, path, now)
    if known is None:
        raise ToolError(
            f"{path} exists and was not read in this conversation. Read it first with read_file, "
            f"so that {doing} it loses nothing, or choose another name."
        )
    if not known:
        raise ToolError(
            f"{path} was changed on disk since it was read; {doing} it would undo that change. "
            "Read it again with read_file, then repeat the edit on what is there now."
        )


def check_masks(before: str, after: str, path: Path) -> None:
    """ToolError if an edit would write the mask of a secret over the secret itself."""
    if MASK not in after:
        return
    old, new = before.split("\n"), after.split("\n")
    kept = set(old)
    gone = set(old) - set(new)
    for number, line in enumerate(new, 1):
        if MASK not in line or line in kept or len(line) > 2_000 or line.count(MASK) > 3:
            continue
        masks = _unmasked(line)
        if masks and any(masks(other) for other in gone):
            raise ToolError(
                f"Line {number} would replace a secret in {path} with {MASK!r}, which only stands "
                "for it in what you were shown. Edit the other lines with patch, leaving it alone."
            )


def _unmasked(line: str) -> Callable[[str], object] | None:
    """A test for the lines that this one could be the masked form of."""
    parts = line.split(MASK)
    if sum(len(part.strip()) for part in parts) < 3:
        return None
    return re.compile(r"\S{6,2000}".join(map(re.escape, parts))).fullmatch
