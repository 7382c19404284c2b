"""What a live session may do: its mode and folders, changed for everybody who watches it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import live
from .hub import Hub, Session

if TYPE_CHECKING:
    from tools.base import Mode


def set_mode(hub: Hub, sid: str, session: Session, mode: Mode) -> None:
    """Choose a session's mode, at once also for a running turn, and tell its clients."""
    from agent.wall_choices import choose_mode

    choose_mode(hub.get_db(), live.current_key(session), mode, session.get("agent"))
    session["mode"] = mode
    _tell(hub, sid, session)


def add_folders(hub: Hub, sid: str, session: Session, folders: list[Path]) -> None:
    """Let a session write to further folders."""
    from agent.wall_choices import add_folders

    agent, key = session.get("agent"), live.current_key(session)
    session["folders"] = add_folders(hub.get_db(), key, folders, agent)
    _tell(hub, sid, session)


def remove_folder(hub: Hub, sid: str, session: Session, folder: Path) -> None:
    """Take a folder back; WallChoiceError if it was not added."""
    from agent.wall_choices import remove_folder

    agent, key = session.get("agent"), live.current_key(session)
    session["folders"] = remove_folder(hub.get_db(), key, folder, agent)
    _tell(hub, sid, session)


def revive(hub: Hub, session: Session) -> None:
    """Bring a live session's copies up to date with what is kept with its conversation."""
    kept = hub.get_db().get_wall_settings(live.current_key(session))
    session["mode"], session["folders"] = kept["mode"] or None, kept["folders"]


def follow(hub: Hub, sid: str, session: Session) -> None:
    """Tell the clients what was decided elsewhere, when a turn begins that goes by it."""
    before = session.get("mode"), list(map(str, session.get("folders") or ()))
    revive(hub, session)
    if before != (session["mode"], session["folders"]):
        _tell(hub, sid, session)


def _tell(hub: Hub, sid: str, session: Session) -> None:
    hub.emit("session.info", sid, live.info(hub, sid, session))
