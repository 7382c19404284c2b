"""Files that came with messages: kept in the home for as long as a conversation needs them.

Pictures are part of the message that is stored; documents are named in it, and read by tools. An
old file that nothing names any more is deleted.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from hermes_state import SessionDB

log = logging.getLogger(__name__)

FOLDERS = ("media", "images", "uploads")
"""In the home: from chats, pasted pictures, other files given in a window."""


def prune_kept_files(db: SessionDB, home: Path, older_than_days: float) -> int:
    """Delete files that came with messages, were not touched for so long, and are named in no
    message that is left; returns how many."""
    before = time.time() - older_than_days * 86_400
    old = {path.relative_to(home).as_posix(): path for path in _files(home, before)}
    if not old:
        return 0
    deleted = 0
    for name in old.keys() - db.list_named_files(list(old)):
        try:
            old[name].unlink()
            deleted += 1
        except OSError as error:
            log.warning("%s could not be deleted: %s", old[name], error)
    for folder in FOLDERS:
        _remove_empty(home / folder)
    if deleted:
        log.info("%d files that no conversation names any more were deleted", deleted)
    return deleted


def _files(home: Path, before: float) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (home / folder).rglob("*"):
            # One that vanishes meanwhile is nobody's loss.
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink() and path.stat().st_mtime < before:
                    yield path


def _remove_empty(folder: Path) -> None:
    """Remove the folders below one that have nothing in them."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):  # it has something in it
                path.rmdir()
