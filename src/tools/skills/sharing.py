"""Skills that a person gives to everybody, or forgets, by a command; both can be undone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_base.files import private_folder

from .. import shared_files
from ..base import ToolError
from ..memory_history import Author, locked, new_change, note_skill_change, snapshot
from ..memory_scope import SHARED, Space, Spaces
from .index import list_skills

if TYPE_CHECKING:
    from hermes_state import SessionDB


def share_skill(home: Path, db: SessionDB | None, spaces: Spaces, name: str) -> None:
    """Move a skill to the shared ones; ToolError if there is none, or there is one of that name."""
    places = (*spaces.own, SHARED)

    def move() -> None:
        place, folder = _find(home, spaces.own, name)
        if any(skill.name == name for skill in list_skills(SHARED.folder(home) / "skills")):
            raise ToolError(f"Everybody has a skill {name!r} already. Remove that first.")
        own, top = place.folder(home), SHARED.folder(home)
        target = top / "skills" / folder.relative_to(own / "skills")
        with locked(own), locked(top):
            before = snapshot(own, folder)
            private_folder(target.parent)
            shutil.copytree(folder, target)
            for path in (target, *target.rglob("*")):
                path.chmod(path.stat().st_mode & 0o700)
            change = new_change("skill", "create", Author(), before=name)
            note_skill_change(top, change, {}, snapshot(top, target))
            shutil.rmtree(folder)
            change = new_change("skill", "delete", Author(), before=name)
            note_skill_change(own, change, before, {})

    shared_files.change(db, home, move, [place.prefix for place in places])


def remove_skill(home: Path, db: SessionDB | None, places: Sequence[Space], name: str) -> None:
    """Forget a skill; ToolError if there is none."""

    def remove() -> None:
        place, folder = _find(home, places, name)
        top = place.folder(home)
        with locked(top):
            before = snapshot(top, folder)
            shutil.rmtree(folder)
            change = new_change("skill", "delete", Author(), before=name)
            note_skill_change(top, change, before, {})

    shared_files.change(db, home, remove, [place.prefix for place in places])


def _find(home: Path, places: Sequence[Space], name: str) -> tuple[Space, Path]:
    names = []
    for place in places:
        for skill in list_skills(place.folder(home) / "skills"):
            if skill.name == name:
                return place, skill.folder
            names.append(skill.name)
    raise ToolError(f"There is no skill {name!r} that could be changed. {', '.join(names)}".strip())
