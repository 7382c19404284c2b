"""Personas: who the agent is in a conversation. Each is a text file in `personas/` of the home; who
it is otherwise stands in SOUL.md."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = "personas"
_NAME = re.compile(r"[\w-][\w .-]{0,59}")


def list_personas(home: Path) -> list[str]:
    """The names of the personas there are."""
    return sorted(path.stem for path in (home / FOLDER).glob("*.md") if _is_name(path.stem))


def persona_path(home: Path, name: str) -> Path | None:
    """The file of a persona; None if there is no such persona."""
    path = home / FOLDER / f"{name}.md"
    return path if _is_name(name) and path.is_file() else None


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
