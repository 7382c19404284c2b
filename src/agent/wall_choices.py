"""What a person decides about a conversation's wall: its mode, and the folders they add.

Every front end goes through here. A choice is stored with the conversation: an agent in this
process follows at once, also in the middle of a turn, any other with its next turn.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tools.modes import MODES

from .access import OPERATORS, Access

if TYPE_CHECKING:
    from hermes_state import SessionDB
    from tools.base import Mode

    from .config import Config


class WallChoiceError(ValueError):
    """Something that cannot be chosen; the message says what can."""


def mode_named(name: str) -> Mode:
    """A mode by its name, as people type it; WallChoiceError if there is none."""
    word = name.strip().lower()
    if word not in MODES:
        raise WallChoiceError(f"There is no mode {word[:40]!r}. There are {', '.join(MODES)}.")
    return word


def mode_of(db: SessionDB, config: Config, session_id: str, access: Access = OPERATORS) -> Mode:
    """The mode of a session's conversation: the chosen one, or the configured one, as far as its
    person may use it."""
    kept = db.get_wall_settings(session_id)["mode"]
    configured = access.mode or config.terminal.mode
    return access.permissions.nearest_mode(cast("Mode", kept if kept in MODES else configured))


def choose_mode(db: SessionDB, session_id: str, mode: Mode, agent: Any = None) -> None:
    """Keep a mode with a conversation, and have its agent follow."""
    db.set_wall_mode(session_id, mode)
    if agent is not None:
        agent.follow_wall()


def added_folders(db: SessionDB, session_id: str) -> list[Path]:
    """The folders that were added to a session's conversation."""
    return [Path(folder) for folder in db.get_wall_settings(session_id)["folders"]]


def configured_folders(config: Config) -> list[Path]:
    """The folders that every conversation may write to."""
    return [Path(folder).expanduser() for folder in config.terminal.folders]


def add_folders(
    db: SessionDB, session_id: str, folders: list[Path], agent: Any = None
) -> list[Path]:
    """Let a conversation write to further folders; returns all that were added to it."""
    return _keep(db, session_id, [*added_folders(db, session_id), *folders], agent)


def remove_folder(db: SessionDB, session_id: str, folder: Path, agent: Any = None) -> list[Path]:
    """Take a folder back; WallChoiceError if it was not added. Returns what is left."""
    added = added_folders(db, session_id)
    if folder not in added:
        raise WallChoiceError(f"{str(folder)[:200]} was not added to this conversation.")
    return _keep(db, session_id, [path for path in added if path != folder], agent)


def _keep(db: SessionDB, session_id: str, folders: list[Path], agent: Any) -> list[Path]:
    kept = list(dict.fromkeys(folders))
    db.set_wall_folders(session_id, [str(folder) for folder in kept])
    if agent is not None:
        agent.follow_wall()
    return kept


def folder_named(text: str, base: Path, home: Path) -> Path:
    """The real path of a folder that may be added; WallChoiceError if it may not.

    `base` is what a relative path is seen from, `home` the Hermes home, which is the
    agent's own.
    """
    folder, own = real_folder(text, base), home.resolve()
    if not os.path.isdir(folder):  # noqa: PTH112 - of a name that is too long, Path.is_dir raises
        shown = str(folder)[:200]
        raise WallChoiceError(f"{shown} is not a folder. Make it first, or check the path.")
    if folder == Path("/"):
        raise WallChoiceError("The whole machine cannot be added. Name a folder of it.")
    if folder == own or own in folder.parents:
        raise WallChoiceError(f"{folder} belongs to the agent itself ({own}): it cannot be added.")
    if folder in own.parents:
        raise WallChoiceError(
            f"{folder} cannot be added: the agent's own files ({own}) are in it. Name a folder"
            " beside them."
        )
    return folder


def real_folder(text: str, base: Path) -> Path:
    """Where a path that a person typed leads, whether or not something is there."""
    try:
        return Path(os.path.realpath(base / Path(text.strip()).expanduser()))
    except (RuntimeError, ValueError) as error:  # an unknown ~user, a null byte
        raise WallChoiceError(f"{text[:200]!r} cannot be a folder: {error}") from error
