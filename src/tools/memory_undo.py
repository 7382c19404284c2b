"""Undoing what was learnt: one change of a space, as long as nothing was changed on top of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_base.files import private_folder, write_private

from . import shared_files
from .base import ToolError
from .memory import Operation, change_entries
from .memory_history import (
    Author,
    Change,
    digest_of,
    kept_file,
    last_to_undo,
    locked,
    new_change,
    note_skill_change,
    read_changes,
)
from .memory_scope import Space

if TYPE_CHECKING:
    from hermes_state import SessionDB


def undo_change(
    home: Path, places: Sequence[Space], db: SessionDB | None, wanted: str, author: Author
) -> Change:
    """Undo the change with this id, or the newest that was not undone; returns it.

    Raises ToolError if there is none, or it cannot be undone any more.
    """
    place, change = _find(home, places, wanted)
    if change.kind == "skill":
        shared_files.change(
            db, home, lambda: _restore(place.folder(home), change, author), [place.prefix]
        )
        return change
    operation = {
        "add": Operation(action="remove", old_text=change.after),
        "replace": Operation(action="replace", old_text=change.after, content=change.before),
        "remove": Operation(action="add", content=change.before),
    }[change.action]
    try:
        change_entries(
            home, change.kind, [operation], db, places=(place,), author=author, undoes=change.id
        )
    except ToolError as error:
        if change.action == "remove":
            raise
        raise ToolError(f"It was changed since: {change.after!r} is not there.") from error
    return change


def _find(home: Path, places: Sequence[Space], wanted: str) -> tuple[Space, Change]:
    candidates: list[tuple[Space, Change]] = []
    for place in places:
        changes = read_changes(place.folder(home))
        undone = {change.undoes for change in changes}
        if wanted:
            known = [change for change in changes if change.id.startswith(wanted)]
            candidates += [(place, change) for change in known]
            if any(change.id in undone for change in known):
                raise ToolError("That was undone already.")
        elif (last := last_to_undo(changes)) is not None:
            candidates.append((place, last))
    if not candidates or (wanted and len(candidates) > 1):
        raise ToolError(
            f"There is no one change {wanted!r}." if wanted else "There is nothing to undo."
        )
    return max(candidates, key=lambda candidate: candidate[1].at)


def _restore(folder: Path, change: Change, author: Author) -> None:
    """Make a skill's files what they were before a change."""
    top = folder / "skills"
    with locked(folder):
        now = {name: path.read_bytes() for name in change.files if (path := top / name).is_file()}
        then: dict[str, bytes] = {}
        for name, (was_there, became) in change.files.items():
            is_as_left = (digest_of(now[name]) if name in now else None) == became
            kept = kept_file(folder, change, name)
            if not is_as_left or (was_there and not kept.is_file()):
                raise ToolError(f"{name} was changed since, or was too large to be kept.")
            if was_there:
                then[name] = kept.read_bytes()
        undoing = new_change("skill", "undo", author, before=change.before, undoes=change.id)
        note_skill_change(folder, undoing, dict(now), dict(then))
        for name in change.files:
            path = top / name
            if name in then:
                private_folder(path.parent)
                is_program = then[name].startswith(b"#!")
                write_private(path, then[name], mode=0o700 if is_program else 0o600)
            else:
                path.unlink(missing_ok=True)
                _remove_empty(path.parent, top)


def _remove_empty(folder: Path, top: Path) -> None:
    while folder != top and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
