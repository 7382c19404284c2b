"""What was learnt when, from which conversation, and by whom; so that it can be undone.

Each space has its history in `memories/history/`: `changes.jsonl` with a line for each change of
its memories and skills, and what a skill's files were before, in a folder named after the change.
Being files of the space, they go where it goes. A change of an entry is noted before it is made, of
a skill right after it. The newest `MOST` are kept.

Entries that nobody noted here were written by hand.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hermes_base import files
from hermes_base.files import private_folder, write_private

log = logging.getLogger(__name__)

MOST = 300
LARGEST_FILE = 1024 * 1024
"""Bytes of a skill's file that are kept for an undoing."""
LARGEST_LOG = 512 * 1024


class Author(NamedTuple):
    """Who or what made a change, and where."""

    how: str = "person"
    """agent (in a turn), review (beside it), person (by a command), import."""
    session_id: str = ""
    person: str | None = None
    """Whose words led to it; None for the operator's."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a space."""

    id: str
    at: float
    kind: str
    """memory, user, or skill."""
    action: str
    """add, replace, remove; for a skill create, edit, … as its tool calls it."""
    before: str = ""
    """An entry as it was; the name of a skill."""
    after: str = ""
    how: str = "person"
    session_id: str = ""
    person: str | None = None
    undoes: str = ""
    """The change that this one has undone."""
    files: dict[str, list[Any]] = field(default_factory=dict)
    """Of a skill, below `skills/`: whether the file was there, and the digest of what it became
    (None: nothing)."""


def new_change(kind: str, action: str, author: Author, **facts: Any) -> Change:
    """A change that is about to be made."""
    return Change(os.urandom(4).hex(), time.time(), kind, action, how=author.how,
                  session_id=author.session_id, person=author.person, **facts)  # fmt: skip


def locked(folder: Path) -> AbstractContextManager[None]:
    """Keep other processes from changing the space at the same time."""
    return files.locked(folder / "memories" / "MEMORY.lock")


def read_changes(folder: Path) -> list[Change]:
    """The changes of a space, the oldest first."""
    try:
        lines = _log(folder).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    names = {item.name for item in dataclasses.fields(Change)}
    changes = []
    for line in lines:
        try:
            kept = json.loads(line)
            changes.append(Change(**{name: kept[name] for name in kept if name in names}))
        except (ValueError, TypeError, KeyError) as error:
            log.warning("A line of %s cannot be read: %s", _log(folder), error)
    return changes


def note_changes(folder: Path, made: Sequence[Change]) -> None:
    """Add changes; the oldest go once there are too many."""
    if not made:
        return
    _write(folder, [*read_changes(folder), *made][-MOST:], len(made))


def erase(folder: Path, text: str) -> None:
    """Forget that an entry ever was."""
    changes = read_changes(folder)
    left = [change for change in changes if text not in (change.before, change.after)]
    if len(left) != len(changes):
        _write(folder, left, 0)


def _write(folder: Path, changes: list[Change], least: int) -> None:
    private_folder(_log(folder).parent)
    lines = [json.dumps(dataclasses.asdict(change)) for change in changes]
    while len(lines) > least and sum(map(len, lines)) > LARGEST_LOG:
        del lines[0], changes[0]
    write_private(_log(folder), "".join(f"{line}\n" for line in lines))
    kept = {change.id for change in changes}
    for path in _log(folder).parent.iterdir():
        if path.is_dir() and path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


def origin_of(changes: Sequence[Change], kind: str, text: str) -> Change | None:
    """The change by which an entry came to be as it is; None if it was written by hand."""
    return next((c for c in reversed(changes) if c.kind == kind and c.after == text), None)


def last_to_undo(changes: Sequence[Change]) -> Change | None:
    """The newest change that was not undone, and is no undoing itself."""
    undone = {change.undoes for change in changes}
    return next((c for c in reversed(changes) if not c.undoes and c.id not in undone), None)


# Files of skills

Snapshot = dict[str, bytes | None]
"""Files below `skills/` with what is in them; None for one that is too large to be kept."""


def snapshot(folder: Path, skill: Path) -> Snapshot:
    """The files of a skill; none if it is not there."""
    top = folder / "skills"
    return {
        path.relative_to(top).as_posix(): path.read_bytes()
        if path.stat().st_size <= LARGEST_FILE
        else None
        for path in sorted(skill.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def note_skill_change(
    folder: Path, change: Change, before: Snapshot, after: Snapshot
) -> Change | None:
    """Note what was done to a skill's files, and keep what they were; None if nothing was."""
    changed = {
        name: [name in before, digest_of(after.get(name)) if name in after else None]
        for name in sorted({*before, *after})
        if before.get(name, b"") != after.get(name, b"") or (name in before) != (name in after)
    }
    if not changed:
        return None
    for name in changed:
        content = before.get(name)
        if content is not None:
            path = kept_file(folder, change, name)
            private_folder(path.parent)
            write_private(path, content)
    noted = dataclasses.replace(change, files=changed)
    note_changes(folder, [noted])
    return noted


def digest_of(content: bytes | None) -> str:
    """What a file's content is recognised by."""
    return hashlib.sha256(content or b"").hexdigest()


def kept_file(folder: Path, change: Change, name: str) -> Path:
    """Where a file is kept as it was before a change."""
    return _log(folder).parent / change.id / f"{name}.before"


def _log(folder: Path) -> Path:
    return folder / "memories" / "history" / "changes.jsonl"
