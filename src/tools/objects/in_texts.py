"""Paths of objects in what models and tools write."""

from __future__ import annotations

import logging
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError

from ..base import ToolContext, ToolError
from ..own_folders import OUTPUT_FOLDER, output_folder_of
from . import FOLDERS, are_shared, find_file, put_if_new

if TYPE_CHECKING:
    from hermes_state import SessionDB

log = logging.getLogger(__name__)

_NAMED = re.compile(rf"(?<=/)(?:{'|'.join(FOLDERS)})/[\w.()+/-]+")
_PLAIN = re.compile(r"[\w./+@-]+")
_BOUNDS = frozenset(" \t\n'\"`<>|;&=,()[]{}")
"""What stands before a path in a command or a program."""
_LONGEST_BEFORE = 1024
_MOST_PATHS = 50
_ENDS = ".-+()/"
"""With which a sentence may end behind a name, and a name too."""


def localize(context: ToolContext, arguments: dict[str, Any]) -> dict[str, Any]:
    """A tool's arguments, with paths of files that other machines have put into the store as those
    of this one; the files are fetched. ToolError if one cannot be had."""
    if not are_shared(context.db):
        return arguments
    return {name: _localized(context, value) for name, value in arguments.items()}


def may_name_objects(value: Any) -> bool:
    """Whether there is a path in arguments that may be an object's; if not, nobody is asked."""
    if isinstance(value, str):
        return any(f"/{folder}/" in value for folder in FOLDERS)
    if isinstance(value, dict):
        return any(map(may_name_objects, value.values()))
    return isinstance(value, list) and any(map(may_name_objects, value))


def _localized(context: ToolContext, value: Any) -> Any:
    if isinstance(value, str):
        return _localized_text(context, value)
    if isinstance(value, list):
        return [_localized(context, item) for item in value]
    if isinstance(value, dict):
        return {name: _localized(context, item) for name, item in value.items()}
    return value


def _localized_text(context: ToolContext, text: str) -> str:
    if not may_name_objects(text):
        return text
    whole = _find(context, text.strip())
    if whole is not None:
        return text if str(whole) == text.strip() else str(whole)
    home = str(context.workspace.home)
    parts, at = [], 0
    for match in islice(_NAMED.finditer(text), _MOST_PATHS):
        start = _start(text, match.start(), at)
        if not text.startswith(("/", "~"), start):
            continue
        for end in _ends(match):
            file = _find(context, text[start:end])
            if file is not None:
                # In a command or a program: what would need quotes there stays as it was written.
                written = str(file) if _PLAIN.fullmatch(home) else text[start:end]
                parts += [text[at:start], written]
                at = end
                break
    return "".join([*parts, text[at:]])


def _start(text: str, at: int, after: int) -> int:
    """Where the path begins whose last part is at a place."""
    first = max(after, at - _LONGEST_BEFORE)
    while at > first and text[at - 1] not in _BOUNDS:
        at -= 1
    return at


def _ends(match: re.Match[str]) -> range:
    """Where the name may end, the longest first."""
    bare = match.start() + len(match[0].rstrip(_ENDS))
    return range(match.end(), max(bare, match.end() - 8) - 1, -1)


def _find(context: ToolContext, path: str) -> Path | None:
    assert context.db is not None
    if not path.startswith(("/", "~")) or "\n" in path:
        return None
    try:
        written = str(Path(path).expanduser())
        file = find_file(context.db, context.workspace.home, written, context.session_id)
    except (StoreError, OSError) as error:
        raise ToolError(f"{path} could not be fetched from the store: {error}") from error
    except (RuntimeError, ValueError):
        return None  # an unknown ~user, or characters that no path has: the tool says so itself
    return file


def put_pastes(db: SessionDB | None, home: Path, text: str, session_id: str) -> None:
    """Put the texts into the store that were pasted here and are named in a prompt."""
    if db is None or not are_shared(db) or "/pastes/" not in text:
        return
    for path in set(re.findall(rf"{re.escape(str(home / 'pastes'))}/[\w.()+-]+\.txt", text)):
        if Path(path).is_file():
            put_if_new(db, home, Path(path), session_id)


def put_output(db: SessionDB | None, home: Path, text: str, session_id: str) -> str:
    """A result that may name long output in the home, once that is in the store.

    What could not be put is said in the text, which is then all that other machines have: what a
    tool has done must not be lost with it.
    """
    if db is None or not are_shared(db) or OUTPUT_FOLDER not in text:
        return text
    try:
        folder = output_folder_of(home, db.get_conversation_root(session_id))
        named = re.findall(rf"{re.escape(str(folder))}/[\w.-]+\.txt", text)
        paths = [Path(path) for path in dict.fromkeys(named[:_MOST_PATHS])]
        # An empty file is that of a process that was just started: there is nothing to read yet.
        written = [path for path in paths if path.is_file() and path.stat().st_size]
        left = [path for path in written if not put_if_new(db, home, path, session_id)]
    except (StoreError, OSError) as error:
        log.warning("Long output could not be put into the store: %s", error)
        return f"{text}\n[Long output can be read on this machine only: {error}]"
    return "\n".join([text, *(f"[{path} can be read on this machine only]" for path in left)])
