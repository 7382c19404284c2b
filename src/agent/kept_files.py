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

MEDIA, SENT = "media", "sent"
FOLDERS = (MEDIA, "images", "uploads")
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


def limit_media(db: SessionDB, home: Path, days: int, most_bytes: int) -> int:
    """Delete files from chats that are older than `days`, and of each person's the oldest beyond
    `most_bytes`, whether a message names them or not; 0 is no limit. Returns how many."""
    files = sorted(_media(home))
    now = time.time()
    too_old = [path for changed, _, path in files if days and now - changed > days * 86_400]
    gone = set(too_old)
    if most_bytes and sum(size for _, size, _ in files) > most_bytes:  # else nobody can have more
        left = [file for file in files if file[2] not in gone]
        whose = _owners(db, home, [path for _, _, path in left])
        kept: dict[str, int] = {}
        for _, size, path in reversed(left):
            kept[whose[path]] = kept.get(whose[path], 0) + size
            if kept[whose[path]] > most_bytes:
                gone.add(path)
    deleted = 0
    for path in gone:
        try:
            path.unlink()
            deleted += 1
        except OSError as error:
            log.warning("%s could not be deleted: %s", path, error)
    if deleted:
        _remove_empty(home / MEDIA)
        log.info("%d files from chats were deleted: too old, or too much of one person's", deleted)
    return deleted


def _media(home: Path) -> Iterator[tuple[float, int, Path]]:
    """When each file from a chat was changed, its size, and where it is."""
    for path in (home / MEDIA).rglob("*"):
        with contextlib.suppress(OSError):  # one that vanishes meanwhile is nobody's loss
            if path.is_file() and not path.is_symlink() and path.parts[len(home.parts) + 1] != SENT:
                facts = path.stat()
                yield facts.st_mtime, facts.st_size, path


def _owners(db: SessionDB, home: Path, paths: list[Path]) -> dict[Path, str]:
    """Whose each file is: its conversation's owner, else the chat that it came from."""
    names = {path.relative_to(home).as_posix(): path for path in paths}
    naming = db.list_naming_conversations(list(names))
    owners: dict[str, str | None] = {}
    found = {}
    for name, path in names.items():
        conversation = next(iter(naming.get(name, ())), None)
        if conversation is not None and conversation not in owners:
            session = db.get_session(conversation)
            owners[conversation] = session["user_id"] if session else None
        owner = owners.get(conversation) if conversation is not None else None
        found[path] = owner or path.parent.relative_to(home).as_posix()
    return found


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
